"""Odd passwords reach the camera as they are, and nothing else."""

import asyncio
import base64
import logging
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import simplejpeg

from edge_agent.capture import thread
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.opening import open_source
from edge_agent.config import CameraConfig
from edge_agent.config.source_url import Source, parse_source
from edge_agent.rtsp.auth import Credentials, Scheme
from edge_agent.rtsp.camera import DemoCamera
from edge_agent.rtsp.faults import Faults
from edge_agent.state import CameraState
from tests.edge_agent.capture.conftest import MakeClip, ServeDemo, Watch
from tests.edge_agent.capture.mjpeg_server import MjpegCamera, serving
from tests.gstreamer.plugin import StartGstCamera

USER = "yard keeper"
PASSWORD = "p@s:/?#%^!&=+~*ä "

FORMS = ["raw", "percent-encoded", "separate"]


def typed(url: str, form: str, user: str = USER, password: str = PASSWORD) -> Source:
    """Take a URL with credentials apart as the command line does, typed in one of the three ways."""
    scheme, rest = url.split("://")
    if form == "raw":
        return parse_source(f"{scheme}://{user}:{password}@{rest}")
    if form == "percent-encoded":
        return parse_source(f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}")
    return Source(url, user, password)


@pytest.fixture
def clip(make_clip: MakeClip) -> Path:
    return make_clip("password.mp4", "libx264", fps=25, tune="zerolatency", g="5")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("scheme", "qop"), [("basic", False), ("digest", False), ("digest", True)])
async def test_rtsp(
    watch: Watch, demo_camera: ServeDemo, clip: Path, form: str, scheme: Scheme, qop: bool
) -> None:
    """Basic and both kinds of Digest, with a password of everything that has a meaning in URLs."""
    credentials = Credentials(user=USER, password=PASSWORD, scheme=scheme, qop=qop)
    async with demo_camera(clip, credentials=credentials) as camera:
        source = typed(camera.url, form)
        watcher = watch(source.url, source.password, user=source.user)
        await asyncio.to_thread(watcher.wait_for_frames, 2)

    assert camera.counts.refused == 0


@pytest.mark.parametrize("scheme", ["basic", "digest"])
def test_rtsp_of_gstreamer(watch: Watch, gst_camera: StartGstCamera, walkers: Path, scheme: str) -> None:
    """The same against GStreamer's server."""
    user, password = "keeper", "p@s:/?#%^!&=+~*"
    camera = gst_camera(file=walkers, user=user, password=password, auth=scheme)
    watchers = []
    for form in FORMS:
        source = typed(camera.url, form, user, password)
        watchers.append(watch(source.url, source.password, user=source.user))
    for watcher in watchers:
        watcher.wait_for_frames(2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheme", ["basic", "digest"])
def test_http(watch: Watch, form: str, scheme: str) -> None:
    """The same over HTTP."""
    picture = simplejpeg.encode_jpeg(np.zeros((48, 64, 3), np.uint8))
    with serving(MjpegCamera([picture], user=USER, password=PASSWORD, scheme=scheme)) as camera:
        source = typed(camera.url, form)
        watch(source.url, source.password, user=source.user).wait_for_frames(2)


@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_a_wrong_password_is_said_to_be_wrong(
    watch: Watch, demo_camera: ServeDemo, clip: Path, monkeypatch: pytest.MonkeyPatch, scheme: Scheme
) -> None:
    """A state of its own, that ends once the camera has been given the password."""
    monkeypatch.setattr(thread, "REFUSED_PASSWORD_DELAY_S", 0.5)
    wrong = Credentials(user=USER, password="another", scheme=scheme)
    async with DemoCamera(clip, credentials=wrong) as camera:
        port = camera.port
        watcher = watch(camera.url, PASSWORD, user=USER)
        status = await asyncio.to_thread(watcher.wait_for_state, CameraState.AUTHENTICATION_FAILED)
    right = Credentials(user=USER, password=PASSWORD, scheme=scheme)
    async with demo_camera(clip, port=port, credentials=right):
        await asyncio.to_thread(watcher.wait_for_state, CameraState.STREAMING)

    assert status.reason == f"127.0.0.1:{port} refuses the user or the password"


async def test_a_wrong_password_is_tried_less_and_less_often(
    watch: Watch, demo_camera: ServeDemo, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cameras lock users out: each delay is twice the one before."""
    monkeypatch.setattr(thread, "REFUSED_PASSWORD_DELAY_S", 0.2)
    wrong = Credentials(user=USER, password="another")
    async with demo_camera(clip, credentials=wrong) as camera:
        begun_s = time.monotonic()
        watcher = watch(camera.url, PASSWORD, user=USER)
        counters = watcher.capture.counters
        await asyncio.to_thread(watcher.wait_until, lambda: counters.failed_opens >= 4, "fourth attempt")
        took_s = time.monotonic() - begun_s

    assert took_s >= 0.2 + 0.4 + 0.8


@pytest.mark.parametrize(("password", "fits"), [("a" * 122, True), ("a" * 123, False), ("/" * 41, False)])
async def test_the_longest_password(
    watch: Watch, demo_camera: ServeDemo, clip: Path, password: str, fits: bool
) -> None:
    """What FFmpeg would cut off is refused with the reason instead of being sent in part."""
    async with demo_camera(clip, credentials=Credentials(user="yard", password=password)) as camera:
        watcher = watch(camera.url, password, user="yard")
        expected = CameraState.STREAMING if fits else CameraState.AUTHENTICATION_FAILED
        status = await asyncio.to_thread(watcher.wait_for_state, expected)
        refused = camera.counts.refused

    assert refused == 0
    assert fits or status.reason.startswith("user and password are too long for RTSP: 128 bytes")


async def test_a_wrong_password_is_not_tried_in_a_hurry(
    watch: Watch, demo_camera: ServeDemo, clip: Path
) -> None:
    """A camera that locks users out sees one attempt, where a camera that is down would see several."""
    async with demo_camera(clip, credentials=Credentials(user=USER, password="another")) as camera:
        watcher = watch(camera.url, PASSWORD, user=USER)
        down = watch("rtsp://127.0.0.1:1/live")
        await asyncio.to_thread(watcher.wait_for_state, CameraState.AUTHENTICATION_FAILED)
        await asyncio.to_thread(
            down.wait_until, lambda: down.capture.counters.failed_opens >= 5, "fifth attempt"
        )

    assert camera.counts.refused == 1


async def test_a_missing_password_is_said_to_be_missing(
    watch: Watch, demo_camera: ServeDemo, clip: Path
) -> None:
    """Without a user the state asks for one."""
    async with demo_camera(clip, credentials=Credentials(user=USER, password=PASSWORD)) as camera:
        port = camera.port
        watcher = watch(camera.url)
        status = await asyncio.to_thread(watcher.wait_for_state, CameraState.AUTHENTICATION_FAILED)

    assert status.reason == f"127.0.0.1:{port} wants a user and password"


def forms_of(password: str) -> Iterator[str]:
    """Give the ways in which a password could show in a text."""
    yield from (password, quote(password), quote(password, safe=""), repr(password)[1:-1])
    for text in (password, f"{USER}:{password}"):
        for padding in range(3):
            # Wherever in a longer text it begins, base64 of it contains one of three middles.
            yield base64.b64encode(b"x" * padding + text.encode()).decode()[4:-4]


FAULTS = [
    {"silent_from": "OPTIONS"},
    {"silent_from": "PLAY"},
    {"stall_after_frames": 0},
    {"stall_after_frames": 3},
    {"close_after_frames": 3},
    {"malformed_sdp": "cut off"},
    {"malformed_sdp": "unknown codec"},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("is_right", [True, False])
async def test_nothing_shows_the_password(
    demo_camera: ServeDemo,
    watch: Watch,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    fault: dict[str, object],
    is_right: bool,
) -> None:
    """Whatever fails: no state, log line, output of a library or error in the chain holds it in any form."""
    monkeypatch.setattr(thread, "REFUSED_PASSWORD_DELAY_S", 0.1)
    caplog.set_level(logging.DEBUG)
    known = Credentials(user=USER, password=PASSWORD if is_right else "another", scheme="basic")
    faults = Faults(**fault)  # type: ignore[arg-type]  # a table of keywords
    async with demo_camera(clip, credentials=known, faults=faults) as camera:
        camera_config = CameraConfig(
            name="yard", url=camera.url, user=USER, connect_timeout_s=0.3, read_timeout_s=0.3
        )
        error = await asyncio.to_thread(failure, camera_config)
        watcher = watch(camera.url, PASSWORD, user=USER, connect_timeout_s=0.3, read_timeout_s=0.3)
        await asyncio.to_thread(
            watcher.wait_until,
            lambda: watcher.capture.counters.opens + watcher.capture.counters.failed_opens > 1,
            "retry",
        )
    captured = capfd.readouterr()
    shown = "\n".join(
        [
            *(str(status) for status in watcher.statuses),
            repr(watcher.capture),
            caplog.text,
            captured.out,
            captured.err,
            str(error),
            repr(error),
            *traceback.format_exception(error),
        ]
    )

    assert error.__context__ is None
    assert error.__cause__ is None
    assert not [form for form in forms_of(PASSWORD) if form in shown]


def failure(camera: CameraConfig) -> CaptureError:
    """Open and read until it fails."""
    try:
        with open_source(camera, PASSWORD, lambda _: None) as source:
            for _ in source.pictures():
                pass
    except CaptureError as error:
        return error
    pytest.fail("it did not fail")


def test_nothing_shows_the_password_of_an_http_camera(
    watch: Watch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same for a camera that refuses it over HTTP."""
    caplog.set_level(logging.DEBUG)
    with serving(MjpegCamera([], scheme="basic")) as camera:
        error = failure(CameraConfig(name="yard", url=camera.url, user=USER))
        watcher = watch(camera.url, PASSWORD, user=USER)
        watcher.wait_for_state(CameraState.AUTHENTICATION_FAILED)
    captured = capfd.readouterr()
    shown = "\n".join(
        [*(str(status) for status in watcher.statuses), caplog.text, captured.out, captured.err]
    )

    assert error.__context__ is None
    assert not [
        form for form in forms_of(PASSWORD) if form in shown + "".join(traceback.format_exception(error))
    ]
