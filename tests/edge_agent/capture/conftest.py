"""Fixtures for capture: clips of every kind, and a capture whose frames and states can be waited for."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import av
import pytest

from edge_agent.capture.attempts import Attempts
from edge_agent.capture.capture import Capture
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from edge_agent.rtsp.camera import DemoCamera
from edge_agent.state import CameraState, CameraStatus

WAIT_S = 20.0
PATIENCE_S = 1.0
SUPERVISE_INTERVAL_S = 0.05


class Watcher:
    """A capture that runs, with everything it delivered and when."""

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None = None,
        attempts: Attempts | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.camera = camera
        self.frames: list[Frame] = []
        self.delivered_s: list[float] = []
        self.statuses: list[CameraStatus] = []
        self.thread_names: set[str] = set()
        self._changed = threading.Condition()
        self.capture = Capture(camera, password, self._on_frame, self._on_status, attempts, patience_s)

    def _on_frame(self, frame: Frame) -> None:
        with self._changed:
            self.thread_names.add(threading.current_thread().name)
            self.delivered_s.append(time.monotonic())
            self.frames.append(frame)
            self._changed.notify_all()

    def _on_status(self, status: CameraStatus) -> None:
        with self._changed:
            self.statuses.append(status)
            self._changed.notify_all()

    @property
    def states(self) -> list[CameraState]:
        """The states in order, without repetitions that differ in reason only."""
        states: list[CameraState] = []
        for status in self.statuses:
            if not states or status.state is not states[-1]:
                states.append(status.state)
        return states

    def wait_until(self, true: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Wait until something holds."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not true():
                if time.monotonic() > deadline_s:
                    pytest.fail(
                        f"no {what} within {timeout_s:g} s; statuses: {[str(s) for s in self.statuses]}"
                    )
                self._changed.wait(0.05)  # what is waited for may change without a frame or status

    def wait_for_frames(self, count: int, timeout_s: float = WAIT_S) -> None:
        """Wait until so many frames have come in all."""
        self.wait_until(lambda: len(self.frames) >= count, f"{count} frames", timeout_s)

    def wait_for_state(
        self, state: CameraState, timeout_s: float = WAIT_S, *, after: int = 0
    ) -> CameraStatus:
        """Wait for a state among the statuses from number `after` on."""

        def found() -> bool:
            return any(status.state is state for status in self.statuses[after:])

        self.wait_until(found, f"state {state.value!r}", timeout_s)
        return next(status for status in self.statuses[after:] if status.state is state)


class Watch:
    """Starts captures, and supervises them as the agent does: `watch(url, password=None, fps=…)`."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self.attempts = Attempts()
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise)
        self._supervisor.start()

    def _supervise(self) -> None:
        while not self._ending.wait(SUPERVISE_INTERVAL_S):
            for watcher in tuple(self._watchers):
                watcher.capture.supervise()

    def end(self) -> None:
        """Stop all captures and their supervision."""
        self._ending.set()
        self._supervisor.join()
        self.stop()

    def __call__(
        self,
        url: str | Path,
        password: str | None = None,
        *,
        name: str = "yard",
        patience_s: float = PATIENCE_S,
        **options: Any,
    ) -> Watcher:
        """Start one, with options of its CameraConfig."""
        camera = CameraConfig(name=name, url=str(url), **options)
        watcher = Watcher(camera, password, self.attempts, patience_s)
        watcher.capture.start()
        self._watchers.append(watcher)
        return watcher

    def stop(self) -> None:
        """Stop all of them; every thread is to end."""
        for watcher in self._watchers:
            assert watcher.capture.stop(5.0), "a capture thread did not end"


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Give what starts captures; they are stopped after the test."""
    watch = Watch()
    yield watch
    watch.end()


ServeDemo = Callable[..., AbstractAsyncContextManager[DemoCamera]]


@pytest.fixture
def demo_camera(watch: Watch) -> ServeDemo:
    """Give what serves demo cameras as context managers; the captures of the test are stopped before them."""

    @asynccontextmanager
    async def serve(path: Path, **options: Any) -> AsyncIterator[DemoCamera]:
        async with DemoCamera(path, **options) as camera:
            yield camera
            await asyncio.to_thread(watch.stop)

    return serve


MakeClip = Callable[..., Path]


@pytest.fixture(scope="session")
def make_clip(walkers: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeClip:
    """Encode footage: `make_clip("clip.mp4", "libx264", pictures=30, width=320, height=240, fps=10, …)`.

    Further keywords are options of the encoder. The same call gives the same file.
    """
    directory = tmp_path_factory.mktemp("clips")
    made: dict[str, Path] = {}

    def make(
        name: str,
        codec: str,
        *,
        pictures: int = 30,
        width: int = 320,
        height: int = 240,
        fps: int = 10,
        pix_fmt: str = "yuv420p",
        **options: str,
    ) -> Path:
        key = f"{name} {codec} {pictures} {width} {height} {fps} {pix_fmt} {options}"
        if key not in made:
            made[key] = directory / f"{len(made)}-{name}"
            with av.open(str(walkers)) as footage, av.open(str(made[key]), "w") as clip:
                stream = clip.add_stream(codec, rate=fps, options=options)
                assert isinstance(stream, av.VideoStream)
                stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
                stream.codec_context.thread_count = 1
                for number, picture in enumerate(islice(footage.decode(video=0), pictures)):
                    scaled = picture.reformat(width, height, format=pix_fmt)
                    scaled.pts, scaled.time_base = number, Fraction(1, fps)
                    clip.mux(stream.encode(scaled))
                clip.mux(stream.encode(None))
        return made[key]

    return make


ENCODERS = {
    "h264": ("libx264", {"tune": "zerolatency", "g": "10"}),
    "hevc": ("libx265", {"x265-params": "keyint=10:bframes=0:log-level=none"}),
    "mjpeg": ("mjpeg", {"huffman": "default"}),
}


@pytest.fixture
def clip_of(make_clip: MakeClip) -> Callable[..., Path]:
    """Give 30 pictures of 320 x 240 at 25 fps in a codec; a keyframe every ten."""

    def clip(codec: str = "h264", **changes: Any) -> Path:
        encoder, options = ENCODERS[codec]
        pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        return make_clip("camera.mkv", encoder, **{"fps": 25, "pix_fmt": pix_fmt, **options, **changes})

    return clip


async def until(wait: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Wait for a watcher without holding up the camera, which runs in this thread's event loop."""
    return await asyncio.to_thread(wait, *arguments, **options)
