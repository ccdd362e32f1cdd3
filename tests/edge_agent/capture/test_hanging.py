"""Calls that never come back: real ones, and none of them holds the camera hostage."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edge_agent.capture import thread as capture_thread
from edge_agent.capture.capture import LATE_LOOK_S, MOST_HUNG, Capture
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.stage import Bounds
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from edge_agent.rtsp.faults import Faults, Stage
from edge_agent.state import CameraState, CameraStatus
from tests.edge_agent.capture.conftest import MakeClip, ServeDemo, Watch
from tests.polling import wait_until

HUNG = f": tried again when one of {MOST_HUNG} calls that hang comes back"


def hung_threads() -> list[str]:
    """Give what the system calls the threads of this process that were given up."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # it has ended
            continue
    return [name for name in names if name.startswith("hung-")]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """Give a named pipe that nobody writes to: opening it blocks for ever, as a file on a dead mount does."""
    path = tmp_path / "pipe.mp4"
    os.mkfifo(path)
    yield path
    if path.is_fifo():
        release(path)


def release(pipe: Path) -> None:
    """Let those that wait in opening the pipe go on: they find its end."""
    os.close(os.open(pipe, os.O_RDWR))


@pytest.fixture
def clip(make_clip: MakeClip) -> Path:
    return make_clip("hanging.mp4", "libx264", fps=25, tune="zerolatency", g="5")


def test_a_file_whose_opening_hangs(watch: Watch, pipe: Path, make_clip: MakeClip) -> None:
    """The state says which stage hangs, other threads take over, not without end; freed, it is captured."""
    watcher = watch(pipe, connect_timeout_s=0.05, patience_s=0.2)
    first = watcher.wait_for_state(CameraState.STALLED)
    watcher.wait_until(lambda: watcher.statuses[-1].reason.endswith(HUNG), "the last of its threads hangs")
    told = len(watcher.statuses)
    hung = hung_threads()
    with pytest.raises(pytest.fail.Exception, match="no fourth thread"):
        watcher.wait_until(lambda: len(hung_threads()) > MOST_HUNG, "fourth thread", 1.0)

    assert first.reason == "opening the file hangs for 1 s"
    assert hung == ["hung-yard"] * MOST_HUNG
    assert watcher.capture.hung == MOST_HUNG
    assert {status.since_s for status in watcher.statuses[1:]} == {first.since_s}
    assert len(watcher.statuses) == told

    # What they waited for is there: those that were given up end without a word, and the next attempt works.
    real = pipe.with_name("real.mp4")
    shutil.copy(make_clip("short.mp4", "libx264", pictures=3), real)
    pipe_before = pipe.rename(pipe.with_name("pipe"))
    real.rename(pipe)
    release(pipe_before)
    watcher.wait_for_state(CameraState.ENDED)

    assert watcher.states[-2:] == [CameraState.STREAMING, CameraState.ENDED]
    assert [frame.frame_id for frame in watcher.frames] == [1, 2, 3]
    watcher.wait_until(lambda: not hung_threads(), "the end of those that were given up")
    assert watcher.capture.hung == 0


def test_stop_does_not_wait_for_a_hanging_call(watch: Watch, pipe: Path) -> None:
    """Neither before the call was given up nor after."""
    early = watch(pipe, connect_timeout_s=1.0)
    late = watch(pipe, name="gate", connect_timeout_s=0.05, patience_s=0.2)
    late.wait_until(lambda: late.capture.hung == MOST_HUNG, "threads that were given up")
    ended = early.capture.stop(0.1), late.capture.stop(0.0)
    told = len(late.statuses)
    release(pipe)
    late.wait_until(lambda: late.capture.hung == 0, "the end of those that were given up")

    assert ended == (False, True)
    assert len(late.statuses) == told


def test_a_process_that_stood_still_blames_no_call(pipe: Path) -> None:
    """Frozen and thawed, it gives each call its whole time again."""
    statuses: list[CameraStatus] = []
    camera = CameraConfig(name="yard", url=str(pipe), connect_timeout_s=0.05)
    capture = Capture(camera, None, lambda _: None, statuses.append, patience_s=0.2)
    capture.start()
    wait_until(lambda: statuses, "the stage")
    capture.supervise()
    time.sleep(LATE_LOOK_S + 0.1)  # nobody looks
    capture.supervise()
    hung_at_once = capture.hung

    def is_given_up() -> bool:
        capture.supervise()
        return capture.hung > 0

    wait_until(is_given_up, "the call that hangs")
    capture.stop(0.0)
    assert hung_at_once == 0
    assert [status.state for status in statuses] == [CameraState.CONNECTING, CameraState.STALLED]


def test_a_picture_that_is_never_made(watch: Watch, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that hangs is given up too; nothing of it comes afterwards, and numbers go on."""
    frames_of, release_it = FrameMaker.frames, threading.Event()
    bounds_of = Bounds.of
    monkeypatch.setattr(
        capture_thread.Bounds, "of", staticmethod(lambda camera: replace(bounds_of(camera), frame_s=0.2))
    )
    hangs = iter([False, False, True])

    def frames(*arguments: object) -> Iterator[Frame]:
        made = list(frames_of(*arguments))  # type: ignore[arg-type]  # those of the method in whose place it is
        if next(hangs, False):
            release_it.wait()
        yield from made

    monkeypatch.setattr(FrameMaker, "frames", frames)
    watcher = watch(clip, fps=25.0, loop=True, patience_s=0.2)
    stalled = watcher.wait_for_state(CameraState.STALLED)
    watcher.wait_for_frames(5)
    release_it.set()
    watcher.wait_until(lambda: watcher.capture.hung == 0, "the end of the thread")
    watcher.wait_for_frames(8)

    assert stalled.reason.startswith("making a frame hangs for ")
    assert [frame.frame_id for frame in watcher.frames] == list(range(1, len(watcher.frames) + 1))
    times = [frame.captured_s for frame in watcher.frames]
    assert times == sorted(times)


@pytest.mark.parametrize("stage", ["OPTIONS", "DESCRIBE", "PLAY"])
async def test_an_answer_that_comes_a_byte_at_a_time(
    watch: Watch, demo_camera: ServeDemo, clip: Path, stage: Stage
) -> None:
    """Each byte in time, and no end: the handshake has its one timeout all the same."""
    async with demo_camera(clip, faults=Faults(drips_from=stage)) as camera:
        watcher = watch(camera.url, connect_timeout_s=0.5, read_timeout_s=0.5)
        failed = await asyncio.to_thread(watcher.wait_for_state, CameraState.OFFLINE, 5.0)
        place = f"127.0.0.1:{camera.port}"

    assert failed.reason == f"RTSP handshake: {place} did not answer within 0.5 s"
    assert watcher.capture.hung == 0


async def test_a_picture_that_never_ends(watch: Watch, demo_camera: ServeDemo, clip: Path) -> None:
    """Packets in time, and no whole picture: stalled, and connected again."""
    async with demo_camera(clip, faults=Faults(endless_after_frames=10)) as camera:
        watcher = watch(camera.url, fps=25.0, read_timeout_s=0.5)
        stalled = await asyncio.to_thread(watcher.wait_for_state, CameraState.STALLED, 5.0)
        camera.faults = Faults()
        told = watcher.statuses.index(stalled)
        await asyncio.to_thread(watcher.wait_for_state, CameraState.STREAMING, after=told)

    assert stalled.reason == "packets come, but no whole picture for 1 s"


RESOLVE = """
import socket, sys, threading, time
from edge_agent.capture.capture import Capture
from edge_agent.config import CameraConfig

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.53", 53))
stalled = threading.Event()
def on_status(status):
    print(status, flush=True)
    if status.state == "stalled":
        stalled.set()
camera = CameraConfig(name="yard", url="rtsp://camera.example/live", connect_timeout_s=0.2)
capture = Capture(camera, None, print, on_status, patience_s=0.2)
capture.start()
while not stalled.wait(0.05):
    capture.supervise()
assert silent.recv(512), "nobody asked the name server"
print("stopped" if capture.stop(1.0) else "hangs")
"""


def test_a_name_server_that_never_answers(tmp_path: Path) -> None:
    """Resolving is a stage like others: shown, bounded, given up."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("another resolv.conf takes a mount namespace of its own, and root")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.53\noptions timeout:30\n")
    (tmp_path / "resolve.py").write_text(RESOLVE)
    command = (
        f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && exec {sys.executable} {tmp_path}/resolve.py"
    )
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[:2] == [
        "connecting: resolving camera.example",
        "stalled: resolving camera.example hangs for 1 s",
    ]
    assert ran.stdout.splitlines()[-1] == "stopped"
