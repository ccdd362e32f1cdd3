"""test-motion: what the gate makes of a camera, in figures and as a picture."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray

from tests import footage
from tests.edge_agent.conftest import RunAgent

if TYPE_CHECKING:
    from tests.conftest import StartProgram


def drawn(path: Path) -> NDArray[np.int16]:
    """Give the picture's pixels, RGB."""
    return np.asarray(simplejpeg.decode_jpeg(path.read_bytes()), np.int16)


def test_the_picture_shows_what_moves_and_what_is_ignored(
    run_agent: RunAgent, walkers: Path, tmp_path: Path
) -> None:
    """Red where people walk, blue in the ignored quarter, black in the private corner, the rest as it was."""
    picture = tmp_path / "sight.jpg"

    done = run_agent(
        *("test-motion", str(walkers), f"--picture={picture}", "--seconds=6"),
        "--motion-mask=0.6,0 1,0 1,0.4 0.6,0.4",
    )

    assert (done.code, done.err) == (0, "")
    frames, moving, ignored, saved = done.out.splitlines()
    assert frames == "frames:   60 of 60 would have been sent (8 learning, 52 motion)"
    assert moving.startswith("moving:   ")
    assert ignored == "ignored:  15.9% of the picture"
    assert saved == f"picture:  {picture}"
    pixels = drawn(picture)
    assert pixels.shape == (576, 768, 3)
    red = (pixels[..., 0] > 120) & (pixels[..., 0] - pixels[..., 1] > 60)
    assert 0.005 < red[240:400].mean() < 0.3
    assert red[430:].mean() < 0.001, "nobody walks on the grass in front"
    masked = pixels[100:220, 480:760].mean(axis=(0, 1))
    assert masked[2] > masked[0] + 20, "shaded"
    grass = next(footage.frames(walkers))[450:560, 300:450].astype(np.int16)
    assert abs(pixels[450:560, 300:450] - grass).mean() < 4


def test_a_camera_of_the_configuration_is_watched_as_it_is(
    start_program: "StartProgram", run_agent: RunAgent, tmp_path: Path
) -> None:
    """Over RTSP, by its name, with its own masks; what is private is black in the picture, to the pixel."""
    camera = start_program("edge-agent", "demo-camera")
    url = camera.wait_for_line(r"^listening (rtsp://\S+)$")[1]
    added = run_agent("add-camera", "street", url, "--privacy-mask=0,0 0.5,0 0.5,1 0,1", "--fps=5")
    assert added.code == 0, added.err
    picture = tmp_path / "sight.jpg"

    done = run_agent("test-motion", "street", f"--picture={picture}", "--seconds=2", "--json")

    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    assert report.keys() == {
        *("frames", "sent", "reasons", "mean_share", "peak_share", "ignored_share", "picture")
    }
    assert 8 <= report["frames"] <= 11
    assert sum(report["reasons"].values()) == report["frames"]
    assert report["sent"] == report["frames"] - report["reasons"].get("still", 0)
    assert report["ignored_share"] == 0.5
    pixels = drawn(picture)
    assert pixels[:, :376].max() < 24
    assert pixels[:, 392:].mean() > 60


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("yard",), 1, 'unknown camera "yard"; known: none'),
        (("yard", "--fps=5"), 2, "is tried with its own options"),
        (("CLIP", "--seconds=0.5"), 2, "--seconds: found 0.5, expected a number from 1 to 3600"),
        (("CLIP", "--motion-sensitivity=0"), 2, "--motion-sensitivity: found 0, expected a whole number"),
        (("CLIP", "--motion-mask=0,0 1,1"), 2, "--motion-mask: found an array, expected at most 32 polygons"),
        (("CLIP", "--picture=/nowhere/sight.jpg"), 1, "cannot write the picture /nowhere/sight.jpg"),
        (("/etc/passwd",), 1, "/etc/passwd"),
    ],
)
def test_what_cannot_be_tried_is_one_clear_line(
    run_agent: RunAgent, walkers: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    """What was wrong, no traceback, and no picture."""
    clip = [str(walkers) if argument == "CLIP" else argument for argument in arguments]

    done = run_agent("test-motion", f"--picture={tmp_path / 'sight.jpg'}", "--seconds=1", *clip)

    assert (done.code, done.out) == (code, "")
    assert problem in done.err.splitlines()[0]
    assert "Traceback" not in done.err
    assert not (tmp_path / "sight.jpg").exists()
