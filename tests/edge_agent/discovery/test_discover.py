"""`edge-agent discover` with scripted devices: real multicast on loopback, real HTTP."""

import contextlib
import json
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.edge_agent.conftest import RunAgent
from tests.edge_agent.discovery.onvif_device import ASKER, Device, Profile, answering, serving

PASSWORD = "c@nary:pass/7"
FIND = ("discover", "--interface", ASKER, "--timeout-s", "0.6")

StartDevice = Callable[..., Device]


@pytest.fixture
def start_device() -> Iterator[StartDevice]:
    """Serve devices; they end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **what: stack.enter_context(serving(Device(**what)))


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(PASSWORD + "\n")
    return str(path)


@pytest.fixture
def with_password(password_file: str) -> tuple[str, ...]:
    return ("--user", "viewer", "--password-file", password_file)


def ask(run_agent: RunAgent, device: Device, *options: str) -> dict[str, Any]:
    """Ask one device by its address; gives what is shown of it as JSON. Code 1 says that it is a problem."""
    outcome = run_agent("discover", "--host", device.address, "--json", *options)
    assert PASSWORD not in outcome.out + outcome.err
    (shown,) = json.loads(outcome.out)
    assert isinstance(shown, dict)
    assert outcome.code == (1 if shown["problem"] else 0), outcome.err
    return shown


def test_cameras_are_found_with_their_streams_and_the_commands_that_add_them(
    run_agent: RunAgent, start_device: StartDevice, with_password: tuple[str, ...], config_path: Path
) -> None:
    """By multicast; each command works as it is printed, and holds no password."""
    door = start_device(user="viewer", password=PASSWORD)
    yard = start_device(host="127.0.0.2", name="Hof", hardware="Y2", user="viewer", password=PASSWORD)
    with answering(door, yard) as probes:
        outcome = run_agent(*FIND, *with_password)

    assert outcome.code == 0, outcome.err
    table, _, commands = outcome.out.partition("\nTo add one (the name is yours to choose):\n")
    lines = [line.split(maxsplit=1) for line in table.splitlines()]
    assert lines[0][0] == "ADDRESS"
    assert {line[0] for line in lines[1:] if line[0].startswith("127")} == {"127.0.0.1", "127.0.0.2"}
    assert "Front Door  Acme CAM-1  main" in table
    assert "H264 1920x1080 25 fps" in table
    assert "rtsp://127.0.0.2:554/sub" in table
    assert PASSWORD not in outcome.out + outcome.err
    assert 1 <= len(probes) <= 3
    assert all(b"Probe" in probe for probe in probes)

    assert [shlex.split(line)[4] for line in commands.splitlines()] == [
        "front-door",
        "front-door-2",
        "hof",
        "hof-2",
    ]
    program, *arguments = shlex.split(commands.splitlines()[0])
    assert (program, arguments[:2]) == ("edge-agent", ["--config", str(config_path)])
    assert run_agent(*arguments[2:]).code == 0
    shown = json.loads(run_agent("show-camera", "front-door", "--json").out)
    assert (shown["url"], shown["user"], shown["password"]) == ("rtsp://127.0.0.1:554/main", "viewer", "set")


def test_without_a_user(run_agent: RunAgent, start_device: StartDevice) -> None:
    """A camera that wants none tells its streams; one that does is found all the same, and says so."""
    free, closed = start_device(), start_device(user="viewer", password=PASSWORD)

    assert [stream["url"] for stream in ask(run_agent, free)["streams"]] == [
        "rtsp://127.0.0.1:554/main",
        "rtsp://127.0.0.1:554/sub",
    ]
    shown = ask(run_agent, closed)
    assert (shown["streams"], shown["problem"]) == ([], "it wants a user: give --user and --password-file")


def test_a_wrong_password_is_tried_twice_at_most(
    run_agent: RunAgent, start_device: StartDevice, with_password: tuple[str, ...]
) -> None:
    """Once more because of the clock: cameras lock out whoever goes on."""
    device = start_device(user="viewer", password="another")

    assert ask(run_agent, device, *with_password)["problem"] == "it refuses the user 'viewer' or the password"
    assert device.refused <= 2


@pytest.mark.parametrize("hours", [-9, 14, 24 * 365 * 20])
def test_a_device_whose_clock_is_off(
    run_agent: RunAgent, start_device: StartDevice, with_password: tuple[str, ...], hours: int
) -> None:
    """The digest is made by the device's own clock, be it off by hours or by years."""
    device = start_device(user="viewer", password=PASSWORD, clock_offset=timedelta(hours=-hours))
    shown = ask(run_agent, device, *with_password)

    assert (len(shown["streams"]), shown["problem"]) == (2, "")


def test_h265_and_older_devices(run_agent: RunAgent, start_device: StartDevice) -> None:
    """By the newer media service where there is one; by GetCapabilities where GetServices is not known."""
    profiles = (Profile("main", "H265", (3840, 2160), 20),)
    newer = start_device(profiles=profiles)
    older = start_device(knows_services=False)

    (stream,) = ask(run_agent, newer)["streams"]
    assert (stream["encoding"], stream["width"], stream["height"], stream["fps"]) == ("H265", 3840, 2160, 20)
    assert len(ask(run_agent, older)["streams"]) == 2
    assert "GetCapabilities" in older.asked


def test_http_digest_is_answered_and_basic_is_not(
    run_agent: RunAgent, start_device: StartDevice, with_password: tuple[str, ...]
) -> None:
    """The password itself goes over no wire, in no form."""
    digest = start_device(auth="http digest", user="viewer", password=PASSWORD)
    basic = start_device(auth="http basic", user="viewer", password=PASSWORD)

    assert len(ask(run_agent, digest, *with_password)["streams"]) == 2
    assert ask(run_agent, basic, *with_password)["problem"].startswith("it refuses the user")
    for body in (*digest.bodies, *basic.bodies):
        assert PASSWORD.encode() not in body
        assert b"Basic" not in body


@pytest.mark.parametrize(
    ("uri", "url", "note"),
    [
        (
            "rtsp://198.51.100.9:8554/live",
            "rtsp://{host}:8554/live",
            "the device names the host 198.51.100.9",
        ),
        ("rtsp://admin:admin@{host}/live", "rtsp://{host}/live", ""),
        ("rtsp://{host}/live?a=1&amp;b=2", "rtsp://{host}/live?a=1&b=2", ""),
        ("rtsps://{host}/live", "rtsps://{host}/live", ""),
        (
            "rtsp://{host}/user=viewer&amp;password=c%40nary%3Apass%2F7",
            "rtsp://{host}/user=viewer&password=***",
            "its address carries the password: put it where *** stands",
        ),
        ("file:///etc/passwd", "", "its address cannot be used: found file, expected rtsp or rtsps"),
        ("http://{host}/video", "", "its address cannot be used: found http, expected rtsp or rtsps"),
        ("javascript:alert(1)", "", "its address cannot be used: found javascript, expected rtsp or rtsps"),
        (
            "rtsp://{host}/\u202elive",
            "",
            "its address cannot be used: it holds characters that no URL may have",
        ),
        ("rtsp://{host}:port/", "", "its address cannot be used: the port is not a number"),
        ("", "", "it tells no address for this profile"),
    ],
)
def test_addresses_that_devices_tell(
    run_agent: RunAgent,
    start_device: StartDevice,
    with_password: tuple[str, ...],
    uri: str,
    url: str,
    note: str,
) -> None:
    """A stream is offered where the device answered, by RTSP, without credentials, or it is said why not."""
    device = start_device(user="viewer", password=PASSWORD, profiles=(Profile("main", uri=uri),))
    (stream,) = ask(run_agent, device, *with_password)["streams"]

    assert stream["url"] == url.format(host=device.host)
    assert stream["note"].startswith(note)
    assert bool(stream["note"]) == bool(note)


def test_only_who_answered_is_asked(
    run_agent: RunAgent, start_device: StartDevice, with_password: tuple[str, ...]
) -> None:
    """Addresses of another host, in the answer to the probe or among the services, get no request at all."""
    other = start_device(host="127.0.0.3")
    liar = start_device(host="127.0.0.4", user="viewer", password=PASSWORD, services_host=other.address)
    liar.xaddrs = f"http://{other.host}:{liar.port}/onvif/device_service"
    with answering(liar):
        outcome = run_agent(*FIND, "--json", *with_password)
    (shown,) = json.loads(outcome.out)

    assert (shown["address"], len(shown["streams"])) == ("127.0.0.4", 2)
    assert other.asked == []


def test_what_devices_call_themselves(run_agent: RunAgent, start_device: StartDevice) -> None:
    """Steers no terminal, forges no line and breaks no command."""
    device = start_device(name="a%1B%5B2J%0AFAKE;rm%20-rf%20~" + "x" * 200, hardware="\u202e\u200bspook")
    with answering(device):
        outcome = run_agent(*FIND)

    assert outcome.code == 0
    assert all(line.isprintable() for line in outcome.out.splitlines())
    assert "\x1b" not in outcome.out
    assert not any(line.startswith("FAKE") for line in outcome.out.splitlines())
    command = next(line for line in outcome.out.splitlines() if "add-camera" in line)
    name = shlex.split(command)[4]
    assert name.startswith("a-2j-fake-rm-rf-x")
    assert len(name) <= 64


def test_a_host_that_is_no_device(run_agent: RunAgent) -> None:
    """Is told in words, with the code of a failure."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    outcome = run_agent("discover", "--host", f"127.0.0.1:{port}")

    assert outcome.code == 1
    assert "it cannot be reached" in outcome.out


def test_nobody_there(run_agent: RunAgent) -> None:
    """Is told in a line that says what to try."""
    outcome = run_agent("discover", "--interface", ASKER, "--timeout-s", "0.2")

    assert outcome.code == 1
    assert outcome.err.startswith(f"edge-agent: no ONVIF device answered within 0.2 s, asked from {ASKER};")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--interface", "eth0"), "--interface: expected an IPv4 address"),
        (("--interface", "192.0.2.77", "--timeout-s", "0.1"), "cannot ask the network: 192.0.2.77: "),
        (("--host", "http://camera"), "--host: it is not a URL"),
        (("--host", "camera:x"), "--host: the port is not a number"),
        (("--host", "127.0.0.1", "--interface", "127.0.0.1"), "contradict each other"),
        (("--user", "viewer"), "a user needs a password"),
    ],
)
def test_what_cannot_be_meant(run_agent: RunAgent, options: tuple[str, ...], complaint: str) -> None:
    """Is one line of error."""
    outcome = run_agent("discover", *options)

    assert outcome.code in (1, 2)
    assert complaint in outcome.err


def test_without_the_library(run_agent: RunAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says what to install; the others need nothing of it."""
    for module in [name for name in sys.modules if name.startswith("edge_agent.discovery")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "onveef", None)
    outcome = run_agent("discover", "--host", "127.0.0.1")

    assert outcome.code == 2
    assert "onveef is not installed: pip install 'camera-ai[onvif]'" in outcome.err
    assert run_agent("list-cameras").code == 0
