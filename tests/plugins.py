"""Detectors from elsewhere, installed as a package would install them."""

from pathlib import Path

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"


def install(folder: Path, source: str, **entry_points: str) -> dict[str, str]:
    """Install a module `elsewhere` with detectors by name; gives the environment that finds it."""
    (folder / "elsewhere.py").write_text(source)
    package = folder / "elsewhere-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(METADATA.format(name="elsewhere"))
    lines = [f"{name} = {target}" for name, target in entry_points.items()]
    (package / "entry_points.txt").write_text("\n".join(["[camera_ai.detectors]", *lines, ""]))
    return {"PYTHONPATH": str(folder)}
