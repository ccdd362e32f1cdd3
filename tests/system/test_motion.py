"""An empty street and then people, from a file through agent and server: what is sent, who is answered."""

from datetime import datetime
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.tracks import full_rate_tracks

FPS = 10
NOISE_LEVELS = 4.0
DRIFT_LEVELS = 30.0
"""How much brighter it becomes in a minute."""
LEARNING_FRAMES = 9
REFRESH_S = 4
ANSWERED_WITHIN_S = 0.5
# A file whose reader is held up for longer than its patience goes on later: given on top on a loaded machine.
SLACK_S = 2.0


def make_clip(path: Path, walkers: Path, empty_s: int, frames: int) -> None:
    """Encode the median of the footage with noise and a slow drift of light, and then the footage itself.

    Noise and light go on in the footage; the quality is high enough to leave much of the noise.
    """
    with av.open(str(walkers)) as container:
        pictures = np.stack([frame.to_ndarray() for frame in container.decode(video=0)])
    empty = np.median(pictures[::16], axis=0)
    height, width = pictures.shape[1] * 2 // 3, pictures.shape[2]
    rng = np.random.default_rng(1)
    noise = np.rint(rng.standard_normal(1 << 22, dtype=np.float32) * NOISE_LEVELS).astype(np.int16)
    with av.open(str(path), "w") as clip:
        stream = clip.add_stream("libx264", rate=FPS, options={"crf": "18", "preset": "ultrafast", "g": "20"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1
        for number in range(empty_s * FPS + frames):
            shown = number - empty_s * FPS
            planes = (empty if shown < 0 else pictures[shown]).astype(np.int16)
            start = int(rng.integers(len(noise) - height * width))
            planes[:height] += noise[start : start + height * width].reshape(height, width)
            planes[:height] += round(DRIFT_LEVELS * min(number, empty_s * FPS) / FPS / 60)
            picture = av.VideoFrame.from_ndarray(np.clip(planes, 0, 255).astype(np.uint8), format="yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            clip.mux(stream.encode(picture))
        clip.mux(stream.encode(None))


def watch(start_server, gateway, clip: Path, length_s: float) -> tuple[list[float], float]:
    """Play the clip to the gateway's agent, once.

    Gives when each answered frame was taken, and when the first answer came that shows a person: in seconds
    of the clip.
    """
    server = start_server("--workers", "1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "street", str(clip), "--motion", "on", "--max-age-ms", "20000")
    gateway.start()
    gateway.wait_for(
        lambda: any("camera street: ended" in line for line in gateway.agent.errors),
        "the clip's end",
        timeout_s=length_s + 60,
    )
    gateway.stop()
    records = gateway.detected()
    taken_s = [datetime.fromisoformat(record["capture_time"]).timestamp() for record in records]
    of_clip_s = [at_s - taken_s[0] for at_s in taken_s]
    people_s = [
        at_s + record["latency_ms"] / 1e3
        for at_s, record in zip(of_clip_s, records, strict=True)
        if any(item["label"] == "person" for item in record["objects"])
    ]
    assert people_s, "nobody was seen"
    return of_clip_s, people_s[0]


def test_an_empty_street_is_hardly_sent_and_people_are_answered(
    start_server, gateway, walkers: Path, tmp_path: Path
) -> None:
    """Nine seconds of nobody, two of people."""
    empty_s, frames = 9, 20
    make_clip(tmp_path / "clip.mp4", walkers, empty_s, frames)

    sent_s, first_person_s = watch(start_server, gateway, tmp_path / "clip.mp4", 11)

    before = sum(at_s < empty_s - 0.05 for at_s in sent_s)
    assert before <= LEARNING_FRAMES + empty_s // REFRESH_S
    assert empty_s - 0.05 <= first_person_s <= empty_s + ANSWERED_WITHIN_S + SLACK_S
    assert sum(at_s >= empty_s - 0.05 for at_s in sent_s) >= frames / 2


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_minute_of_an_empty_street_and_all_of_the_footage(
    start_server, gateway, walkers: Path, tmp_path: Path
) -> None:
    """At most one frame in twenty before, and each object that lasts in a frame that was answered."""
    empty_s, frames = 60, 400
    make_clip(tmp_path / "clip.mp4", walkers, empty_s, frames)
    tracks = full_rate_tracks(walkers, frames, FPS)

    sent_s, first_person_s = watch(start_server, gateway, tmp_path / "clip.mp4", 100)

    before = sum(at_s < empty_s - 0.05 for at_s in sent_s)
    answered = {round((at_s - empty_s) * FPS) for at_s in sent_s}
    missed = [
        (track.label, track.seen_s[0])
        for track in tracks
        if not answered & {round(at_s * FPS) for at_s in track.seen_s}
    ]
    print(
        f"{before} of {empty_s * FPS} frames sent before, the first person after"
        f" {first_person_s - empty_s:.2f} s, {len(missed)} of {len(tracks)} objects missed"
    )
    assert before <= 0.05 * empty_s * FPS
    assert first_person_s <= empty_s + ANSWERED_WITHIN_S + SLACK_S
    assert missed == []
