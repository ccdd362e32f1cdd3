"""demo-camera and test-camera, against each other over real RTSP."""

import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.edge_agent.conftest import RunAgent

if TYPE_CHECKING:
    from tests.conftest import StartProgram

    StartDemo = Callable[..., str]

PASSWORD = "p@:/?#%^!w"
ENCODED = "p%40%3A%2F%3F%23%25%5E%21w"


@pytest.fixture
def start_demo(start_program: "StartProgram") -> "StartDemo":
    """Start `edge-agent demo-camera` and give the HOST:PORT/PATH of its URL."""

    def start(*arguments: str) -> str:
        camera = start_program("edge-agent", "demo-camera", *arguments)
        line: re.Match[str] = camera.wait_for_line(r"^listening rtsp://(127\.0\.0\.1:\d+/\S+)$")
        return line[1]

    return start


def test_the_packaged_clip_is_a_camera(start_demo: "StartDemo", run_agent: RunAgent, tmp_path: Path) -> None:
    """Without a file and without a password: codec, size, rate, first keyframe, and a picture."""
    place = start_demo()
    snapshot = tmp_path / "first.jpg"

    done = run_agent("test-camera", f"rtsp://{place}", f"--snapshot={snapshot}")

    assert (done.code, done.err) == (0, "")
    codec, size, rate, keyframe, saved = done.out.splitlines()
    assert codec == "codec:           H.264 over TCP"
    assert size == "size:            768 x 576 px"
    assert re.fullmatch(r"frame rate:      (9\.\d|10\.\d) frames/s", rate)
    assert re.fullmatch(r"first keyframe:  after \d+\.\d\d s", keyframe)
    assert saved == f"snapshot:        {snapshot}"
    assert snapshot.read_bytes().startswith(b"\xff\xd8\xff")


@pytest.mark.parametrize("scheme", ["basic", "digest"])
def test_a_password_opens_it_in_every_form(
    start_demo: "StartDemo", run_agent: RunAgent, tmp_path: Path, scheme: str
) -> None:
    """Percent-encoded, apart, raw by way of the configuration; a wrong one and none are refused by name."""
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    place = start_demo("--user=viewer", f"--password-file={file}", f"--auth={scheme}")

    for arguments in (
        (f"rtsp://viewer:{ENCODED}@{place}",),
        (f"rtsp://{place}", "--user=viewer", f"--password-file={file}", "--transport=udp"),
    ):
        done = run_agent("test-camera", *arguments, "--json")
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out).items() >= {"codec": "H.264", "width": 768, "height": 576}.items()

    assert run_agent("add-camera", "demo", f"rtsp://viewer:{PASSWORD}@{place}").code == 0
    assert run_agent("test-camera", "demo").code == 0

    wrong = run_agent("test-camera", f"rtsp://viewer:{PASSWORD}x@{place}")
    assert (wrong.code, wrong.out) == (1, "")
    assert "refuses the user or the password" in wrong.err
    assert run_agent("test-camera", f"rtsp://{place}").err.endswith("wants a user and password\n")
    assert PASSWORD not in wrong.err


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_demo_camera_ends_when_asked(start_program: "StartProgram", stop: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end it, with exit code 0 and not a word."""
    camera = start_program("edge-agent", "demo-camera")
    camera.wait_for_line("^listening")

    camera.signal(stop)

    assert camera.wait() == 0
    assert camera.errors == []


def test_a_port_in_use_is_one_clear_line(run_agent: RunAgent) -> None:
    """The address and the reason, exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run_agent("demo-camera", f"--listen=127.0.0.1:{port}")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"edge-agent: cannot listen on 127.0.0.1:{port}: ")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("demo-camera", "/nowhere/clip.mp4"), 1, "/nowhere/clip.mp4: cannot be read as a video"),
        (("demo-camera", "/etc/passwd"), 1, "/etc/passwd: cannot be read as a video"),
        (("demo-camera", "--listen=0.0.0.0:0"), 2, "--listen: 0.0.0.0 is not loopback: give --insecure"),
        (("demo-camera", "--listen=127.0.0.1"), 2, "--listen: the port is missing; expected HOST:PORT"),
        (
            ("demo-camera", "--listen=127.0.0.1:70000"),
            2,
            "--listen: the port is not a number from 0 to 65535",
        ),
        (("demo-camera", "--listen=::1:0"), 2, "--listen: an IPv6 host stands in brackets"),
        (("demo-camera", "--auth=magic"), 2, "'magic' is not one of 'basic', 'digest'"),
        (("demo-camera", "--password=hunter2"), 2, "a password needs a user"),
        (("test-camera", "yard"), 1, 'unknown camera "yard"; known: none'),
        (("test-camera", "yard", "--user=u"), 2, "is tried with its own options"),
        (("test-camera", "rtsp:///s"), 2, "URL: URL without host"),
        (("test-camera", "/nowhere/clip.mp4"), 2, "URL: there is no such file"),
        (("test-camera", "/dev/video63"), 1, "no such device: /dev/video63"),
        (("test-camera", "/etc/passwd"), 1, "/etc/passwd"),
    ],
)
def test_what_cannot_be_tried_is_one_clear_line(
    run_agent: RunAgent, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    """What was wrong, no traceback."""
    done = run_agent(*arguments)

    assert (done.code, done.out) == (code, "")
    first, *hint = done.err.splitlines()
    assert first.startswith("edge-agent: ")
    assert problem in first
    assert hint in ([], [f"Try 'edge-agent {arguments[0]} --help'."])


def test_a_camera_that_is_not_there_is_one_clear_line(run_agent: RunAgent) -> None:
    """Nothing listens on the port: refused at once, without the password."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    done = run_agent("test-camera", f"rtsp://viewer:hunter2@127.0.0.1:{port}/live")

    assert (done.code, done.out) == (1, "")
    assert str(port) in done.err
    assert "hunter2" not in done.err
    assert len(done.err.splitlines()) == 1
