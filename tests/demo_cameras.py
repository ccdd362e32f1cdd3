"""Demo cameras beside a test that waits: in an event loop of their own, in one thread for all of them."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from edge_agent.rtsp.camera import DemoCamera

Given = TypeVar("Given")


class DemoCameras:
    """A context manager: `cameras.serve(path, faults=…)` gives a DemoCamera that serves until the end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo-cameras")
        self._cameras: list[DemoCamera] = []

    def serve(self, path: Path, **options: Any) -> DemoCamera:
        """Serve a clip; options are those of DemoCamera."""
        camera = DemoCamera(path, **options)
        self._run(camera.start())
        self._cameras.append(camera)
        return camera

    def close(self, camera: DemoCamera) -> None:
        """Cut a camera's connections and listen no more."""
        self._cameras.remove(camera)
        self._run(camera.close())

    def _run(self, work: Coroutine[Any, Any, Given]) -> Given:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for camera in list(self._cameras):
            self.close(camera)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30.0)
        self._loop.close()
