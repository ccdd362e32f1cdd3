"""What the agent is compared with: the film, and JPEGs of both that are alike."""

import shutil
from pathlib import Path

import av
import pytest

from bench.agent import made_film
from bench.images import compared

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the comparison wants Debian's ffmpeg")


def test_the_film_is_what_is_said_of_it_and_both_make_the_same_of_it(tmp_path: Path) -> None:
    """1080p at 25 fps with a keyframe a second and no reordering; JPEGs alike in bytes, scaled alike."""
    film = made_film(4, tmp_path, seconds=2)
    with av.open(str(film)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (1920, 1080, 25)
    assert [number for number, packet in enumerate(packets) if packet.is_keyframe] == [0, 25]
    assert all(packet.pts == packet.dts for packet in packets)

    comparison = compared(film, (640, 360), 80)
    assert comparison.their_bytes == pytest.approx(comparison.our_bytes, rel=0.15)
    assert comparison.scaled_psnr_db > 40
    assert min(comparison.our_psnr_db, comparison.their_psnr_db) > 30
    assert made_film(4, tmp_path, seconds=2).stat().st_mtime_ns == film.stat().st_mtime_ns
