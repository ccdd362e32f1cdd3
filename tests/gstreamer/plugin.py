"""The fixture `gst_camera`: real RTSP cameras, GStreamer's server in processes that can be killed or frozen.

A top-level conftest takes it in with `pytest_plugins = ["tests.gstreamer.plugin"]`.
"""

import contextlib
import functools
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("gst_rtsp_server.py")
PYTHON = "/usr/bin/python3"
"""The distribution's interpreter, which has GStreamer's bindings."""
START_TIMEOUT_S = 60.0
"""Encoding a whole file beforehand takes its time."""
END_TIMEOUT_S = 10.0


@functools.cache
def gstreamer_problem() -> str | None:
    """Say what is missing for GStreamer's RTSP server; None when it can be used."""
    check = "import gi; gi.require_version('Gst', '1.0'); gi.require_version('GstRtspServer', '1.0')"
    try:
        subprocess.run(
            [PYTHON, "-c", check], check=True, capture_output=True, text=True, timeout=END_TIMEOUT_S
        )
    except FileNotFoundError:
        return f"{PYTHON} is not there"
    except subprocess.CalledProcessError as error:
        return f"GStreamer's RTSP server is not installed: {error.stderr.strip().splitlines()[-1]}"
    return None


def demand_gstreamer() -> None:
    """Skip where GStreamer's RTSP server is missing, except in CI, where that is a failure."""
    if (problem := gstreamer_problem()) is None:
        return
    if os.environ.get("CI"):
        pytest.fail(problem)
    pytest.skip(problem)


class GstCamera:
    """One camera process; `url` and `port` stay the same across restarts."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.restart()

    @property
    def url(self) -> str:
        """Where to watch it, without credentials."""
        return f"rtsp://127.0.0.1:{self.port}/live"

    def restart(self) -> None:
        """Start it, again on the port that it had; a running one is killed first."""
        self.kill()
        self._process = subprocess.Popen(
            [PYTHON, str(SERVER), *self._arguments, "--port", str(self.port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        line = self._process.stdout.readline() if readable else ""
        if not line.startswith("ready "):
            self.kill()
            pytest.fail(f"the camera {self._arguments} did not start: {line!r}, its errors are above")
        self.port = int(line.split()[1])

    def kill(self) -> None:
        """End the process without a word to its viewers; nothing when it has ended."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(END_TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def freeze(self) -> None:
        """Stop the process where it stands: connections stay open and nothing comes."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the camera has been killed"
        self._process.send_signal(number)


StartGstCamera = Callable[..., GstCamera]


@pytest.fixture
def gst_camera() -> Iterator[StartGstCamera]:
    """Start cameras; options are those of gst_rtsp_server.py, True for a flag. They end with the test.

    `gst_camera(file=path, codec="h265", loop=True)`, `gst_camera(pattern=True, size="320x240", fps=25)`.
    """
    demand_gstreamer()
    with contextlib.ExitStack() as ending:

        def start(**options: object) -> GstCamera:
            arguments: list[str] = []
            for name, value in options.items():
                arguments += [f"--{name}"] if value is True else [f"--{name}={value}"]
            camera = GstCamera(*arguments)
            ending.callback(camera.kill)
            return camera

        yield start
