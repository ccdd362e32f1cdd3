"""A password stands in its own file and nowhere else, whatever way it was given and whatever goes wrong."""

import base64
import contextlib
import hashlib
import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from edge_agent.control.client import ask
from edge_agent.rtsp.auth import REALM, Credentials
from edge_agent.rtsp.faults import Faults
from tests.conftest import StartServer, script
from tests.demo_cameras import DemoCameras
from tests.edge_agent.capture.mjpeg_server import MjpegCamera, serving
from tests.edge_agent.capture.test_redirect import redirect, speaking
from tests.pictures import jpeg
from tests.system.conftest import Gateway

USER = "keeper"
CANARY = "Zq7:c@nary/?#%^!&=+~"
OTHER = "another"


def forms_of(password: str) -> Iterator[str]:
    """Give the ways in which a password could show in a text."""
    yield from (password, quote(password), quote(password, safe=""), quote(password, safe="/:@"))
    yield from (repr(password)[1:-1], json.dumps(password)[1:-1])
    for text in (password, f"{USER}:{password}"):
        for padding in range(3):
            # Wherever in a longer text it begins, base64 of it contains one of three middles.
            yield base64.b64encode(b"x" * padding + text.encode()).decode()[4:-4]
    for realm in (REALM, "camera"):
        # What Digest makes of it is as good as the password itself.
        yield hashlib.md5(f"{USER}:{realm}:{password}".encode(), usedforsecurity=False).hexdigest()


FORMS = frozenset(forms_of(CANARY))


class Field:
    """A gateway whose commands are watched: what they print, and what the system shows of them."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.seen: dict[str, str] = {}

    def command(self, *arguments: str, typed: str | None = None, expect: int | None = 0) -> str:
        """Run a command; what it printed, and its line in the process list, are kept to be searched."""
        whole = [
            script("edge-agent"),
            "--log-level",
            "debug",
            "--config",
            str(self.gateway.config),
            *arguments,
        ]
        process = subprocess.Popen(
            whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        listed = [process_line(process.pid)]
        said, errors = process.communicate(typed, timeout=110)
        if not any(f"//{USER}:" in argument for argument in arguments):
            self.note(f"process list of {arguments[:2]}", " ".join(listed))
        self.note(f"output of {arguments}"[:60], said + errors)
        assert expect is None or process.returncode == expect, errors
        return said

    def note(self, where: str, text: str) -> None:
        """Keep a text."""
        self.seen[where] = self.seen.get(where, "") + text

    def prompted(self, *arguments: str, password: str) -> None:
        """Run a command that asks for the password on a terminal."""
        ours, its = pty.openpty()
        process = subprocess.Popen(
            [script("edge-agent"), "--config", str(self.gateway.config), *arguments],
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        shown = ""
        while "Password of" not in shown:
            shown += os.read(ours, 1000).decode()
        self.note("process list of the prompt", process_line(process.pid))
        # The terminal's echo goes off with the prompt.
        time.sleep(0.2)
        os.write(ours, password.encode() + b"\n")
        with contextlib.suppress(OSError):
            while more := os.read(ours, 1000):
                shown += more.decode()
        assert process.wait(60) == 0, shown
        os.close(ours)
        self.note("terminal of the prompt", shown)

    def leaks(self) -> list[str]:
        """Name what holds the password in any form."""
        return [f"{where}: {form}" for where, text in self.seen.items() for form in FORMS if form in text]


def process_line(pid: int) -> str:
    """Give a process's command line, as everybody on the machine can read it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@pytest.fixture
def urls(walkers: Path) -> Iterator[dict[str, str]]:
    """Give a camera for each way to be well or in trouble, all of them asking for a password."""
    right = {scheme: Credentials(user=USER, password=CANARY, scheme=scheme) for scheme in ("basic", "digest")}
    wrong = Credentials(user=USER, password=OTHER, scheme="basic")
    with DemoCameras() as cameras, contextlib.ExitStack() as stack:

        def serve(credentials: Credentials, **faults: Any) -> str:
            return cameras.serve(walkers, credentials=credentials, faults=Faults(**faults)).url

        def http(**does: Any) -> str:
            return stack.enter_context(serving(MjpegCamera([jpeg()], **does))).url

        def answers(answer: bytes) -> str:
            return f"rtsp://127.0.0.1:{stack.enter_context(speaking(lambda _: answer))}/live"

        yield {
            "basic": serve(right["basic"]),
            "digest": serve(right["digest"]),
            "wrong": serve(wrong),
            "silent": serve(right["basic"], silent_from="PLAY"),
            "stalled": serve(right["digest"], stall_after_frames=2),
            "sdp": serve(right["basic"], malformed_sdp="unknown codec"),
            "cut": serve(right["basic"], malformed_sdp="cut off"),
            "away": "rtsp://camera.invalid/live",
            "refused": "rtsp://127.0.0.1:1/live",
            "moved": answers(redirect(f"rtsp://{USER}:{quote(CANARY, safe='')}@127.0.0.1:1/live")),
            "lost": answers(b"RTSP/1.0 404 Not Found\r\nCSeq: 1\r\n\r\n"),
            "http": http(user=USER, password=CANARY, scheme="basic"),
            "http-wrong": http(user=USER, password=OTHER, scheme="digest"),
            "http-lost": http(status=404),
            "http-moved": http(redirect_to=f"http://{USER}:{quote(CANARY, safe='')}@127.0.0.1:1/"),
            "http-page": http(is_web_page=True),
        }


def with_password(url: str, password: str) -> str:
    """Put user and password into a URL."""
    scheme, rest = url.split("://")
    return f"{scheme}://{USER}:{password}@{rest}"


@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_search_finds_each_form(gateway: Gateway, form: str) -> None:
    """Wherever in a text it stands."""
    field = Field(gateway)
    field.note("log", f"x{form}y")

    assert field.leaks()


def test_a_password_is_nowhere_but_in_its_own_file(
    gateway: Gateway, start_server: StartServer, urls: dict[str, str], tmp_path: Path
) -> None:
    """Logs at debug level, status, doctor, process list, spool, results, and every error that has a URL."""
    field = Field(gateway)
    server = start_server("--detector", "simulated:1")
    password = tmp_path / "secret" / "password"
    password.parent.mkdir()
    password.write_text(CANARY)
    patience = ("--connect-timeout-s", "0.5", "--read-timeout-s", "0.5", "--fps", "2")
    field.command("set-server", server.address)

    # Before an agent runs: by a file, standard input, a prompt, and in the URL in both spellings.
    field.command("add-camera", "basic", urls["basic"], "--user", USER, "--password-file", str(password))
    field.command(
        "add-camera", "digest", urls["digest"], "--user", USER, "--password-file", "-", typed=CANARY
    )
    field.prompted("add-camera", "wrong", urls["wrong"], "--user", USER, password=CANARY)
    field.command("add-camera", "silent", with_password(urls["silent"], CANARY), *patience)
    field.command("add-camera", "stalled", with_password(urls["stalled"], quote(CANARY, safe="")), *patience)
    field.command("add-camera", "bad", with_password("rtsp://h:99999/x", CANARY), expect=2)
    field.command("add-camera", "bad", with_password("nothing://h/x", CANARY), expect=2)

    agent = gateway.start(log_level="debug")
    gateway.wait_for_more(2, "digest")
    gateway.wait_for_more(2, "basic")
    # While it runs: a table of cameras, and the same ways through its socket.
    table = tmp_path / "secret" / "cameras.csv"
    others = [name for name in urls if name not in ("basic", "digest", "wrong", "silent", "stalled")]
    patience_s = {name: 5.0 if name == "http" else 0.5 for name in others}
    rows = "".join(
        f'{name},{urls[name]},{USER},"{CANARY}",2,{patience_s[name]},{patience_s[name]}\n' for name in others
    )
    table.write_text("name,url,user,password,fps,connect-timeout-s,read-timeout-s\n" + rows)
    field.command("import-cameras", str(table))
    field.command("import-cameras", str(table), expect=1)
    field.command("set-camera", "basic", "--password-file", "-", typed=CANARY)
    field.prompted("set-camera", "digest", "--user", USER, password=CANARY)
    field.command("set-camera", "stalled", "--url", with_password(urls["stalled"], CANARY))
    field.command("set-camera", "basic", "--unset", "user", "--password-file", str(password), expect=2)
    gateway.wait_for_more(2, "http")
    # Otherwise nothing would have been tried.
    gateway.wait_for(lambda: _are_as_they_should(states_of(gateway)), "each camera in its state")

    field.note("process list of the agent", process_line(agent.process.pid))
    _ask_everything(field)
    gateway.stop()
    _collect_files(field, tmp_path)
    field.note("log of the agent", "\n".join(agent.errors + agent.lines))
    field.note("log of the server", "\n".join(server.errors + server.lines))

    assert not field.leaks()
    assert "Authorization:" not in "".join(field.seen.values())
    assert CANARY in (tmp_path / "agent.secrets.toml").read_text()
    assert "DEBUG" in field.seen["log of the agent"]


def states_of(gateway: Gateway) -> dict[str, str]:
    told = ask(gateway.config, {"command": "status"})
    return {camera["name"]: camera["state"] for camera in told["cameras"]}


def _are_as_they_should(states: dict[str, str]) -> bool:
    well, refused = ("basic", "digest", "http"), ("wrong", "http-wrong")
    troubled = states.keys() - {*well, *refused, "stalled"}
    return (
        all(states[name] == "streaming" for name in well)
        and all(states[name] == "authentication failed" for name in refused)
        and all(states[name] not in ("streaming", "connecting") for name in troubled)
    )


def _ask_everything(field: Field) -> None:
    """Ask in every way that there is."""
    field.command("status", "--json", expect=3)
    field.command("status", expect=3)
    watching = [script("edge-agent"), "--config", str(field.gateway.config), "status", "--watch", "--json"]
    with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        field.note("status --watch", process.stdout.readline() + process.stdout.readline())
        process.terminate()
    tried = ("wrong", "sdp", "lost", "moved", "http-lost", "http-moved", "away")
    commands: list[tuple[int, tuple[str, ...]]] = [
        (1, ("doctor",)),
        (1, ("doctor", "wrong", "silent", "--json")),
        *((1, ("test-camera", name)) for name in tried),
        *((0, ("show-camera", name, "--json")) for name in ("basic", "sdp")),
        (0, ("list-cameras",)),
        (0, ("list-cameras", "--json")),
    ]
    with ThreadPoolExecutor(4) as pool:
        for asked in [pool.submit(field.command, *words, expect=code) for code, words in commands]:
            asked.result()


def _collect_files(field: Field, folder: Path) -> None:
    """Note every file that the agent has left, but for the passwords' own and what the test has written."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "agent.secrets.toml" and path.parent.name != "secret":
            field.note(str(path.relative_to(folder)), path.read_bytes().decode("latin-1"))
    assert any("spool" in where for where in field.seen)
    assert "results.jsonl" in field.seen
