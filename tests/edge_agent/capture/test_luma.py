"""The luma of a decoded picture, in whatever format it comes."""

import av
import numpy as np
import pytest

from edge_agent.capture.luma import luma_of
from tests.pictures import scene


@pytest.fixture
def picture() -> av.VideoFrame:
    """Give a picture whose rows are padded: 101 px wide."""
    return av.VideoFrame.from_ndarray(scene(67, 101), format="rgb24")


@pytest.mark.parametrize("name", ["yuv420p", "yuvj420p", "yuv422p", "yuvj444p", "nv12", "gray"])
def test_a_plane_of_its_own_is_not_copied(picture: av.VideoFrame, name: str) -> None:
    """The view shows the plane's bytes, without what pads its rows."""
    converted = picture.reformat(format=name)
    luma = luma_of(converted)

    assert (luma.shape, luma.dtype) == ((67, 101), np.uint8)
    assert luma.strides == (converted.planes[0].line_size, 1)
    rows = np.frombuffer(memoryview(converted.planes[0]), np.uint8).reshape(67, -1)[:, :101]
    np.testing.assert_array_equal(luma, rows)
    assert np.shares_memory(luma, np.asarray(memoryview(converted.planes[0])))


@pytest.mark.parametrize("name", ["yuyv422", "uyvy422", "rgb24", "bgra", "gbrp", "yuv420p10le", "gray16le"])
def test_all_else_is_converted(picture: av.VideoFrame, name: str) -> None:
    """Packed pixels, colours and more bits: eight bits of luma, near to those of the usual format."""
    luma = luma_of(picture.reformat(format=name))
    usual = picture.reformat(format="gray").to_ndarray()

    assert (luma.shape, luma.dtype) == ((67, 101), np.uint8)
    assert np.corrcoef(luma.ravel(), usual.ravel())[0, 1] > 0.97


def test_the_view_outlives_the_frame() -> None:
    """What it shows is kept alive by it."""
    luma = luma_of(av.VideoFrame.from_ndarray(scene(67, 101), format="rgb24").reformat(format="yuv420p"))

    assert luma.std() > 10
