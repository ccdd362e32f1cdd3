"""The command line: what is wrong is said in one line, before anything is served."""

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests import plugins
from tests.conftest import script

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended."""

    code: int
    out: str
    err: str


def run(*arguments: str, env: dict[str, str] | None = None) -> Run:
    """Run `central-server` to its end."""
    done = subprocess.run(
        [script("central-server"), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=env,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def assert_refused(done: Run, code: int, *words: str) -> None:
    """See that it ended with one line that names everything, and no traceback."""
    assert done.code == code
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("central-server: ")
    for word in words:
        assert word in done.err


BAD_OPTIONS = {
    "an unknown option": (["--frobnicate"], ["--frobnicate"]),
    "no address": (["--listen", "8080"], ["--listen", "'8080'", "HOST:PORT"]),
    "a port that is none": (["--listen", "127.0.0.1:70000"], ["'127.0.0.1:70000'", "HOST:PORT"]),
    "a host that cannot be": (["--listen", "no..host:1", "--insecure"], ["no..host"]),
    "workers that are no number": (["--workers", "many"], ["--workers"]),
    "no workers": (["--workers", "0"], ["--workers", "1"]),
    "a score above one": (["--min-score", "1.5"], ["--min-score", "1"]),
    "a score that is no number": (["--min-score", "nan"], ["--min-score", "found nan"]),
    "a grace that is no number": (["--drain-grace-s", "nan"], ["--drain-grace-s", "found nan"]),
    "a terminal's command": (["--detector", "\x1b[2J"], ["\\x1b[2J"]),
    "a log level that is none": (["--log-level", "loud"], ["--log-level", "'loud'", "debug, info"]),
    "an unknown detector": (["--detector", "yolo99"], ["'yolo99'", "coco-ssd, onnx, simulated"]),
    "a detector's bad argument": (["--detector", "simulated:x"], ["'x'", "0 to 60000"]),
    "an unknown provider": (["--provider", "TpuProvider"], ["--provider", "'TpuProvider'", "CPUExecution"]),
    "a certificate without a key": (["--tls-certificate", "x.pem"], ["--tls-certificate", "--tls-key"]),
    "plaintext beyond loopback": (["--listen", "0.0.0.0:0"], ["0.0.0.0:0", "--insecure"]),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_a_bad_option_is_refused_in_one_line(name: str) -> None:
    """With the option, what was found and what was expected."""
    options, words = BAD_OPTIONS[name]
    done = run("serve", "--listen", "127.0.0.1:0", *options)

    # What is wrong with the address itself shows only when it is tried.
    assert_refused(done, 1 if name == "a host that cannot be" else 2, *words)


@pytest.mark.parametrize("arguments", [[], ["frobnicate"]], ids=["no command", "an unknown command"])
def test_a_command_is_needed(arguments: list[str]) -> None:
    """And has to be one that there is."""
    assert_refused(run(*arguments), 2, "ommand", "central-server --help")


@pytest.mark.parametrize("content", [None, b"", b"no model at all", b"\x08\x07" * 500], ids=str)
def test_a_model_that_does_not_load_is_named(tmp_path: Path, content: bytes | None) -> None:
    """A file that is not there, empty, or something else."""
    model = tmp_path / "model.onnx"
    if content is not None:
        model.write_bytes(content)

    assert_refused(run("serve", "--listen", "127.0.0.1:0", "--detector", f"onnx:{model}"), 1, str(model))


def test_a_port_in_use_is_refused() -> None:
    """In one line, although gRPC's own complaint has many."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("serve", "--listen", address, "--detector", "simulated:1")

    assert_refused(done, 1, address, "Address already in use")


@pytest.mark.parametrize("file", ["--tls-certificate", "--tls-key"])
def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, file: str) -> None:
    """By its path."""
    files = write_certificate(tmp_path)
    files[file] = str(tmp_path / "missing.pem")
    done = run(
        "serve", "--listen=127.0.0.1:0", "--detector=simulated:1", *(f"{k}={v}" for k, v in files.items())
    )

    assert_refused(done, 2, "missing.pem", "No such file")


@pytest.mark.parametrize("file", ["--tls-certificate", "--tls-key"])
def test_a_certificate_that_is_none_is_named(tmp_path: Path, file: str) -> None:
    """Instead of a server that no client can reach."""
    files = write_certificate(tmp_path)
    Path(files[file]).write_text("-----BEGIN NOTHING-----\nAAAA\n-----END NOTHING-----\n")
    done = run(
        "serve", "--listen=127.0.0.1:0", "--detector=simulated:1", *(f"{k}={v}" for k, v in files.items())
    )

    assert_refused(done, 2, file, files[file])


@pytest.mark.parametrize("file", ["--tls-certificate", "--tls-key"])
def test_a_certificate_without_end_is_refused(tmp_path: Path, file: str) -> None:
    """No more is read than a certificate can have."""
    assert_refused(serve_with(write_certificate(tmp_path) | {file: "/dev/zero"}), 2, "/dev/zero", "1048576")


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    """They have to belong together."""
    (tmp_path / "other").mkdir()
    files = write_certificate(tmp_path) | {"--tls-key": write_certificate(tmp_path / "other")["--tls-key"]}
    done = run(
        "serve", "--listen=127.0.0.1:0", "--detector=simulated:1", *(f"{k}={v}" for k, v in files.items())
    )

    assert_refused(done, 2, files["--tls-key"])


def serve_with(files: dict[str, str]) -> Run:
    """Try to serve with TLS."""
    options = [f"{option}={path}" for option, path in files.items()]
    return run("serve", "--listen=127.0.0.1:0", "--detector=simulated:1", *options)


def write_certificate(folder: Path) -> dict[str, str]:
    """Write a certificate for loopback, and the authority that signed it; gives the options."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    return {"--tls-certificate": str(chain), "--tls-key": str(key)}


def test_the_version_is_printed() -> None:
    """And nothing else is done."""
    done = run("--version")

    assert done.code == 0
    assert done.out.startswith("central-server 0.")


def test_the_detectors_are_listed() -> None:
    """Those that are installed, one a line."""
    done = run("detectors")

    assert (done.code, done.err) == (0, "")
    assert {"coco-ssd", "onnx", "simulated"} <= set(done.out.splitlines())


def test_help_imports_nothing_heavy() -> None:
    """Whoever asks for help does not wait for gRPC and OpenCV."""
    check = (
        "import sys; import central_server.cli; "
        "print(sorted({'grpc', 'numpy', 'cv2', 'onnxruntime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


BROKEN = """
import sys

class Broken:
    name, labels, input_wh = "broken", ("thing",), (16, 16)

    def detect(self, image, query):
        return 1 // 0


def create(argument, options):
    if argument == "wont-load":
        raise KeyError("no such weights")
    if argument == "exits":
        sys.exit("goodbye")
    if argument == "colours":
        raise RuntimeError("\x1b[31mred")
    detector = Broken()
    if argument == "half":
        del Broken.labels
    elif argument:
        Broken.labels, Broken.input_wh = eval(argument)
    return detector
"""


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        ("broken:wont-load", ["--detector broken", "KeyError", "no such weights"]),
        ("broken:exits", ["--detector broken", "SystemExit", "goodbye"]),
        ("broken:colours", ["--detector broken", "RuntimeError: \\x1b[31mred"]),
        ("broken:half", ["--detector broken", "labels"]),
        ("broken:('thing', '\\udc80'), None", ["--detector broken", "label 1", "printable"]),
        ("broken:('x' * 101,), None", ["--detector broken", "label 0", "100"]),
        ("broken:(7,), None", ["--detector broken", "label 0", "found '7'"]),
        ("broken:7, None", ["--detector broken", "labels 7", "tuple"]),
        ("broken:('thing',), (10**9, 10**9)", ["--detector broken", "input_wh", "16384"]),
        ("missing", ["--detector missing", "no_such_module"]),
        ("nameless", ["--detector nameless", "nothing"]),
        ("broken", ["--detector broken", "fails on a black image", "ZeroDivisionError"]),
    ],
)
def test_a_detector_from_elsewhere_that_does_not_load_is_named(
    tmp_path: Path, detector: str, words: list[str]
) -> None:
    """Whatever it raises."""
    broken = plugins.install(
        tmp_path,
        BROKEN,
        broken="elsewhere:create",
        missing="no_such_module:create",
        nameless="elsewhere:nothing",
    )
    done = run("serve", "--listen=127.0.0.1:0", "--detector", detector, env=broken)

    assert_refused(done, 1, *words)
