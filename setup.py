"""The build: protobuf stubs generated from proto/, Cython kernels compiled, nothing of either committed."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import ClassVar

from Cython.Build import cythonize
from setuptools import Command, Extension, find_packages, setup
from setuptools.command.build import build

PROTO_ROOT = Path("proto")
PROTO_PACKAGE = PROTO_ROOT / "camera_ai"
KERNELS = sorted(path.stem for path in Path("cython_ext").glob("*.pyx"))
# A kernel that wraps a C++ header of its name is built as C++; others may use a C header.
HEADERS = {path.stem: str(path) for path in Path("cython_ext").glob("*.hpp")}
# CYTHON_DEBUG=1 builds the kernels with bounds checks, for one run of their tests.
DEBUG = os.environ.get("CYTHON_DEBUG") == "1"
# Compiler flags that have the last word, for a build that a sanitizer watches.
LAST_FLAGS = os.environ.get("KERNEL_CFLAGS", "").split()


class BuildProto(Command):
    """Generate camera_ai/*_pb2.py, *_pb2.pyi and *_pb2_grpc.py; in place for an editable install."""

    description = "generate protobuf stubs"
    user_options: ClassVar = [("build-lib=", "d", "where to put the stubs")]
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def _target_root(self):
        return PROTO_ROOT if self.editable_mode else Path(self.build_lib)

    def run(self):
        import grpc_tools
        from grpc_tools import protoc

        root = self._target_root()
        (root / "camera_ai").mkdir(parents=True, exist_ok=True)
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        arguments = ["protoc", f"-I{PROTO_ROOT}", f"-I{well_known}"]
        arguments += [f"--{out}={root}" for out in ("python_out", "pyi_out", "grpc_python_out")]
        if protoc.main(arguments + self.get_source_files()) != 0:
            raise SystemExit("protoc failed; its message is above")

    def get_source_files(self):
        return sorted(str(path) for path in PROTO_PACKAGE.glob("*.proto"))

    def get_outputs(self):
        names = [Path(source).stem for source in self.get_source_files()]
        endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
        return [str(self._target_root() / "camera_ai" / (name + end)) for name in names for end in endings]

    def get_output_mapping(self):
        return {}


class Build(build):
    sub_commands: ClassVar = [("build_proto", None), *build.sub_commands]


def kernels():
    """Cythonize the kernels; a performance hint (a Python call in a kernel, say) fails the build."""
    extensions = [
        Extension(
            f"cython_ext.{name}",
            [f"cython_ext/{name}.pyx"],
            language="c++" if name in HEADERS else "c",
            depends=sorted(map(str, Path("cython_ext").glob("*.h*"))),
            include_dirs=["cython_ext"],
            extra_compile_args=[
                "-O1" if DEBUG else "-O3",
                "-fno-math-errno",
                "-fno-trapping-math",
                # The same results on machines with and without fused multiply-add.
                "-ffp-contract=off",
                "-Wall",
                "-Wno-unused-function",
                *(["-std=c++17"] if name in HEADERS else []),
                *LAST_FLAGS,
            ],
            extra_link_args=LAST_FLAGS,
        )
        for name in KERNELS
    ]
    directives = {
        "language_level": 3,
        "boundscheck": DEBUG,
        "wraparound": False,
        "initializedcheck": DEBUG,
        "cdivision": not DEBUG,
        "embedsignature": False,
        # Each bounds check is a hint of its own.
        "show_performance_hints": not DEBUG,
    }
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            # Checked C files apart, or the next build would take them for its own.
            modules = cythonize(
                extensions, compiler_directives=directives, build_dir="build/debug-c" if DEBUG else None
            )
    finally:
        sys.stderr.write(said.getvalue())
    if "performance hint" in said.getvalue():
        for name in KERNELS:
            for ending in (".c", ".cpp"):
                Path(f"cython_ext/{name}{ending}").unlink(missing_ok=True)
        raise SystemExit("a kernel has a performance hint (above): mend it")
    return modules


setup(
    packages=[
        "camera_ai",
        "edge_agent.systemd",
        *find_packages(include=["cython_ext", "edge_agent*", "central_server*"]),
    ],
    package_dir={"camera_ai": "proto/camera_ai", "edge_agent.systemd": "systemd"},
    package_data={
        "camera_ai": ["*.proto", "py.typed"],
        "cython_ext": ["*.pyi", "*.pxd", "*.h", "*.hpp", "py.typed"],
        "edge_agent": ["media/walkers.mp4", "py.typed"],
        "edge_agent.systemd": ["*.service", "*.conf"],
        "central_server": [
            "media/walkers-*.jpg",
            "models/LICENSE",
            "models/ssdlite_mobilenet_v2_coco.*",
            "py.typed",
        ],
    },
    ext_modules=kernels(),
    cmdclass={"build": Build, "build_proto": BuildProto},
)
