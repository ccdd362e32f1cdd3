"""What `pip install` gets: from the sources, from a wheel, and from a wheel built of the sdist."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = {path.stem for path in (ROOT / "cython_ext").glob("*.pyx")}
PROTOS = {path.stem for path in (ROOT / "proto" / "camera_ai").glob("*.proto")}
STUB_ENDS = (".proto", "_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
NEEDED = {
    "camera_ai/__init__.py",
    "camera_ai/py.typed",
    *(f"camera_ai/{name}{end}" for name in PROTOS for end in STUB_ENDS),
    *(f"cython_ext/{kernel}{end}" for kernel in KERNELS for end in (".pyi", ".pxd")),
    "cython_ext/reference.py",
    "cython_ext/resize_rows.h",
    "cython_ext/worker_pool.hpp",
    "central_server/models/ssdlite_mobilenet_v2_coco.onnx",
    "central_server/models/ssdlite_mobilenet_v2_coco.anchors.npy",
    "central_server/models/ssdlite_mobilenet_v2_coco.labels.txt",
    "central_server/models/LICENSE",
    *(f"central_server/media/walkers-{frame}.jpg" for frame in ("050", "150", "250", "350")),
    "edge_agent/media/walkers.mp4",
    "edge_agent/systemd/edge-agent.service",
    "edge_agent/systemd/edge-agent-video-devices.conf",
    "edge_agent/systemd/camera-ai-agent.conf",
}  # fmt: skip
PROGRAMS = ("edge_agent", "central_server", "cython_ext")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist and, of the sdist alone, the wheel."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


@pytest.mark.timeout(300)
def test_the_sdist_has_sources_and_nothing_made_of_them(built: Path) -> None:
    """No generated stub, no generated C, no compiled module is in the sdist."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]

    assert {"setup.py", "proto/camera_ai/detection.proto", "cython_ext/nms.pyx", "NOTICE"} <= set(names)
    assert {"cython_ext/worker_pool.hpp", "cython_ext/resize_rows.h"} <= set(names)
    assert {"reference_server/CMakeLists.txt", "reference_server/src/main.cpp"} <= set(names)
    assert [name for name in names if name.startswith("reference_server/build")] == []
    assert [name for name in names if name.endswith((".so", ".c", "_pb2.py", "_pb2.pyi", ".pyc"))] == []
    assert [name for name in names if name.startswith("cython_ext/") and name.endswith(".cpp")] == []


@pytest.mark.timeout(300)
def test_the_wheel_carries_all_that_is_needed(built: Path) -> None:
    """Stubs, extensions, type stubs, the model with anchors, labels and licence, pictures and clip."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        names = set(archive.namelist())
    extensions = {name.split("/")[1].split(".")[0] for name in names if name.endswith(".so")}

    sources = {str(path.relative_to(ROOT)) for folder in PROGRAMS for path in (ROOT / folder).rglob("*.py")}
    assert names >= NEEDED | sources
    assert extensions == KERNELS
    assert {name.rsplit("/", 1)[1] for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    assert [name for name in names if name.startswith(("tests/", "bench/", "tools/"))] == []


@pytest.mark.timeout(300)
def test_the_installed_wheel_works_on_its_own(built: Path, tmp_path: Path) -> None:
    """Installed elsewhere, its stubs, kernels, model and entry points are found, not the sources'."""
    target = tmp_path / "site"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        target,
        next(built.glob("*.whl")),
    )
    program = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import camera_ai.detection_pb2, cython_ext.nms, central_server, edge_agent\n"
        "from central_server.detectors import coco_ssd\n"
        "from central_server.detectors.detector import DetectorOptions\n"
        "print(camera_ai.__file__, cython_ext.nms.__file__, central_server.__file__, edge_agent.__file__)\n"
        "print(coco_ssd.create('', DetectorOptions()).input_wh)\n"
    )
    # -S leaves out the editable install's finder; what the package needs comes from the path given.
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    found, size = run(
        sys.executable, "-S", "-c", f"import sys; sys.path.append({packages!r})\n{program}", cwd=tmp_path
    ).splitlines()

    assert all(str(path).startswith(str(target)) for path in found.split())
    assert size == "(300, 300)"
    assert {path.name for path in (target / "bin").iterdir()} == {"edge-agent", "central-server"}


def test_a_gateway_does_not_install_what_only_the_server_needs() -> None:
    """The extras are apart: inference and OpenCV on one side, FFmpeg on the other."""
    extras = SETTINGS["project"]["optional-dependencies"]
    edge, server = (
        " ".join(extras[name] + SETTINGS["project"]["dependencies"]) for name in ("edge", "server")
    )

    assert not any(name in edge for name in ("onnxruntime", "opencv", "aiortc", "aiohttp"))
    assert not any(name in server for name in ("av>", "tomlkit"))


@pytest.mark.timeout(300)
def test_every_wheel_that_a_gateway_needs_exists_for_arm64(tmp_path: Path) -> None:
    """Nothing has to be compiled on a gateway: each dependency is downloaded as an arm64 or pure wheel."""
    needed = SETTINGS["project"]["dependencies"] + SETTINGS["project"]["optional-dependencies"]["edge"]
    run(
        sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", tmp_path,
        "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64",
        "--python-version", "3.11", "--implementation", "cp",
        "--abi", "cp311", "--abi", "abi3", "--abi", "none", *needed,
    )  # fmt: skip
    platforms = {path.name.rsplit("-", 1)[1] for path in tmp_path.iterdir()}

    assert len(list(tmp_path.iterdir())) >= len(needed)
    assert all("aarch64" in platform or platform == "any.whl" for platform in platforms)
