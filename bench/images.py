"""JPEGs of the agent and of ffmpeg of the same pictures: their bytes and PSNR, and how to make them alike."""

import subprocess
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import av
import numpy as np
import simplejpeg
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from numpy.typing import NDArray

from edge_agent.capture.encode import JpegEncoder
from edge_agent.capture.planes import planes_of
from edge_agent.wanted import Wanted

PICTURES = 20
SCALES = range(2, 16)
"""ffmpeg's -q:v; a larger one is worse."""
EOI = b"\xff\xd9"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Means over some pictures."""

    scale: int
    """The -q:v whose JPEGs are nearest in bytes to ours."""
    our_bytes: float
    their_bytes: float
    our_psnr_db: float
    """Of luma, against the picture scaled without loss."""
    their_psnr_db: float
    scaled_psnr_db: float
    """Of ffmpeg's scaled luma against ours."""
    keyframe_bytes: float
    """Of the film's coded pictures."""
    other_bytes: float


def compared(film: Path, frame_wh: tuple[int, int], quality: int) -> Comparison:
    """Encode pictures of a film both ways; raises RuntimeError when ffmpeg fails."""
    with av.open(str(film)) as container:
        coded = [(packet.is_keyframe, packet.size) for packet in container.demux(video=0) if packet.size]
    with av.open(str(film)) as container:
        pictures = list(islice(container.decode(video=0), PICTURES))
        scaled = [_scaled(picture, frame_wh) for picture in pictures]
        ours = [_jpeg(picture, frame_wh, quality) for picture in pictures]
    our_bytes = _mean_bytes(ours)
    lumas = [planes_of(picture)[0].copy() for picture in scaled]
    raw = b"".join(plane.tobytes() for picture in scaled for plane in planes_of(picture))
    theirs = {scale: _of_ffmpeg(raw, frame_wh, scale) for scale in SCALES}
    scale = min(SCALES, key=lambda each: abs(_mean_bytes(theirs[each]) - our_bytes))
    return Comparison(
        scale=scale,
        our_bytes=our_bytes,
        their_bytes=_mean_bytes(theirs[scale]),
        our_psnr_db=_mean_psnr_db(ours, lumas),
        their_psnr_db=_mean_psnr_db(theirs[scale], lumas),
        scaled_psnr_db=float(np.mean(list(map(_psnr_db, _scaled_by_ffmpeg(film, frame_wh), lumas)))),
        keyframe_bytes=float(np.mean([size for is_keyframe, size in coded if is_keyframe])),
        other_bytes=float(np.mean([size for is_keyframe, size in coded if not is_keyframe])),
    )


def _scaled(picture: av.VideoFrame, frame_wh: tuple[int, int]) -> av.VideoFrame:
    return picture.reformat(
        *frame_wh,
        format="yuvj420p",
        dst_colorspace=Colorspace.ITU601,
        dst_color_range=ColorRange.JPEG,
        interpolation=Interpolation.AREA,
    )


def _jpeg(picture: av.VideoFrame, frame_wh: tuple[int, int], quality: int) -> bytes:
    image = JpegEncoder().encode(picture, Wanted(fps=1, quality=quality, max_width=frame_wh[0]))
    if image is None or (image.width, image.height) != frame_wh:
        raise RuntimeError(f"the agent's encoder made no picture of {frame_wh[0]} x {frame_wh[1]}")
    return image.data


def _of_ffmpeg(raw: bytes, frame_wh: tuple[int, int], scale: int) -> list[bytes]:
    """Encode yuvj420p pictures, one after another, with ffmpeg's mjpeg."""
    size = f"{frame_wh[0]}x{frame_wh[1]}"
    source = ("-f", "rawvideo", "-pix_fmt", "yuvj420p", "-s", size, "-i", "pipe:0")
    stream = _piped(raw, *source, "-c:v", "mjpeg", "-q:v", str(scale), "-f", "mjpeg", "pipe:1")
    return [part + EOI for part in stream.split(EOI) if part]


def _scaled_by_ffmpeg(film: Path, frame_wh: tuple[int, int]) -> list[NDArray[np.uint8]]:
    width, height = frame_wh
    scale = f"scale={width}:{height}:flags=area:out_range=full,format=yuvj420p"
    raw = _piped(b"", "-i", str(film), "-frames:v", str(PICTURES), "-vf", scale, "-f", "rawvideo", "pipe:1")
    pictures = np.frombuffer(raw, np.uint8).reshape(-1, height * 3 // 2, width)
    return [picture[:height] for picture in pictures]


def _piped(data: bytes, *arguments: str) -> bytes:
    done = subprocess.run(["ffmpeg", "-v", "error", *arguments], check=False, input=data, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"ffmpeg: {' '.join(done.stderr.decode(errors='replace').split())[-500:]}")
    return done.stdout


def _mean_bytes(images: list[bytes]) -> float:
    return float(np.mean([len(image) for image in images]))


def _mean_psnr_db(images: list[bytes], lumas: list[NDArray[np.uint8]]) -> float:
    decoded = [simplejpeg.decode_jpeg(image, colorspace="GRAY")[..., 0] for image in images]
    return float(np.mean(list(map(_psnr_db, decoded, lumas))))


def _psnr_db(image: NDArray[np.uint8], reference: NDArray[np.uint8]) -> float:
    error = float(np.mean((image.astype(float) - reference) ** 2))
    return 10 * np.log10(255**2 / error) if error else float("inf")
