"""The configuration of a running agent: followed, changed, and left as it was for what cannot be used."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from edge_agent import live
from edge_agent.config import reading
from edge_agent.config.change import AddCameras, RemoveCamera, SetCamera, SetServer, perform
from edge_agent.config.reading import Reading
from edge_agent.config.secrets import secrets_path
from edge_agent.errors import ConfigError
from edge_agent.file_thread import MOST_WAITING, FileThread
from edge_agent.live import LiveConfiguration
from tests.polling import until

LOOK_PERIOD_S = 0.15
SHIPPED_LOOK_PERIOD_S = live.LOOK_PERIOD_S


class Rig:
    """A live configuration that is followed, with what it has put into effect."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.applied: list[Reading] = []
        self.refusal = ""
        self.files = FileThread()
        self.live = LiveConfiguration(
            path, reading.read(path), self.files, self._apply, path.parent / "kept.toml"
        )

    async def _apply(self, new: Reading) -> None:
        if self.refusal:
            raise ConfigError(self.refusal)
        self.applied.append(new)

    @property
    def cameras(self) -> list[str]:
        """Of what is in effect."""
        return list(self.live.current.config.cameras)


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(live, "LOOK_PERIOD_S", LOOK_PERIOD_S)
    monkeypatch.setattr(live, "RETRY_PERIOD_S", LOOK_PERIOD_S)
    path = tmp_path / "agent.toml"
    perform(path, SetServer({"address": "127.0.0.1:1"}))
    perform(path, AddCameras({"door": {"url": "rtsp://h/s", "user": "u"}}, {"door": "secret"}))
    rig = Rig(path)
    following = asyncio.create_task(rig.live.follow())
    yield rig
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    rig.files.close()


def add(text: str, name: str) -> str:
    return f'{text}\n[cameras.{name}]\nurl = "rtsp://h/s"\n'


async def test_an_edit_takes_effect_however_it_is_saved(rig: Rig) -> None:
    """In place, or by another file in its place; the passwords' file as well."""
    rig.path.write_text(add(rig.path.read_text(), "a"))
    await until(lambda: rig.cameras == ["door", "a"], "written in place")
    other = rig.path.with_name("agent.toml~")
    other.write_text(add(rig.path.read_text(), "b"))
    other.replace(rig.path)
    await until(lambda: rig.cameras == ["door", "a", "b"], "replaced")
    secrets_path(rig.path).write_text('[cameras]\ndoor = "other"\n')
    await until(lambda: rig.live.current.secrets.password("door") == "other", "the password")

    assert len(rig.applied) == 3
    assert not rig.live.error
    # Two looks find the same, and the rest of the promised second is for reading and checking.
    assert 2 * SHIPPED_LOOK_PERIOD_S < 1.0


async def test_a_bad_file_is_told_once_and_changes_nothing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """With its line and column, until it is mended; so with one that is empty, or away for a moment."""
    caplog.set_level(logging.INFO)
    good = rig.path.read_text()
    for bad, expected in (
        (good + "fps = 1000\n", "agent.toml:7:1: cameras.door.fps: found 1000"),
        (good + "[cameras.yard\n", "agent.toml:7:14: "),
        ("", "agent.toml: no central server is set"),
        (None, "agent.toml: no configuration here"),
    ):
        rig.path.unlink() if bad is None else rig.path.write_text(bad)
        await until(lambda: expected in rig.live.error, expected)  # noqa: B023 - awaited at once
        # Long enough for it to be told again, if it were.
        await asyncio.sleep(1.5 * LOOK_PERIOD_S)
    rig.path.write_text(good)
    await until(lambda: not rig.live.error, "the good file")

    told = [record for record in caplog.messages if "stays as it was" in record]
    assert len(told) == 4
    assert "the configuration is in order again" in caplog.messages
    assert all(found.config.cameras.keys() == {"door"} for found in rig.applied)
    assert all(found.secrets.password("door") == "secret" for found in rig.applied)


async def test_what_has_gone_wrong_beside_the_files_is_tried_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """The authorities' file, or what refused a change: told once, and read when it is well again."""
    authorities = rig.path.with_name("central.pem")
    rig.path.write_text(rig.path.read_text().replace("[cameras", f'ca = "{authorities}"\n\n[cameras', 1))
    await until(lambda: "central.pem: No such file" in rig.live.error, "no authorities")
    await asyncio.sleep(4 * LOOK_PERIOD_S)
    assert sum("stays as it was" in message for message in caplog.messages) == 1
    authorities.write_bytes(trustme.CA().cert_pem.bytes())
    await until(lambda: not rig.live.error, "the authorities")

    rig.refusal = "not now"
    before = rig.live.current
    with pytest.raises(ConfigError, match="it is written, and not in effect: not now"):
        await rig.live.change(SetCamera("door", {"fps": 3.0}))
    assert rig.live.error == "not now"
    assert rig.live.current is before
    rig.refusal = ""
    await until(lambda: rig.live.current.config.cameras["door"].fps == 3.0, "the change")


async def test_authorities_that_are_renewed_take_effect(rig: Rig) -> None:
    """In the file that is named, with the configuration as it was; once."""
    authorities = rig.path.with_name("central.pem")
    first, second = (trustme.CA().cert_pem.bytes() for _ in range(2))
    authorities.write_bytes(first)
    await rig.live.change(SetServer({"address": "127.0.0.1:1", "ca": str(authorities)}))
    authorities.write_bytes(second)
    await until(lambda: rig.live.current.authorities == second, "the second")
    await asyncio.sleep(3 * LOOK_PERIOD_S)

    assert [found.authorities for found in rig.applied] == [first, second]


async def test_a_pipe_in_the_files_place_is_refused(rig: Rig) -> None:
    """One that nobody writes: told, and what comes in its place is read."""
    text = rig.path.read_text()
    rig.path.unlink()
    os.mkfifo(rig.path)
    await until(lambda: "a pipe or a device, expected a file" in rig.live.error, "the pipe")
    rig.path.unlink()
    rig.path.write_text(text)
    await until(lambda: not rig.live.error, "the file")


async def test_a_file_being_written_is_left_alone(rig: Rig) -> None:
    """An editor that truncates and writes piece by piece: nothing between is put into effect."""
    text = add(add(rig.path.read_text(), "a"), "b")
    with rig.path.open("w") as file:
        for piece in text.splitlines(keepends=True):
            file.write(piece)
            file.flush()
            await asyncio.sleep(LOOK_PERIOD_S / 5)
    await until(lambda: rig.cameras == ["door", "a", "b"], "all of it")

    assert [list(found.config.cameras) for found in rig.applied] == [["door", "a", "b"]]


async def test_a_change_is_in_effect_when_it_returns(rig: Rig) -> None:
    """In the files and in the agent; what cannot be made raises, and nothing is different."""
    await rig.live.change(SetCamera("door", {"fps": 3.0}, (), "new"))
    assert rig.applied[-1].config.cameras["door"].fps == 3.0
    assert rig.applied[-1].secrets.password("door") == "new"
    before = rig.path.read_bytes()
    with pytest.raises(ConfigError, match="unknown camera"):
        await rig.live.change(RemoveCamera("nowhere"))
    await rig.live.change(RemoveCamera("door"))

    assert before != rig.path.read_bytes()
    assert rig.cameras == []
    await asyncio.sleep(3 * LOOK_PERIOD_S)
    assert len(rig.applied) == 2, "what it wrote itself is no news"


async def test_changes_at_once_are_all_made(rig: Rig) -> None:
    """From many sides: one after the other, none lost."""
    changes = (AddCameras({f"c{number}": {"url": "rtsp://h/s"}}) for number in range(10))
    await asyncio.gather(*(rig.live.change(change) for change in changes))

    assert set(rig.cameras) == {"door", *(f"c{number}" for number in range(10))}
    assert rig.cameras == list(rig.applied[-1].config.cameras)


async def test_a_mount_that_hangs_holds_up_nothing_else(rig: Rig) -> None:
    """Work with the files that does not end: the loop goes on, and so does the end."""
    answers = threading.Event()
    hanging = asyncio.create_task(rig.files.do(answers.wait))
    await asyncio.sleep(3 * LOOK_PERIOD_S)
    waiting = [asyncio.create_task(rig.live.change(RemoveCamera("door"))) for _ in range(2)]
    direct = [asyncio.create_task(rig.files.do(os.getpid)) for _ in range(MOST_WAITING + 2)]
    await asyncio.sleep(0.1)
    refused = [task.exception() for task in direct if task.done()]

    assert rig.cameras == ["door"]
    assert refused
    assert all("have not answered for long" in str(error) for error in refused)
    for task in (hanging, *waiting, *direct):
        task.cancel()
    await asyncio.gather(hanging, *waiting, *direct, return_exceptions=True)
    # Let the thread go, which tests count.
    answers.set()
