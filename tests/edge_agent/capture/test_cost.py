"""What the frames that are not sent have cost."""

from pathlib import Path
from typing import Any

import av
import pytest

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.encode import EncodedImage, JpegEncoder
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.opening import open_source
from edge_agent.config import CameraConfig
from edge_agent.wanted import Wanted
from tests.edge_agent.capture.test_frames import FileTimes, film_of_motion


@pytest.mark.parametrize("wanted", [{"fps": 60, "motion": "on"}, {"fps": 2}], ids=["still", "thinned"])
def test_only_what_is_sent_is_converted_and_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]
) -> None:
    """What thinning or the motion gate holds back has cost its decoding at most."""
    encode, encoded = JpegEncoder.encode, 0

    def counted(encoder: JpegEncoder, picture: av.VideoFrame, wanted: Wanted) -> EncodedImage | None:
        nonlocal encoded
        encoded += 1
        return encode(encoder, picture, wanted)

    monkeypatch.setattr(JpegEncoder, "encode", counted)
    film_of_motion(tmp_path / "film.mp4", "libx264")
    camera = CameraConfig(name="yard", url=str(tmp_path / "film.mp4"), **wanted)
    counters = CaptureCounters()
    maker = FrameMaker(camera, FileTimes(), counters)
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        frames = [frame for coded in source.pictures() for frame in maker.frames(source, coded)]

    assert 10 < encoded == len(frames) < 80
    assert counters.frames_still + counters.frames_thinned == counters.frames_seen - encoded
