"""Capturing multipart MJPEG over HTTP."""

import numpy as np
import pytest
import simplejpeg

from edge_agent.state import CameraState
from tests.edge_agent.capture.conftest import Watch
from tests.edge_agent.capture.mjpeg_server import MjpegCamera, serving
from tests.memory import Memory


@pytest.fixture(scope="module")
def pictures() -> list[bytes]:
    """Give ten JPEGs of 320 x 240 that differ."""
    shades = np.linspace(0, 250, 10).astype(np.uint8)
    return [simplejpeg.encode_jpeg(np.full((240, 320, 3), shade, np.uint8)) for shade in shades]


@pytest.mark.parametrize("with_lengths", [True, False])
def test_pictures_are_passed_on_untouched(watch: Watch, pictures: list[bytes], with_lengths: bool) -> None:
    """Byte for byte and in order, whether or not the parts tell their length."""
    with serving(MjpegCamera(pictures, with_lengths=with_lengths)) as camera:
        watcher = watch(camera.url, fps=50.0)
        watcher.wait_for_frames(12)

    assert [frame.image_data for frame in watcher.frames[:12]] == (pictures * 2)[:12]
    assert {(frame.width, frame.height) for frame in watcher.frames} == {(320, 240)}


def test_times_are_those_of_arrival(watch: Watch, pictures: list[bytes]) -> None:
    """FFmpeg's invented 25 pictures a second are not believed: a picture is as old as its arrival."""
    with serving(MjpegCamera(pictures, interval_s=0.2)) as camera:
        watcher = watch(camera.url)
        watcher.wait_for_frames(8)

    ages_s = [
        delivered_s - frame.captured_s
        for frame, delivered_s in zip(watcher.frames, watcher.delivered_s, strict=True)
    ]
    steps = np.diff([frame.captured_s for frame in watcher.frames])
    assert max(ages_s) < 0.1
    assert np.median(steps) == pytest.approx(0.2, abs=0.05)


def test_more_than_is_wanted_is_thinned(watch: Watch, pictures: list[bytes]) -> None:
    """A camera that sends 50 pictures a second is thinned to 5 without decoding one."""
    with serving(MjpegCamera(pictures, interval_s=0.02)) as camera:
        watcher = watch(camera.url, fps=5.0)
        watcher.wait_for_frames(6)

    counters = watcher.capture.counters
    assert counters.frames_seen == counters.frames_thinned + counters.frames_delivered
    assert counters.frames_thinned >= 4 * counters.frames_delivered


def test_truncated_pictures_are_left_out(watch: Watch, pictures: list[bytes]) -> None:
    """A JPEG without its end is counted, and not delivered in any form."""
    cut = pictures[1][: len(pictures[1]) // 2]
    with serving(MjpegCamera([pictures[0], cut])) as camera:
        watcher = watch(camera.url, fps=50.0)
        counters = watcher.capture.counters
        watcher.wait_until(lambda: counters.frames_corrupt >= 4, "four cut pictures")
        watcher.wait_for_frames(5)

    assert {frame.image_data for frame in watcher.frames} == {pictures[0]}
    assert counters.frames_delivered + counters.frames_thinned == counters.frames_seen
    assert CameraState.WAITING_FOR_KEYFRAME not in watcher.states


def test_no_picture_can_be_decoded(watch: Watch, pictures: list[bytes]) -> None:
    """A camera is said to be streaming only while something can be made of what it sends."""
    cut = pictures[1][: len(pictures[1]) // 2]
    with serving(MjpegCamera([cut], interval_s=0.02)) as camera:
        watcher = watch(camera.url, fps=5.0)
        counters = watcher.capture.counters
        watcher.wait_until(lambda: counters.frames_corrupt >= 20, "twenty cut pictures")
        while_cut = list(watcher.statuses)
        camera.pictures = pictures
        watcher.wait_for_frames(2)
        camera.pictures = [cut]
        watcher.wait_until(lambda: len(watcher.states) == 4, "the state after ten cut pictures in a row")

    assert str(while_cut[-1]) == "waiting for keyframe: packets were lost or damaged"
    assert CameraState.STREAMING not in {status.state for status in while_cut}
    assert watcher.states[1:4] == [
        CameraState.WAITING_FOR_KEYFRAME,
        CameraState.STREAMING,
        CameraState.WAITING_FOR_KEYFRAME,
    ]


@pytest.mark.parametrize("part", [b"Content-Length: 2000000000\r\n\r\n", b"\r\n", b"X: y"])
def test_a_picture_without_end_is_bounded(watch: Watch, pictures: list[bytes], part: bytes) -> None:
    """Whatever length a part tells, or none, no more is read of it than the largest picture has bytes."""
    memory = Memory()
    endless = b"\r\nX: y" * (1 << 18) if part.startswith(b"X") else bytes(1 << 20)
    with serving(MjpegCamera(pictures, endless_part=(part, endless))) as camera:
        memory.reset_peak()
        before_bytes = memory.peak_bytes()
        watcher = watch(camera.url)
        status = watcher.wait_for_state(CameraState.OFFLINE)

    assert status.reason == "no end of a picture within 32 MiB"
    assert memory.peak_bytes() - before_bytes < 200 << 20


def test_a_redirect_is_not_followed(watch: Watch, pictures: list[bytes]) -> None:
    """The password goes to no other host."""
    with (
        serving(MjpegCamera(pictures, user="yard", password="p", scheme="basic")) as other,
        serving(MjpegCamera(pictures, redirect_to=other.url)) as camera,
    ):
        watcher = watch(camera.url, "p", user="yard")
        status = watcher.wait_for_state(CameraState.OFFLINE)

    assert "redirects elsewhere" in status.reason
    assert other.requests == 0


def test_the_size_changes(watch: Watch, pictures: list[bytes]) -> None:
    """Each frame has the size of its own picture, odd ones too."""
    other = simplejpeg.encode_jpeg(np.full((121, 161, 3), 90, np.uint8))
    with serving(MjpegCamera([*pictures[:3], other])) as camera:
        watcher = watch(camera.url, fps=50.0)
        watcher.wait_until(lambda: len({frame.width for frame in watcher.frames}) == 2, "both sizes")

    for frame in watcher.frames:
        assert simplejpeg.decode_jpeg_header(frame.image_data)[:2] == (frame.height, frame.width)
    assert {(frame.width, frame.height) for frame in watcher.frames} == {(320, 240), (161, 121)}


def test_a_camera_that_stops_is_stalled(watch: Watch, pictures: list[bytes]) -> None:
    """Without a picture for the read timeout the state says so; then it is tried again."""
    with serving(MjpegCamera(pictures, stop_after=3)) as camera:
        watcher = watch(camera.url, read_timeout_s=0.5)
        status = watcher.wait_for_state(CameraState.STALLED)
        camera.stop_after = None
        watcher.wait_for_frames(9)
        states = watcher.states[:4]

    assert status.reason == "no packet for 0.5 s"
    assert states == [
        CameraState.CONNECTING,
        CameraState.STREAMING,
        CameraState.STALLED,
        CameraState.STREAMING,
    ]


def test_a_camera_that_closes_is_offline_and_tried_again(watch: Watch, pictures: list[bytes]) -> None:
    """The state says what happened, numbers go on, and capture goes on by itself."""
    with serving(MjpegCamera(pictures, close_after=4)) as camera:
        watcher = watch(camera.url)
        status = watcher.wait_for_state(CameraState.OFFLINE)
        camera.close_after = None
        watcher.wait_for_frames(8)

    numbers = [frame.frame_id for frame in watcher.frames]
    assert status.reason == "the camera closed the connection"
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        ({"status": 404}, CameraState.OFFLINE, "{place} has no such stream (404): check the path of the URL"),
        ({"status": 403}, CameraState.AUTHENTICATION_FAILED, "{place} forbids this stream (403)"),
        ({"status": 410}, CameraState.OFFLINE, "{place} refuses the request (4xx)"),
        ({"status": 503}, CameraState.OFFLINE, "{place} answers with an error of its own (5xx)"),
        (
            {"is_web_page": True},
            CameraState.OFFLINE,
            "HTTP request: {place} closed the connection, redirects elsewhere"
            " or does not answer with multipart MJPEG",
        ),
        ({"stop_after": 0}, CameraState.OFFLINE, "HTTP request: {place} did not answer within 0.5 s"),
        ({"scheme": "basic"}, CameraState.AUTHENTICATION_FAILED, "{place} wants a user and password"),
        ({"scheme": "digest"}, CameraState.AUTHENTICATION_FAILED, "{place} wants a user and password"),
    ],
)
def test_what_is_wrong_is_said(
    watch: Watch, pictures: list[bytes], fault: dict[str, object], state: CameraState, reason: str
) -> None:
    """Each failure has its own words, and none repeats the URL."""
    with serving(MjpegCamera(pictures, **fault)) as camera:  # type: ignore[arg-type]  # a table of keywords
        watcher = watch(camera.url, connect_timeout_s=0.5)
        status = watcher.wait_for_state(state)

    assert status.reason == reason.format(place=f"127.0.0.1:{camera.port}")
