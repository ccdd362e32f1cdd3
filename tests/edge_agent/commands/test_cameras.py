"""add-camera, set-camera, remove-camera, list-cameras, show-camera."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge_agent.config import CameraConfig
from edge_agent.config.file import load
from edge_agent.config.secrets import Secrets, secrets_path
from tests.edge_agent.conftest import RunAgent

PASSWORD = "p@:/?#%^!w"
ENCODED = "p%40%3A%2F%3F%23%25%5E%21w"
ALL_OPTIONS = (
    "--fps=4.5",
    "--max-width=1280",
    "--jpeg-quality=70",
    "--transport=udp",
    "--label=person",
    "--label=car",
    "--min-score=0.6",
    "--max-age-ms=800",
    "--connect-timeout-s=3",
    "--read-timeout-s=4",
    "--disabled",
)


def test_a_camera_with_all_options(run_agent: RunAgent, config_path: Path) -> None:
    """Every option lands in the configuration, and the command says what it understood."""
    done = run_agent("add-camera", "door", f"rtsp://viewer:{PASSWORD}@10.0.0.5/stream1", *ALL_OPTIONS)

    assert (done.code, done.err) == (0, "")
    assert done.out == "added door: rtsp://viewer:***@10.0.0.5/stream1\n"
    assert load(config_path).cameras["door"] == CameraConfig(
        name="door",
        url="rtsp://10.0.0.5/stream1",
        user="viewer",
        fps=4.5,
        max_width=1280,
        jpeg_quality=70,
        transport="udp",
        labels=("person", "car"),
        min_score=0.6,
        max_age_ms=800,
        connect_timeout_s=3.0,
        read_timeout_s=4.0,
        enabled=False,
    )
    assert Secrets.load(config_path).password("door") == PASSWORD


def test_only_what_was_given_is_written(run_agent: RunAgent, config_path: Path) -> None:
    """Defaults stay defaults, so that a person finds in the file what was chosen."""
    assert run_agent("add-camera", "door", "rtsp://10.0.0.5/s").code == 0

    assert config_path.read_text() == '[cameras.door]\nurl = "rtsp://10.0.0.5/s"\n'
    assert load(config_path).cameras["door"] == CameraConfig(name="door", url="rtsp://10.0.0.5/s")


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        ((f"rtsp://viewer:{PASSWORD}@10.0.0.5/s",), ""),
        ((f"rtsp://viewer:{ENCODED}@10.0.0.5/s",), ""),
        (("rtsp://10.0.0.5/s", "--user=viewer", f"--password={PASSWORD}"), ""),
        (("rtsp://10.0.0.5/s", "--user=viewer", "--password-file=-"), PASSWORD + "\n"),
        (("rtsp://viewer@10.0.0.5/s", "--password-file=-"), PASSWORD),
    ],
)
def test_a_password_means_the_same_wherever_it_is_given(
    run_agent: RunAgent, config_path: Path, arguments: tuple[str, ...], typed: str
) -> None:
    """Raw in the URL, percent-encoded once, as an option, or on standard input."""
    done = run_agent("add-camera", "door", *arguments, typed=typed)

    assert done.code == 0, done.err
    assert load(config_path).cameras["door"].user == "viewer"
    assert load(config_path).cameras["door"].url == "rtsp://10.0.0.5/s"
    assert Secrets.load(config_path).password("door") == PASSWORD
    assert PASSWORD not in config_path.read_text() + done.out + done.err


def test_a_password_from_a_file_loses_one_line_end_only(
    run_agent: RunAgent, config_path: Path, tmp_path: Path
) -> None:
    """What an editor adds at the end is no part of the password; spaces are."""
    file = tmp_path / "password"
    file.write_bytes(b" secret \r\n")

    assert run_agent("add-camera", "door", "rtsp://h/s", "--user=u", f"--password-file={file}").code == 0
    assert Secrets.load(config_path).password("door") == " secret "


ASK = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.executable, "-m", "edge_agent.cli", *sys.argv[1:]])))
"""


def read_until(process: "subprocess.Popen[bytes]", wanted: bytes) -> bytes:
    """Read a program's output as it comes, byte by byte, up to what is wanted or its end."""
    assert process.stdout is not None
    shown = b""
    deadline = time.monotonic() + 30
    while not shown.endswith(wanted) and time.monotonic() < deadline:
        if select.select([process.stdout], [], [], 1)[0]:
            byte = os.read(process.stdout.fileno(), 1)
            if not byte:
                break
            shown += byte
    return shown


def test_a_password_is_asked_for_and_not_echoed(config_path: Path) -> None:
    """With a user alone, at a terminal, the password is typed unseen."""
    command = [sys.executable, "-c", ASK, "--config", str(config_path)]
    command += ["add-camera", "door", "rtsp://10.0.0.5/s", "--user", "viewer"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        shown = read_until(process, b"Password of viewer: ")
        assert process.stdin is not None
        process.stdin.write(b"hunter2\n")
        process.stdin.flush()
        shown += read_until(process, b"\n")
        shown += read_until(process, b"\n")
        assert process.wait(30) == 0, shown
    finally:
        process.kill()
        process.communicate()

    assert b"added door" in shown
    assert Secrets.load(config_path).password("door") == "hunter2"
    assert b"hunter2" not in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("door", "rtsp://h/s", "--user=u"), "a user needs a password: give --password-file FILE, or -"),
        (("door", "rtsp://h/s", "--password=hunter2"), "a password needs a user: give --user"),
        (("door", "rtsp://u:hunter2@h/s", "--password=hunter2"), "the password is given more than once"),
        (("door", "rtsp://u:hunter2@h/s", "--user=u", "--password=x"), "the URL holds a user or password"),
        (
            ("door", "rtsp://h/s", "--user=u", "--password-file=/nowhere/x"),
            "/nowhere/x: No such file or directory",
        ),
        (
            ("door", "rtsp://h/s", "--user=u", "--password=" + "x" * 1025),
            "one line of at most 1024 characters",
        ),
        (("door", "rtsp://h/s", "--user=u", "--password=hun\nter2"), "one line of at most 1024 characters"),
        (("door", "rtsp:///s"), "URL: URL without host: expected rtsp://"),
        (("door", "rtsp://h:x/s"), "URL: the port is not a number from 1 to 65535"),
        (("door", "rtmp://h/s"), "URL: unknown scheme rtmp://: expected rtsp://, rtsps://, http://"),
        (("door", "10.0.0.5/s"), "URL: there is no such file; a URL begins with rtsp://"),
        (("door", "admin:hunter2@10.0.0.5/s"), "URL: there is no such file; a URL begins with rtsp://"),
        (("door", "file:///nowhere/x.mp4"), "URL: there is no such file"),
        (("the door", "rtsp://h/s"), 'NAME: found "the door", expected 1 to 64 letters'),
        (("", "rtsp://h/s"), 'NAME: found "", expected 1 to 64 letters'),
        (("x" * 65, "rtsp://h/s"), "expected 1 to 64 letters"),
        (("door", "rtsp://h/s", "--fps=0"), "--fps: found 0.0, expected a number from 0.1 to 60"),
        (("door", "rtsp://h/s", "--fps=nan"), "--fps: found nan, expected a number from 0.1 to 60"),
        (("door", "rtsp://h/s", "--fps=fast"), "'--fps'"),
        (
            ("door", "rtsp://h/s", "--jpeg-quality=101"),
            "--jpeg-quality: found 101, expected a whole number from 1",
        ),
        (("door", "rtsp://h/s", "--max-width=1.5"), "'--max-width'"),
        (("door", "rtsp://h/s", "--transport=carrier-pigeon"), "'carrier-pigeon' is not one of 'tcp', 'udp'"),
        (
            ("door", "rtsp://h/s", "--label="),
            "--label: found an array, expected an array of labels",
        ),
        (
            ("door", "rtsp://h/s", "--min-score=1.01"),
            "--min-score: found 1.01, expected a number from 0 to 1",
        ),
        (("door", "rtsp://h/s", "--max-age-ms=0"), "--max-age-ms: found 0, expected a whole number from 10"),
        (
            ("door", "rtsp://h/s", "--read-timeout-s=0"),
            "--read-timeout-s: found 0.0, expected a number from 0.1",
        ),
        (("door", "/dev/video0", "--user=u", "--password=x"), "--user: a device or a file has no user"),
        (("door", "rtsp://h/s", "--frobnicate"), "No such option: --frobnicate"),
        (("door",), "Missing argument 'URL'"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(
    run_agent: RunAgent, config_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    """One clear line, exit code 2, no file made, no password shown."""
    done = run_agent("add-camera", *arguments)

    assert (done.code, done.out) == (2, "")
    first, *hint = done.err.splitlines()
    assert first.startswith("edge-agent: ")
    assert problem in first
    assert hint in ([], ["Try 'edge-agent add-camera --help'."])
    assert "hunter2" not in done.err
    assert not config_path.parent.exists()


def test_a_name_is_used_once(run_agent: RunAgent, config_path: Path) -> None:
    """The second camera of a name is refused, and the first stays as it is."""
    run_agent("add-camera", "door", "rtsp://u:hunter2@10.0.0.5/s")
    before = config_path.read_bytes(), secrets_path(config_path).read_bytes()

    done = run_agent("add-camera", "door", "rtsp://u:other@10.0.0.6/s")

    assert done.code == 1
    assert done.err == f"edge-agent: {config_path}: there is a camera door already; set-camera changes it\n"
    assert (config_path.read_bytes(), secrets_path(config_path).read_bytes()) == before


def test_files_are_found_from_anywhere(
    run_agent: RunAgent, config_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file named from here is stored by its whole path; a device need not be plugged in."""
    (tmp_path / "clip.mp4").write_bytes(b"")
    monkeypatch.chdir(tmp_path)

    assert run_agent("add-camera", "clip", "clip.mp4", "--loop").code == 0
    assert run_agent("add-camera", "again", f"file://{tmp_path}/clip.mp4").code == 0
    assert run_agent("add-camera", "usb", "v4l2:///dev/video63").code == 0

    cameras = load(config_path).cameras
    assert (cameras["clip"].url, cameras["clip"].loop) == (str(tmp_path / "clip.mp4"), True)
    assert cameras["again"].url == f"file://{tmp_path}/clip.mp4"
    assert cameras["usb"].url == "v4l2:///dev/video63"


def test_some_options_of_a_camera_are_changed(run_agent: RunAgent, config_path: Path) -> None:
    """What is not named stays, the password too; what is unset goes back to its default."""
    run_agent(
        "add-camera", "door", "rtsp://u:hunter2@10.0.0.5/s", "--fps=5", "--max-width=640", "--label=car"
    )

    assert (
        run_agent("set-camera", "door", "--url=rtsp://10.0.0.9/s", "--fps=7", "--unset=max-width").code == 0
    )

    camera = load(config_path).cameras["door"]
    assert camera == CameraConfig(name="door", url="rtsp://10.0.0.9/s", user="u", fps=7.0, labels=("car",))
    assert Secrets.load(config_path).password("door") == "hunter2"
    assert run_agent("set-camera", "door", "--unset=--label", "--label=dog").code == 2
    assert run_agent("set-camera", "door", "--unset=label", "--no-loop").code == 0
    assert load(config_path).cameras["door"].labels == ()


def test_credentials_are_changed(run_agent: RunAgent, config_path: Path) -> None:
    """The password alone, both through a URL, the password away, the user away."""
    run_agent("add-camera", "door", "rtsp://u:one@10.0.0.5/s")

    def set_and_read(*arguments: str, typed: str = "") -> tuple[str | None, str | None]:
        assert run_agent("set-camera", "door", *arguments, typed=typed).code == 0
        return load(config_path).cameras["door"].user, Secrets.load(config_path).password("door")

    assert set_and_read("--password-file=-", typed="two\n") == ("u", "two")
    assert set_and_read("--url=rtsp://v:three@10.0.0.5/s") == ("v", "three")
    assert set_and_read("--unset=password") == ("v", None)
    assert set_and_read("--password=four") == ("v", "four")
    assert set_and_read("--unset=user") == (None, None)
    assert run_agent("set-camera", "door", "--password=five").code == 2
    assert Secrets.load(config_path).password("door") is None


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("yard", "--fps=5"), 1, 'unknown camera "yard"; known: door'),
        (("dor", "--fps=5"), 1, 'unknown camera "dor"; did you mean door?'),
        (("door",), 2, "nothing to change: give an option"),
        (("door", "--fps=0"), 2, "--fps: found 0.0, expected a number from 0.1 to 60"),
        (("door", "--url=rtsp:///s"), 2, "URL without host"),
        (("door", "--unset=url"), 2, '--unset: unknown option "url"'),
        (("door", "--unset=max-widht"), 2, '--unset: unknown option "max-widht"; did you mean max_width?'),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(
    run_agent: RunAgent, config_path: Path, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    """One clear line; the file is the same."""
    run_agent("add-camera", "door", "rtsp://10.0.0.5/s", "--fps=5")
    before = config_path.read_bytes()

    done = run_agent("set-camera", *arguments)

    assert done.code == code
    assert problem in done.err.splitlines()[0]
    assert config_path.read_bytes() == before


def test_cameras_are_listed(run_agent: RunAgent) -> None:
    """Aligned columns; whether a password is set, and never the password."""
    run_agent("add-camera", "door", "rtsp://viewer:hunter2@10.0.0.5/stream1", "--fps=5")
    run_agent("add-camera", "y", "https://cam/mjpg", "--disabled")

    done = run_agent("list-cameras")

    assert done.out == (
        "NAME  URL                      USER    PASSWORD  FPS  ENABLED\n"
        "door  rtsp://10.0.0.5/stream1  viewer  set       5    yes\n"
        "y     https://cam/mjpg         -       not set   10   no\n"
    )


def test_no_camera_is_no_error(run_agent: RunAgent, config_path: Path) -> None:
    """Without a configuration there is nothing to list, and a hint on standard error."""
    done = run_agent("list-cameras")

    assert (done.code, done.out) == (0, "")
    assert "add-camera" in done.err
    assert json.loads(run_agent("list-cameras", "--json").out) == []
    assert not config_path.parent.exists()


def test_a_camera_is_shown_with_all_that_is_set(run_agent: RunAgent) -> None:
    """For people and, as JSON, for programs; in both the password is only said to be set."""
    run_agent(
        "add-camera", "door", "rtsp://viewer:hunter2@10.0.0.5/s", "--fps=5", "--label=car", "--label=dog"
    )

    shown = run_agent("show-camera", "door")
    as_json = run_agent("show-camera", "door", "--json")

    assert "url:                 rtsp://10.0.0.5/s\n" in shown.out
    assert "password:            set\n" in shown.out
    assert "labels:              car, dog\n" in shown.out
    expected = {"name": "door", "user": "viewer", "password": "set", "fps": 5.0, "labels": ["car", "dog"]}
    assert json.loads(as_json.out).items() >= {**expected, "max_width": None, "enabled": True}.items()
    assert json.loads(run_agent("list-cameras", "--json").out) == [json.loads(as_json.out)]
    assert "hunter2" not in shown.out + as_json.out
    assert run_agent("show-camera", "yard").code == 1


def test_a_camera_is_removed_with_its_password(run_agent: RunAgent, config_path: Path) -> None:
    """Nothing of it is left; a second time it is unknown."""
    run_agent("add-camera", "door", "rtsp://viewer:hunter2@10.0.0.5/s")

    assert run_agent("remove-camera", "door").code == 0

    assert load(config_path).cameras == {}
    assert "hunter2" not in secrets_path(config_path).read_text()
    done = run_agent("remove-camera", "door")
    assert (done.code, 'unknown camera "door"; known: none' in done.err) == (1, True)


def test_an_unreadable_configuration_is_said_with_its_place(run_agent: RunAgent, config_path: Path) -> None:
    """File, line and column, exit code 1, and the file untouched."""
    config_path.parent.mkdir()
    config_path.write_text("[cameras.door]\nurl = rtsp://h/s\n")

    for command in (
        ("list-cameras",),
        ("add-camera", "yard", "rtsp://h/s"),
        ("remove-camera", "door"),
        ("run",),
    ):
        done = run_agent(*command)
        assert done.code == 1
        assert done.err == f"edge-agent: {config_path}:2:7: not TOML: Invalid value\n"
    assert config_path.read_text() == "[cameras.door]\nurl = rtsp://h/s\n"
