"""A detector from outside, installed as its users would install it."""

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from central_server.detectors import registry
from central_server.detectors.detector import DetectorOptions, Query
from central_server.errors import OptionError

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "detector_plugin"
MODULE = "camera_ai_colour"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a copy of the example beside nothing else; building leaves files in the source."""
    source = tmp_path_factory.mktemp("plugin") / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    target = source.parent / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "--target", target, source], check=True, timeout=100)
    return target


@pytest.fixture
def importable(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the installed example on the path, and leave no trace of it."""
    monkeypatch.syspath_prepend(installed)
    importlib.invalidate_caches()
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.usefixtures("importable")
def test_an_installed_detector_is_found_by_name() -> None:
    """What an installed package declares in the entry point group can be named and used."""
    image = np.zeros((480, 640, 3), np.uint8)
    image[100:150, 200:300] = (250, 140, 10)
    image[300:340, 400:420] = (10, 140, 250)
    image[200:203, 10:13] = (250, 140, 10)

    detectors = registry.load("colour:ff8800", DetectorOptions(), 2)

    assert "colour" in registry.known_names()
    assert [detector.name for detector in detectors] == ["colour:ff8800"] * 2
    for detector in detectors:
        found = detector.detect(image, Query(min_score=0.9))
        assert found.boxes_xyxy.tolist() == [[200, 100, 300, 150]]
        assert found.scores.tolist() == [1.0]
        assert detector.labels[found.class_ids[0]] == "patch"
    unwanted = Query(class_mask=np.zeros(1, np.uint8))
    assert len(detectors[0].detect(image, unwanted).scores) == 0


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("argument", ["", "orange", "ff88", "ff8800ff"])
def test_its_own_refusals_come_through(argument: str) -> None:
    """A factory's complaint about its argument reaches the user as it is."""
    with pytest.raises(OptionError) as refused:
        registry.load(f"colour:{argument}", DetectorOptions(), 1)

    assert str(refused.value) == (
        f"--detector colour:{argument}: found {argument!r}, expected a colour such as ff8800"
    )


def test_what_is_not_installed_is_not_found() -> None:
    """A name that nothing declares is refused with those that are known."""
    with pytest.raises(OptionError, match=r"found no 'colour', expected one of .*coco-ssd"):
        registry.load("colour:ff8800", DetectorOptions(), 1)
