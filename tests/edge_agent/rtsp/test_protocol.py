"""How the camera answers, request by request."""

import asyncio
import time
from pathlib import Path

import pytest

from edge_agent.rtsp.camera import MAX_CONNECTIONS, DemoCamera
from edge_agent.rtsp.messages import MAX_BODY_BYTES, MAX_HEAD_BYTES
from edge_agent.rtsp.transport import TransportWish, choose_transport
from tests.edge_agent.rtsp.clips import FPS
from tests.edge_agent.rtsp.viewers import TIMEOUT_S, HandViewer, sequences, until


async def test_the_whole_way_from_options_to_teardown(h264_clip: Path) -> None:
    """Every answer carries its request's number; SETUP announces the session and its timeout."""
    async with DemoCamera(h264_clip, session_timeout_s=30) as camera, HandViewer(camera.url) as viewer:
        options = await viewer.ask("OPTIONS")
        assert (options.status, options.headers["cseq"]) == (200, "1")
        for method in ("DESCRIBE", "SETUP", "PLAY", "TEARDOWN", "GET_PARAMETER"):
            assert method in options.headers["public"]

        described = await viewer.ask("DESCRIBE")
        assert described.headers["content-type"] == "application/sdp"
        assert described.headers["content-base"] == f"{camera.url}/"
        assert b"a=rtpmap:96 H264/90000\r\n" in described.body
        assert b"sprop-parameter-sets=" in described.body

        assert (await viewer.set_up()).headers["session"].endswith(";timeout=30")
        assert (await viewer.ask("PLAY")).status == 200
        assert (await viewer.ask("GET_PARAMETER")).status == 200
        assert (await viewer.ask("TEARDOWN")).status == 200
        assert await viewer.hears_end()
        await until(lambda: camera.viewers == 0)

    assert camera.counts.requests == dict.fromkeys(
        ["OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER", "TEARDOWN"], 1
    )


async def test_packets_are_numbered_without_a_gap_and_reports_come_first(h264_clip: Path) -> None:
    """Sequence numbers go on over pictures; a sender report with its timestamp precedes a keyframe."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        pictures = await viewer.pictures(25)

    numbers = sequences(pictures)
    assert numbers == [(numbers[0] + step) % 65536 for step in range(len(numbers))]
    timestamps = [picture[0].timestamp for picture in pictures]
    assert timestamps == [(timestamps[0] + 90_000 // FPS * step) % 2**32 for step in range(25)]
    reported = [int.from_bytes(report[16:20]) for report in viewer.reports]
    assert reported == timestamps[::10]
    ntp_s = int.from_bytes(viewer.reports[0][8:12]) - 2_208_988_800
    assert abs(ntp_s - time.time()) < 5


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"HELLO\r\n\r\n", 400),
        (b"OPTIONS * RTSP/1.0\r\nno colon\r\n\r\n", 400),
        (b"OPTIONS * RTSP/1.0\r\nContent-Length: ten\r\n\r\n", 400),
        (b"OPTIONS * RTSP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n\r\n", 505),
        (b"OPTIONS * RTSP/1.0\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", 413),
        (b"x" * 4 * MAX_HEAD_BYTES, 413),
        (b"OPTIONS * RTSP/1.0\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413),
        (b"OPTIONS * RTSP/1.0\r\nContent-Length: %s\r\n\r\n" % (b"9" * 5000), 413),
    ],
    ids=lambda value: value if isinstance(value, int) else repr(value[:40]),
)
async def test_what_is_no_request_ends_the_connection(
    h264_clip: Path, request_bytes: bytes, status: int
) -> None:
    """It is answered with what it deserves, and nothing large is ever held."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        viewer.write(request_bytes)
        answer = await asyncio.wait_for(viewer.answer(), TIMEOUT_S)
        assert answer.status == status
        assert await viewer.hears_end()
        await until(lambda: camera.connections == 0)


async def test_bodies_and_the_viewers_own_rtcp_are_passed_over(h264_clip: Path) -> None:
    """What comes between requests does not upset them."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        viewer.write(b"$\x01\x00\x08" + bytes(8))
        viewer.write(b"GET_PARAMETER %b RTSP/1.0\r\nContent-Length: 7\r\n\r\nbitrate" % camera.url.encode())
        assert (await viewer.answer()).status == 200
        assert (await viewer.ask("GET_PARAMETER")).status == 200


async def test_requests_that_cannot_be_met_leave_the_session_as_it_is(h264_clip: Path) -> None:
    """Each has its own status, and PLAY works after them all."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        multicast = {"Transport": "RTP/AVP;multicast;client_port=5000-5001"}
        assert (await viewer.ask("PLAY")).status == 455
        assert (await viewer.ask("SETUP", headers=multicast)).status == 461
        assert (await viewer.ask("SETUP")).status == 461
        await viewer.set_up()
        assert (await viewer.ask("PAUSE")).status == 501
        assert (await viewer.ask("DESCRIBE", camera.url + "2")).status == 404
        assert (await viewer.ask("DESCRIBE", "rtsp://[broken/live")).status == 404
        assert (await viewer.ask("PLAY", headers={"Session": "another"})).status == 454
        assert (await viewer.ask("PLAY")).status == 200
        assert (await viewer.ask("SETUP", headers={"Transport": "RTP/AVP/TCP"})).status == 455
        await viewer.pictures(3)
    assert camera.counts.requests["other"] == 1


@pytest.mark.parametrize(
    ("header", "wish"),
    [
        ("RTP/AVP/TCP;unicast;interleaved=2-3", TransportWish("tcp", (2, 3))),
        ("RTP/AVP/TCP;unicast", TransportWish("tcp", (0, 1))),
        ("RTP/AVP/TCP;interleaved=2", TransportWish("tcp", (2, 3))),
        ("RTP/AVP/TCP;interleaved=300-301", TransportWish("tcp", (0, 1))),
        ("RTP/AVP;unicast;client_port=5000-5001", TransportWish("udp", (5000, 5001))),
        ("RTP/AVP/UDP;unicast;client_port=5000-5001;mode=play", TransportWish("udp", (5000, 5001))),
        ("RAW/RAW/UDP;client_port=1-2, RTP/AVP/TCP;interleaved=4-5", TransportWish("tcp", (4, 5))),
        ("RTP/AVP;unicast", None),
        ("RTP/AVP;unicast;client_port=0-1", None),
        ("RTP/AVP;unicast;client_port=65535", None),
        ("RTP/AVP;multicast;client_port=5000-5001", None),
        ("RTP/SAVP;unicast;client_port=5000-5001", None),
        ("", None),
        (";;,;", None),
    ],
)
def test_the_first_transport_that_can_be_had_is_chosen(header: str, wish: TransportWish | None) -> None:
    """UDP only to a pair of real ports, never to a group of hosts."""
    assert choose_transport(header) == wish


async def test_a_session_without_requests_is_closed(h264_clip: Path) -> None:
    """After its timeout; the viewer's RTCP does not count, a request does."""
    async with DemoCamera(h264_clip, session_timeout_s=1) as camera, HandViewer(camera.url) as kept:
        await kept.play()
        async with HandViewer(camera.url) as forgotten:
            await forgotten.play()
            kept_until_s = time.monotonic() + 2.5
            while time.monotonic() < kept_until_s:
                assert (await kept.ask("GET_PARAMETER")).status == 200
                forgotten.write(b"$\x01\x00\x04abcd")
                await kept.pictures(5)
            assert await forgotten.hears_end()
        assert camera.viewers == 1


async def test_one_connection_too_many_is_turned_away(h264_clip: Path) -> None:
    """The camera says so, closes, and takes the next one when another has gone."""
    async with DemoCamera(h264_clip) as camera:
        viewers = [await HandViewer(camera.url).__aenter__() for _ in range(MAX_CONNECTIONS)]
        try:
            await until(lambda: camera.connections == MAX_CONNECTIONS)
            async with HandViewer(camera.url) as late:
                assert (await late.answer()).status == 503
                assert await late.hears_end()
        finally:
            for viewer in viewers:
                await viewer.__aexit__(None, None, None)
        await until(lambda: camera.connections == 0)
        async with HandViewer(camera.url) as viewer:
            assert (await viewer.ask("OPTIONS")).status == 200
