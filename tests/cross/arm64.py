"""The kernels cross-built for arm64, and their tests run by an emulator, beside this machine's own.

Debian's cross compilers build them with the settings of Debian's Python for arm64; that Python, unpacked into
a folder and run by qemu-user, runs the tests with the wheels that a gateway would install. Nothing of it
touches the machine: apt is asked with a state of its own. The folder is kept for the next time.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
TRIPLET = "aarch64-linux-gnu"
EMULATOR = "qemu-aarch64"
TOOLS = (f"{TRIPLET}-gcc", f"{TRIPLET}-g++", EMULATOR, "apt-get", "dpkg-deb")
# With what they depend on: about fifty packages, 27 MB.
PACKAGES = ("python3", "libpython3-dev", "libstdc++6")
# What the kernels and their tests import; OpenCV is an oracle.
WHEELS = (
    "numpy", "protobuf", "pytest", "pytest-asyncio", "pytest-timeout", "hypothesis", "psutil",
    "opencv-python-headless", "pillow", "simplejpeg",
)  # fmt: skip
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
COMMAND_TIMEOUT_S = 600.0


class CannotCrossError(Exception):
    """Nothing can be built for arm64 here; the text says why not."""


class Arm64:
    """A folder with Python for arm64, the wheels, and the kernels."""

    def __init__(self, folder: Path) -> None:
        """Take a folder, with what is in it from an earlier time.

        Raises:
            CannotCrossError: with the reason.

        """
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise CannotCrossError(f"not installed: {', '.join(missing)}")
        folder = folder.resolve()
        self.copy = folder / "copy"
        self._root = folder / "root"
        self._site = folder / "site"
        self._apt = folder / "apt"
        self._headers = folder / "include"

    def prepare(self) -> None:
        """Fetch Python and the wheels, unless they are there."""
        with _once(self._root, PACKAGES) as is_due:
            if is_due:
                self._unpack_python()
        wheels = [f"{name}=={version(name)}" for name in WHEELS]
        with _once(self._site, [self._python.name, *wheels]) as is_due:
            if is_due:
                self._install(wheels)

    def build(self) -> None:
        """Build the kernels, those that have changed, in a copy of their sources."""
        (self.copy / "cython_ext").mkdir(parents=True, exist_ok=True)
        # With their times, and the C of this machine's build: only the C compiler has work to do.
        shutil.copytree(ROOT / "proto", self.copy / "proto", dirs_exist_ok=True)
        shutil.copytree(ROOT / "systemd", self.copy / "systemd", dirs_exist_ok=True)
        shutil.copy2(ROOT / "setup.py", self.copy)
        sources = [
            path for path in (ROOT / "cython_ext").iterdir() if path.is_file() and path.suffix != ".so"
        ]
        for path in (self.copy / "cython_ext").glob("*.py*"):
            path.unlink()
        for path in sources:
            shutil.copy2(path, self.copy / "cython_ext")
        settings = next(
            (self._root / "usr" / "lib" / self._python.name).glob(f"_sysconfigdata__{TRIPLET}.py")
        )
        environment = {
            "_PYTHON_SYSCONFIGDATA_NAME": settings.stem,
            "_PYTHON_HOST_PLATFORM": "linux-aarch64",
            "PYTHONPATH": str(self._headers),
            "CPATH": f"{self._headers / self._python.name}:{self._headers}",
        }
        shutil.copy2(settings, self._headers)
        command = [sys.executable, "setup.py", "build_ext", "--inplace", f"-j{os.cpu_count()}"]
        _run(command, cwd=self.copy, environment=environment)

    def python(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run Python for arm64 in the copy, whose kernels it finds before all others."""
        paths = [self.copy, self._site, ROOT / "proto", ROOT]
        environment = {"PYTHONPATH": ":".join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [EMULATOR, "-L", str(self._root), str(self._python), *arguments],
            cwd=self.copy,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    @property
    def _python(self) -> Path:
        return (self._root / "usr" / "bin" / "python3").resolve()

    def _unpack_python(self) -> None:
        """Fetch the packages as a machine of that architecture would, on which nothing is installed yet."""
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self._apt / name).mkdir(parents=True, exist_ok=True)
        (self._apt / "status").touch()
        settings = {
            "APT::Architecture": "arm64", "APT::Architectures": "arm64", "APT::Sandbox::User": "",
            "Dir::State": self._apt / "state", "Dir::State::status": self._apt / "status",
            "Dir::Cache": self._apt / "cache", "Acquire::Languages": "none", "Debug::NoLocking": "1",
        }  # fmt: skip
        apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in settings.items())]
        try:
            _run([*apt, "update"])
            _run([*apt, "install", "-y", "--no-install-recommends", "--download-only", *PACKAGES])
        except RuntimeError as error:
            raise CannotCrossError(f"Debian's packages for arm64 are not to be had: {error}") from None
        for package in sorted((self._apt / "cache" / "archives").glob("*.deb")):
            _run(["dpkg-deb", "--extract", package, self._root])
        shutil.rmtree(self._apt)
        shutil.rmtree(self._headers, ignore_errors=True)
        for folder in (self._python.name, f"{TRIPLET}/{self._python.name}"):
            (self._headers / folder).parent.mkdir(parents=True, exist_ok=True)
            (self._headers / folder).symlink_to(self._root / "usr" / "include" / folder)

    def _install(self, wheels: Sequence[str]) -> None:
        minor = self._python.name.removeprefix("python")
        abis = [f"cp{minor.replace('.', '')}", "abi3", "none"]
        options = [option for platform in PLATFORMS for option in ("--platform", platform)]
        options += [option for abi in abis for option in ("--abi", abi)]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--no-compile"]
        _run(
            [
                *pip,
                "--target",
                self._site,
                "--python-version",
                minor,
                "--implementation",
                "cp",
                *options,
                *wheels,
            ]
        )


@contextlib.contextmanager
def _once(folder: Path, what: Sequence[str]) -> Iterator[bool]:
    """Tell whether a folder is still to be filled with something; it is empty then."""
    mark = folder / ".filled-with"
    text = "\n".join(what)
    is_due = not mark.exists() or mark.read_text() != text
    if is_due:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    yield is_due
    mark.write_text(text)


def _run(command: Sequence[str | Path], cwd: Path = ROOT, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:4]))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
