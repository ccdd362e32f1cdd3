"""What is set anew of a camera's frames while they come: masks and motion gate, over the same connection."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from tests.demo_cameras import DemoCameras
from tests.edge_agent.capture.conftest import Watch, Watcher

WHOLE = (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)),)
LEFT = (((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0)),)


@pytest.fixture(scope="module")
def url(walkers: Path) -> Iterator[str]:
    with DemoCameras() as cameras:
        yield cameras.serve(walkers).url


def pixels(frame: Frame) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    decoded: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = simplejpeg.decode_jpeg(frame.image_data)
    return decoded


def configure(watcher: Watcher, camera: CameraConfig) -> int:
    """Set a configuration; gives the number of the first frame that is wholly made by it."""
    watcher.capture.configure(camera)
    # One may be under way.
    return len(watcher.frames) + 1


def test_privacy_masks(watch: Watch, url: str) -> None:
    """Set, another, none: each holds from the next picture on, and nothing is connected anew."""
    watcher = watch(url)
    camera = watcher.camera
    watcher.wait_for_frames(2)
    for masks, (left, right) in ((WHOLE, (True, True)), (LEFT, (True, False)), ((), (False, False))):
        first = configure(watcher, replace(camera, privacy_masks=masks))
        watcher.wait_for_frames(first + 2)
        for frame in watcher.frames[first:]:
            assert frame.privacy_masks == masks
            picture = pixels(frame)
            middle = picture.shape[1] // 2
            halves = (picture[:, : middle - 16], picture[:, middle + 16 :])
            assert tuple(half.max() < 32 for half in halves) == (left, right)

    assert watcher.capture.counters.opens == 1


def test_the_motion_gate(watch: Watch, url: str) -> None:
    """On, with a mask over everything: still; off again: every frame."""
    watcher = watch(url)
    camera = watcher.camera
    watcher.wait_for_frames(2)
    configure(watcher, replace(camera, motion="on", motion_masks=WHOLE))
    counters = watcher.capture.counters
    watcher.wait_until(lambda: counters.frames_still >= 5, "frames held back")
    configure(watcher, replace(camera, motion="on", motion_masks=WHOLE, motion_sensitivity=90))
    configure(watcher, camera)
    still = counters.frames_still
    watcher.wait_for_frames(len(watcher.frames) + 5)

    assert counters.frames_still <= still + 1
    assert counters.opens == 1
