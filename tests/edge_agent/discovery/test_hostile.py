"""Devices that mean harm, or are broken: each costs itself, in bounded time and memory."""

import asyncio
import contextlib
import gzip
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest

from edge_agent.discovery import device as asking
from edge_agent.discovery import probe
from edge_agent.discovery.device import Answer, Credentials, ask_all
from edge_agent.discovery.xml_bounds import XmlBoundsError, check_xml
from tests.edge_agent.discovery.onvif_device import ASKER, Device, Profile, answering, envelope, serving

BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">'
    + b"".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">'.encode() for n in range(9))
    + b"]><x>&j;</x>"
)
DEEP = b"<Profiles>" * 20_000 + b"</Profiles>" * 20_000
MANY = b"<r>" + b"<a/>" * 30_000 + b"</r>"
OUTSIDE = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


def reply(body: bytes, *headers: tuple[str, str], status: int = 200) -> Callable[..., bool]:
    """Answer everything with this."""

    def script(handler: BaseHTTPRequestHandler, _operation: str) -> bool:
        handler.reply(status, body, *headers)  # type: ignore[attr-defined]
        return True

    return script


def endless(handler: BaseHTTPRequestHandler, _operation: str) -> bool:
    """Begin an answer that has no end."""
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b" " * 65536)
    handler.close_connection = True
    return True


def dripping(handler: BaseHTTPRequestHandler, _operation: str) -> bool:
    """Send a byte now and then, as if there were something to wait for."""
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(200):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.02)
    handler.close_connection = True
    return True


def garbage(handler: BaseHTTPRequestHandler, _operation: str) -> bool:
    """Speak no HTTP."""
    handler.wfile.write(b"\x00\xff" * 1000)
    handler.close_connection = True
    return True


def ask(*devices: Device) -> list[Answer]:
    """Ask devices with credentials, all at once."""
    asked = [probe.Device(device.host, device.url("device_service")) for device in devices]
    return asyncio.run(ask_all(asked, Credentials("viewer", "c@nary")))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for a device."""
    monkeypatch.setattr(asking, "DEVICE_TIMEOUT_S", 1.0)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (endless, "found an answer of more than 524288 bytes"),
        (dripping, "it has not answered everything within 1 s"),
        (garbage, ""),
        (reply(BOMB), "found XML with a document type"),
        (reply(OUTSIDE), "found XML with a document type"),
        (reply(DEEP), "found XML deeper than 32 elements"),
        (reply(MANY), "found XML of more than 20000 elements"),
        # What is malformed, or other text, by one way of decoding is to be bounded by the other, too.
        (reply(b"<a>\xff" + DEEP + b"</a>"), "found XML deeper than 32 elements"),
        (reply(b'<?xml version="1.0" encoding="utf-16"?>' + DEEP), "found XML deeper than 32 elements"),
        (reply(DEEP.decode().encode("cp037"), ("Content-Type", "text/xml; charset=cp037")), ""),
        (reply(gzip.compress(b" " * 10_000_000), ("Content-Encoding", "gzip")), "found a compressed answer"),
        (reply(b"", ("Location", "http://127.0.0.9:1/"), status=307), "redirected"),
        (reply(b"\xff\xfe\x00"), ""),
        (reply(b"<html>router</html>", ("Content-Type", "text/html; charset=unicode_escape")), ""),
        (reply(envelope("<s:Fault>\x1b</s:Fault>".replace("\x1b", "&#155;")), status=500), ""),
        (reply(b"", status=503), "503"),
    ],
)
@pytest.mark.usefixtures("short")
def test_a_hostile_device_harms_nobody(script: Callable[..., bool], problem: str) -> None:
    """It is told what is wrong with it, in a printable line; the device beside it is asked as ever."""
    with serving(Device(script=script)) as hostile, serving(Device(host="127.0.0.2")) as good:
        begun_s = time.monotonic()
        bad, well = ask(hostile, good)

        assert time.monotonic() - begun_s < 30
    assert bad.streams == ()
    assert problem in bad.problem
    assert bad.problem.isprintable()
    assert bad.problem
    assert "c@nary" not in bad.problem
    assert len(well.streams) == 2


def test_a_device_of_a_thousand_profiles() -> None:
    """The first few are asked for."""
    with serving(Device(profiles=tuple(Profile(f"p{n}") for n in range(1000)))) as device:
        (answer,) = ask(device)

    assert len(answer.streams) == asking.MOST_PROFILES
    assert device.asked.count("GetStreamUri") == asking.MOST_PROFILES


def test_a_device_that_sends_the_password_back() -> None:
    """It is not shown."""
    fault = "<s:Fault><s:Reason><s:Text>c@nary? c%40nary!</s:Text></s:Reason></s:Fault>"
    with serving(Device(script=reply(envelope(fault), status=500))) as device:
        (answer,) = ask(device)

    assert "***? ***!" in answer.problem
    assert "nary" not in answer.problem


def test_a_flood_of_answers_to_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one address few are kept, of all of them a bounded number; what is no answer is none."""
    match = Device(host="127.0.0.5").match()
    forged = tuple(envelope(match.replace("127.0.0.5:0", f"198.51.100.{n % 250}:{n + 1}")) for n in range(40))
    trash = (b"", b"\x00", BOMB, DEEP[:17_000], b"<" * 17_000, envelope(match) + b" " * 20_000)
    with answering(Device(host="127.0.0.5", port=80), raw=trash + forged):
        found = probe.probe([ASKER], 1.5)

    assert [device.service for device in found if device.address == "127.0.0.5"] == [
        "http://127.0.0.5:80/onvif/device_service"
    ]
    strangers = [device for device in found if device.address == "127.0.0.66"]
    assert len(strangers) == probe.MOST_OF_ONE_ADDRESS
    assert all(device.service.startswith("http://127.0.0.66:") for device in strangers)
    monkeypatch.setattr(probe, "MOST_DEVICES", 2)
    with answering(*(Device(host=f"127.0.0.{n}", port=80) for n in range(10, 20))):
        assert len(probe.probe([ASKER], 1.0)) == 2


@pytest.mark.parametrize(
    ("told", "service"),
    [
        ([], "http://h/onvif/device_service"),
        (["http://h:8080/x"], "http://h:8080/x"),
        (["http://other:81/x", "https://h/y"], "https://h/y"),
        (["http://user:pass@other:81/x"], "http://h:81/x"),
        (
            ["ftp://h/x", "http://h:99999/x", "http://h/\x01", "http://h/a b", "http://[h/"],
            "http://h/onvif/device_service",
        ),
        ([f"http://h/{'x' * 300}"], "http://h/onvif/device_service"),
    ],
)
def test_where_a_device_is_asked(told: list[str], service: str) -> None:
    """At the host that answered, whatever it says."""
    assert probe.service_at("h", told) == service


def test_xml_of_cameras_passes() -> None:
    """What devices really send, and what is no XML at all: that is the library's to say."""
    for text in (envelope(Device().match()).decode(), "", "no XML", "<a>", "<a>ä</a>", "<a>\ufffd</a>"):
        check_xml(text)
    with pytest.raises(XmlBoundsError):
        check_xml(BOMB.decode())
