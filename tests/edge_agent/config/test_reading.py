"""The files as a running agent reads them: all of a moment, or the reason why not."""

import os
import threading
from pathlib import Path

import pytest
import trustme

from edge_agent.config.change import AddCameras, SetServer, perform
from edge_agent.config.reading import keep, look, read, read_kept
from edge_agent.config.secrets import secrets_path
from edge_agent.errors import ConfigError

SERVER = '[server]\naddress = "127.0.0.1:1"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    perform(path, SetServer({"address": "127.0.0.1:1"}))
    perform(path, AddCameras({"door": {"url": "rtsp://h/s", "user": "u"}}, {"door": "canary"}))
    return path


def test_everything_of_a_moment(path: Path) -> None:
    """Configuration, passwords, authorities."""
    trustme.CA().cert_pem.write_to_path(str(path.with_name("ca.pem")))
    perform(path, SetServer({"address": "central:1", "ca": "ca.pem"}))

    found = read(path)

    assert found.config.cameras["door"].user == "u"
    assert found.secrets.password("door") == "canary"
    assert found.authorities == path.with_name("ca.pem").read_bytes()
    assert found.marks == look(path, str(path.with_name("ca.pem")))
    assert "canary" not in repr(found)


def test_a_passwords_file_that_has_gone_takes_no_password_away(path: Path) -> None:
    """Of an agent that runs; at the start there is none to lose."""
    before = read(path)
    secrets_path(path).unlink()

    with pytest.raises(ConfigError, match="is gone; it had the password of door"):
        read(path, before=before)
    assert read(path).secrets.password("door") is None


def test_the_last_camera_may_go_while_it_runs(path: Path) -> None:
    """Only the start demands one; a file that is not there, or empty, is no configuration."""
    before = read(path)
    path.write_text(SERVER)

    assert not read(path, before=before).config.cameras
    with pytest.raises(ConfigError, match="no camera yet"):
        read(path)
    for away in (lambda: path.write_text(""), path.unlink):
        away()
        with pytest.raises(ConfigError):
            read(path, before=before)


def test_authorities_that_are_none(path: Path) -> None:
    """Said with the file's name."""
    path.with_name("ca.pem").write_text("nothing")
    perform(path, SetServer({"address": "central:1", "ca": "ca.pem"}))

    with pytest.raises(ConfigError, match=r"server.ca: .*ca\.pem: found no certificate"):
        read(path)


def test_what_was_in_use_is_kept_and_read_when_the_file_cannot_be(path: Path, tmp_path: Path) -> None:
    """With today's passwords, and with what it names meant from the file's own place."""
    kept = tmp_path / "elsewhere" / "last-good.toml"
    with pytest.raises(ConfigError, match="no configuration was in use before"):
        read_kept(path, kept)

    good = read(path)
    keep(path, kept, good.config)
    path.write_text("")

    assert read_kept(path, kept).config == good.config
    assert read_kept(path, kept).secrets.password("door") == good.secrets.password("door")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_what_was_never_in_use_is_not_kept(path: Path, tmp_path: Path) -> None:
    """A file that is another by now, or can no longer be read; nor is the lack of room an error."""
    kept = tmp_path / "last-good.toml"
    good = read(path)
    path.write_text(path.read_text() + '[cameras.new]\nurl = "rtsp://h/new"\n')
    keep(path, kept, good.config)
    path.write_text("nonsense")
    keep(path, kept, good.config)

    assert not kept.exists()
    keep(path, Path("/proc/nowhere/kept.toml"), good.config)


def test_marks_tell_every_way_to_write(path: Path) -> None:
    """In place, by another file in its place, gone; a read changes nothing."""
    seen = [look(path)]
    read(path)
    assert look(path) == seen[0]

    path.write_text(path.read_text() + "# more\n")
    seen.append(look(path))
    other = path.with_name("other")
    other.write_text(path.read_text())
    other.replace(path)
    seen.append(look(path))
    secrets_path(path).write_text("[cameras]\n")
    seen.append(look(path))
    path.unlink()
    seen.append(look(path))

    assert len(set(seen)) == 5


def test_what_is_read_belongs_together(path: Path) -> None:
    """While another writes the file again and again, each reading is one of the states that there were."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.02):
            number += 1
            text = SERVER + "".join(
                f'[cameras.c{index}]\nurl = "rtsp://h/{number}"\n' for index in range(number % 5 + 1)
            )
            temporary = path.with_name("new")
            temporary.write_text(text)
            os.replace(temporary, path)  # noqa: PTH105 - as editors do

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            cameras = read(path).config.cameras
            assert len({camera.url for camera in cameras.values()}) == 1
    finally:
        stop.set()
        writer.join()
