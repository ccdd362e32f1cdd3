"""Clips that the tests make themselves, and their pictures as libav decodes them from the file."""

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray

FPS = 50
"""Of a clip for which nothing else is said: fast, for the tests to be short."""
ENCODERS = {"h264": "libx264", "hevc": "libx265", "mjpeg": "mjpeg"}


def pictures(count: int, size: tuple[int, int], *, noise: bool = False) -> Iterator[NDArray[np.uint8]]:
    """Make pictures (height, width, 3) that all differ: a bright block on its way over a slope, or noise."""
    width, height = size
    chance = np.random.default_rng(7)
    slope = np.linspace(20, 120, width, dtype=np.uint8)
    for number in range(count):
        picture = np.empty((height, width, 3), np.uint8)
        picture[:] = slope[None, :, None]
        left = (number * 5) % (width - 24)
        picture[height // 3 : height // 3 + 24, left : left + 24] = (250, 40, 40 + 3 * number % 200)
        if noise:
            picture = chance.integers(0, 255, picture.shape, np.uint8)
        yield picture


def make_clip(
    path: Path,
    codec: str = "h264",
    *,
    frames: int = 30,
    size: tuple[int, int] = (320, 240),
    fps: int = FPS,
    gop: int = 10,
    b_frames: int = 0,
    pixels: str = "",
    noise: bool = False,
    options: dict[str, str] | None = None,
) -> Path:
    """Encode a clip into a container that goes by the path's ending."""
    settings = {
        "h264": {"preset": "veryfast", "x264-params": f"scenecut=0:bframes={b_frames}:b-adapt=0"},
        "hevc": {"preset": "ultrafast", "x265-params": f"log-level=error:scenecut=0:bframes={b_frames}"},
        "mjpeg": {"qmin": "2", "qmax": "4", "huffman": "default"},
    }
    with av.open(path, "w") as container:
        stream = container.add_stream(ENCODERS[codec], rate=fps, options=settings[codec] | (options or {}))
        assert isinstance(stream, VideoStream)
        stream.width, stream.height = size
        stream.pix_fmt = pixels or ("yuvj420p" if codec == "mjpeg" else "yuv420p")
        stream.codec_context.gop_size = gop
        stream.codec_context.thread_count = 1
        for number, picture in enumerate(pictures(frames, size, noise=noise)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def fingerprint(frame: av.VideoFrame) -> str:
    """Name the pixels of a picture, every one of them."""
    return hashlib.sha256(frame.to_ndarray().tobytes()).hexdigest()[:16]


def decode(path: Path) -> list[str]:
    """Decode the file; gives the fingerprints of its pictures in the order of showing."""
    with av.open(path) as container:
        return [fingerprint(frame) for frame in container.decode(video=0)]
