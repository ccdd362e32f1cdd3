"""Privacy masks: regions that are black before a picture is scaled, drawn upon or encoded."""

from collections.abc import Sequence
from typing import Final

import av
import numpy as np
from av.video.format import VideoFormat
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from edge_agent.capture.planes import SUBSAMPLING_WH, planes_of
from edge_agent.config import Polygon

MARGIN_PX: Final = 1e-6
"""A pixel that is so near to a polygon is touched by it, whatever rounding has done."""
NO_COLOUR: Final = 128
BLACK: Final = 16
FULL_RANGE_BLACK: Final = 0

Corners = NDArray[np.float64]


class PrivacyMasks:
    """Blacks out polygons in the pictures of one camera. Not for use by two threads at a time.

    It is done on the decoded picture, at its own size: whatever reads it afterwards, scaler or encoder, finds
    black. Each pixel that a polygon touches is black, and each sample of chroma that such a pixel shares.
    """

    def __init__(self, polygons: Sequence[Polygon]) -> None:
        self._polygons = tuple(polygons)
        self._reformatter = VideoReformatter()
        self._kind: tuple[str, int, int] | None = None
        self._regions: list[_Region] = []

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return bool(self._polygons)

    def applied(self, picture: av.VideoFrame) -> av.VideoFrame:
        """Give the picture with its regions black; the picture that came in is not to be used any more.

        A decoder's own buffer is never written to: later pictures may build on it.
        """
        if not self._polygons:
            return picture
        if picture.format.name in SUBSAMPLING_WH:
            picture.make_writable()
        else:
            picture = self._in_planes(picture)
        kind = (picture.format.name, picture.width, picture.height)
        if kind != self._kind:
            self._regions = _regions(self._polygons, *kind)
            self._kind = kind
        is_full = picture.color_range == ColorRange.JPEG or not picture.format.name.startswith("yuv4")
        for number, (plane, region) in enumerate(zip(planes_of(picture), self._regions, strict=True)):
            region.fill(plane, NO_COLOUR if number else FULL_RANGE_BLACK if is_full else BLACK)
        return picture

    def _in_planes(self, picture: av.VideoFrame) -> av.VideoFrame:
        """Convert pixel by pixel, with chroma as it is: no sample of it is made of its neighbours."""
        return self._reformatter.reformat(
            picture,
            format=_planar_format(picture.format),
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.JPEG,
            interpolation=Interpolation.POINT,
            threads=1,
        )


def touched_pixels(polygons: Sequence[Polygon], width: int, height: int) -> NDArray[np.bool_]:
    """Tell which pixels are touched by any of the polygons: bool (height, width).

    Corners are fractions of width and height. What a polygon that crosses itself encloses belongs to it.
    """
    touched = np.zeros((height, width), np.bool_)
    for polygon in polygons:
        corners = np.asarray(polygon, np.float64) * (width, height)
        # How often the boundary winds around the middle of a pixel, and whether it passes through the pixel.
        winding, passing = (np.zeros((height, width + 1), np.int16) for _ in range(2))
        for begin, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            _wind(winding, begin, end)
            _pass(passing, begin, end)
        for steps in (winding, passing):
            touched |= np.cumsum(steps, axis=1, dtype=np.int16)[:, :width] != 0
    return touched


class _Region:
    """The samples of one plane that are to be black."""

    def __init__(self, covered: NDArray[np.bool_]) -> None:
        rows, columns = np.flatnonzero(covered.any(axis=1)), np.flatnonzero(covered.any(axis=0))
        self._box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        self._covered = covered[self._box].copy()

    def fill(self, plane: NDArray[np.uint8], level: int) -> None:
        np.copyto(plane[self._box], np.uint8(level), where=self._covered)


def _regions(polygons: Sequence[Polygon], format_name: str, width: int, height: int) -> list[_Region]:
    luma = touched_pixels(polygons, width, height)
    if format_name == "gray":
        return [_Region(luma)]
    across, down = SUBSAMPLING_WH[format_name]
    whole = np.pad(luma, ((0, -height % down), (0, -width % across)))
    blocks = whole.reshape(whole.shape[0] // down, down, whole.shape[1] // across, across)
    chroma: NDArray[np.bool_] = np.any(blocks, axis=(1, 3))
    return [_Region(luma), _Region(chroma), _Region(chroma)]


def _planar_format(packed: VideoFormat) -> str:
    """Name the format of eight bits in planes that has as many samples of chroma as another one."""
    if packed.is_rgb or packed.is_bayer or packed.has_palette or len(packed.components) < 3:
        return "yuv444p"
    length = 64
    across, down = length // packed.chroma_width(length), length // packed.chroma_height(length)
    for name, subsampling_wh in SUBSAMPLING_WH.items():
        if subsampling_wh == (across, down):
            return name
    return "yuv444p"


def _wind(winding: NDArray[np.int16], begin: Corners, end: Corners) -> None:
    """Count an edge in all pixels to the right of it whose middles lie between its ends' heights."""
    (x1, y1), (x2, y2) = begin, end
    first, last = np.ceil(np.array([min(y1, y2), max(y1, y2)]) - 0.5).astype(int)
    rows = np.arange(max(first, 0), min(last, winding.shape[0]))
    if rows.size:
        x = x1 + (rows + 0.5 - y1) * ((x2 - x1) / (y2 - y1))
        columns = np.clip(np.ceil(x - 0.5).astype(int), 0, winding.shape[1] - 1)
        winding[rows, columns] += 1 if y2 > y1 else -1


def _pass(passing: NDArray[np.int16], begin: Corners, end: Corners) -> None:
    """Count an edge in all pixels that it passes through."""
    height, width = passing.shape[0], passing.shape[1] - 1
    (x1, y1), (x2, y2) = begin, end
    top, bottom = min(y1, y2), max(y1, y2)
    first, last = np.floor([top - MARGIN_PX, bottom + MARGIN_PX]).astype(int)
    rows = np.arange(max(first, 0), min(last, height - 1) + 1)
    if bottom - top <= MARGIN_PX:
        left, right = np.full(rows.shape, min(x1, x2)), np.full(rows.shape, max(x1, x2))
    else:
        slope = (x2 - x1) / (y2 - y1)
        at = [x1 + (np.clip(rows + edge, top, bottom) - y1) * slope for edge in (-MARGIN_PX, 1 + MARGIN_PX)]
        left, right = np.minimum(*at), np.maximum(*at)
    begins = np.clip(np.floor(left - MARGIN_PX).astype(int), 0, width - 1)
    ends = np.clip(np.floor(right + MARGIN_PX).astype(int), 0, width - 1)
    passing[rows, begins] += 1
    passing[rows, ends + 1] -= 1
