"""`central-server capacity` as a program: small searches with real servers and real loads."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import pictures, plugins
from tests.conftest import Program, StartProgram, script
from tests.polling import wait_until
from tests.processes import has_ended

TIMEOUT_S = 120.0
# One worker that takes 50 ms for a frame can do twenty a second, five cameras of four. The bounds are wide:
# a machine that is busy with other tests stops for tenths of a second.
SMALL = (
    "--detector=simulated:50", "--workers=1", "--fps=4", "--latency-ms=900",
    "--duration-s=1", "--budget-s=20",
)  # fmt: skip
# The first run is always made. A single frame can be superseded by none: this one holds on any machine.
ONE_RUN = ("--fps=1", "--budget-s=1", "--latency-ms=20000")
# A search that is to end by itself: more than it needs on any machine.
ENOUGH = "--budget-s=90"
# For what a program does next, its start at most.
PATIENCE_S = 60.0

pytestmark = pytest.mark.timeout(150)

Measured = tuple[subprocess.CompletedProcess[str], dict[str, Any]]


def capacity(*options: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [script("central-server"), "capacity", *options],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=env,
    )


def family(program: Program) -> list[psutil.Process]:
    """List what a program has started, and what that has started."""
    return psutil.Process(program.process.pid).children(recursive=True)


def is_serving(process: psutil.Process) -> bool:
    try:
        return "serve" in process.cmdline()
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Run one whole search: what was printed, and what was written."""
    file = tmp_path_factory.mktemp("measured") / "found.json"
    done = capacity(*SMALL, ENOUGH, "--price-per-hour=1.5", "--json", file)
    return done, json.loads(file.read_text())


def test_the_answer_is_what_the_runs_say(measured: Measured) -> None:
    """As JSON: the figures fit to each other, and to what one worker can do."""
    done, found = measured

    assert done.returncode == 0, done.stderr
    assert (found["detector"], found["workers"]) == ("simulated:50", 1)
    assert 1 <= found["cameras"] <= 10
    assert found["cameras_per_core"] == found["cameras"] / found["cores"]
    votes = [run["held"] for run in found["runs"] if run["cameras"] == found["cameras"]]
    assert 2 * sum(votes) > len(votes)
    assert found["confirmed"] == (sum(votes) >= 2)
    for run in found["runs"]:
        assert not run["held"] or run["outcomes"] == {"detected": run["cameras"] * 4}
    assert found["cost"]["camera_hour"] == pytest.approx(1.5 / found["cameras"])
    assert found["cost"]["camera_month"] == pytest.approx(1.5 / found["cameras"] * 730)
    assert found["not_held"]["cameras"] > found["cameras"]
    assert found["not_held"]["why"].startswith("frame ")
    assert found["ended"] in ("certain", "budget spent")
    assert found["took_s"] < TIMEOUT_S


def test_the_split_adds_up_and_has_every_stage(tmp_path: Path) -> None:
    """With the packaged model: the stages and the wire are the server's processor time a frame."""
    done = capacity(
        "--workers=1", "--fps=2", "--duration-s=1", "--budget-s=8", "--latency-ms=20000",
        "--json", tmp_path / "found.json",
    )  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    at_capacity = found["at_capacity"]
    server, generator = at_capacity["server"], at_capacity["generator"]

    assert done.returncode == 0, done.stderr
    assert list(server["split_ms"]) == ["wire", "decode", "resize", "inference", "boxes"]
    assert sum(server["split_ms"].values()) == pytest.approx(server["processor_ms"])
    assert {name: server["split_ms"][name] for name in found["stages_ms"]} == found["stages_ms"]
    assert server["split_ms"]["inference"] > server["split_ms"]["boxes"]
    assert [(each["width"], each["height"]) for each in found["pictures"]] == [(768, 576)] * 4
    assert 0 < server["cores"] <= found["cores"] + 0.5
    assert server["peak_rss_bytes"] > 30e6
    assert generator["processor_ms"] > 0
    for lag in ("lag_ms", "loop_lag_ms"):
        assert 0 <= generator[lag]["p50"] <= generator[lag]["p99"] <= generator[lag]["max"]
    latency = at_capacity["latency_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["slowest"] <= 20_000


def test_a_person_reads_the_same(measured: Measured) -> None:
    """Progress on standard error, the report on standard output, in plain lines."""
    done, found = measured
    rows = {line[:24].strip(): line[24:].split() for line in done.stdout.splitlines()}

    assert done.stdout.startswith("simulated:50, 1 worker, 768x576 (")
    assert rows["cameras"][0] == str(found["cameras"])
    assert rows["latency slowest"][0] == f"{found['at_capacity']['latency_ms']['slowest']:.1f}"
    assert rows["detect"][0] == f"{found['stages_ms']['detect']:.2f}"
    assert float(rows["cost of a camera"][0]) == pytest.approx(1.5 / found["cameras"], rel=1e-3)
    progress = done.stderr.splitlines()
    assert progress[0].startswith("one frame costs detect ")
    assert sum("camera" in line for line in progress) == len(found["runs"])


def test_a_spent_budget_is_told(tmp_path: Path) -> None:
    """One run is always made; that it is not confirmed, and that no more was tried, is said."""
    done = capacity(*SMALL, *ONE_RUN, "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())

    assert done.returncode == 0, done.stderr
    assert [run["cameras"] for run in found["runs"]] == [1]
    assert not found["confirmed"]
    assert found["not_held"] is None
    assert found["ended"] == "budget spent"
    assert "held in 1 of 1 run, not confirmed" in done.stdout
    assert "more were not tried" in done.stdout
    assert "(budget spent)" in done.stdout


def test_where_files_are_few_fewer_cameras_are_tried() -> None:
    """Each connection takes one: all that can be had are tried, and it is said that more cannot."""
    options = ("--detector=simulated:0", "--fps=1", "--latency-ms=20000", "--json=-")
    command = (script("central-server"), "capacity", *SMALL, ENOUGH, *options)
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 72 && exec "$@"', "sh", *command],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    found = json.loads(done.stdout)

    assert found["cameras"] == 8
    assert found["not_held"] is None
    assert found["ended"] == "no more than 8 cameras can be tried here"


def test_not_even_one_camera_is_an_answer_with_code_1(tmp_path: Path) -> None:
    """In words, with the reason, and in figures."""
    done = capacity(
        "--detector=simulated:150", "--workers=1", "--duration-s=1", "--budget-s=20", "--latency-ms=100",
        "--price-per-hour=1", "--json", tmp_path / "found.json",
    )  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())

    assert done.returncode == 1
    assert "not even one holds" in done.stdout
    assert found["cameras"] == 0
    assert found["at_capacity"] is None
    assert found["cost"] is None
    assert found["not_held"]["cameras"] == 1
    assert found["stages_ms"]["detect"] >= 150
    assert [run["held"] for run in found["runs"]] == [False, False]


def test_pictures_of_ones_own_are_sent_as_they_are(tmp_path: Path) -> None:
    """Byte for byte, of any size, PNG too; scaled where a size is asked for."""
    jpeg, png = tmp_path / "own.jpg", tmp_path / "own.png"
    jpeg.write_bytes(pictures.jpeg(96, 128))
    png.write_bytes(pictures.encode(pictures.scene(48, 64), "PNG"))
    options = (*SMALL, *ONE_RUN, "--json=-", "--picture", jpeg, "--picture", png)

    as_given = json.loads(capacity(*options).stdout)["pictures"]
    scaled = json.loads(capacity(*options, "--size=200x100").stdout)["pictures"]

    assert as_given == [
        {"width": 128, "height": 96, "bytes": jpeg.stat().st_size},
        {"width": 64, "height": 48, "bytes": png.stat().st_size},
    ]
    assert [(each["width"], each["height"]) for each in scaled] == [(200, 100), (200, 100)]


BAD_OPTIONS = {
    "no size": (["--size=big"], 2, ["--size", "'big'", "WIDTHxHEIGHT"]),
    "a size too small": (["--size=4x4"], 2, ["--size", "'4x4'", "at least 8"]),
    "a size too large": (["--size=99999x99999"], 2, ["--size", "'99999x99999'", "16777216"]),
    "a rate of nothing": (["--fps=0"], 2, ["--fps", "0.01"]),
    "a rate that is no number": (["--fps=nan"], 2, ["--fps", "found nan"]),
    "no latency": (["--latency-ms=0"], 2, ["--latency-ms"]),
    "a price below nothing": (["--price-per-hour=-1"], 2, ["--price-per-hour"]),
    "a price that is no number": (["--price-per-hour=nan"], 2, ["--price-per-hour", "found nan"]),
    "no budget": (["--budget-s=0"], 2, ["--budget-s"]),
    "a load longer than all": (["--duration-s=60"], 2, ["--duration-s", "60", "20 of --budget-s"]),
    "a missing picture": (["--picture=missing.jpg"], 2, ["--picture missing.jpg", "No such file"]),
    "a picture that is none": (["--picture=/dev/null"], 2, ["--picture /dev/null", "expected JPEG or PNG"]),
    "a picture without end": (["--picture=/dev/zero"], 2, ["--picture /dev/zero", "4194304"]),
    "a file that cannot be": (["--json=/nowhere/found.json"], 2, ["--json /nowhere/found.json", "No such"]),
    "an unknown detector": (["--detector=yolo99"], 2, ["'yolo99'", "coco-ssd, onnx, simulated"]),
    "a model that is none": (["--detector=onnx:/dev/null"], 1, ["/dev/null"]),
    "an unknown provider": (["--detector=coco-ssd", "--provider=Tpu"], 2, ["--provider", "'Tpu'"]),
    "quality beyond all": (["--quality=101"], 2, ["--quality", "100"]),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_a_bad_option_is_refused_in_one_line(name: str) -> None:
    """With the option, what was found and what was expected."""
    options, code, words = BAD_OPTIONS[name]
    done = capacity(*SMALL, *options)

    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("central-server: ")
    for word in words:
        assert word in done.stderr


ONLY_HERE = """
import os, sys
from central_server.detectors.simulated import Simulated
from central_server.errors import DetectorError

def create(argument, options):
    if "serve" in sys.argv:
        raise DetectorError("this one does not serve")
    return Simulated(1)
"""


def test_a_server_that_does_not_start_is_heard(tmp_path: Path) -> None:
    """Its own line is the reason."""
    env = plugins.install(tmp_path, ONLY_HERE, shy="elsewhere:create")
    done = capacity(*SMALL, "--detector=shy", env={**os.environ, **env})

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == "central-server: this one does not serve"


def test_a_server_that_dies_on_the_way_ends_the_measure(start_program: StartProgram) -> None:
    """Instead of a capacity that it never had."""
    program = start_program("central-server", "capacity", *SMALL, "--budget-s=60")
    wait_until(
        lambda: any(line.startswith("1 camera") for line in program.errors), "the first run", PATIENCE_S
    )
    (server,) = filter(is_serving, family(program))
    server.kill()

    assert program.wait(PATIENCE_S) == 1
    assert program.lines == []
    assert "the server under measure has ended" in program.errors[-1]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_an_interrupted_measure_leaves_no_child(
    number: signal.Signals, code: int, start_program: StartProgram
) -> None:
    """Neither server nor generator, and no traceback."""
    program = start_program("central-server", "capacity", *SMALL, "--duration-s=30", "--budget-s=100")
    wait_until(lambda: len(family(program)) == 2, "server and generator", PATIENCE_S)
    started = family(program)
    assert any(map(is_serving, started))
    program.signal(number)

    assert program.wait() == code
    assert program.lines == []
    assert not any("Traceback" in line for line in program.errors)
    wait_until(lambda: all(map(has_ended, started)), "the end of server and generator")


def test_a_measure_that_is_killed_leaves_no_child(tmp_path: Path, start_program: StartProgram) -> None:
    """It can end nobody itself: server and generator notice."""
    program = start_program(
        "central-server",
        "capacity",
        *SMALL,
        "--duration-s=30",
        "--budget-s=100",
        env={"TMPDIR": str(tmp_path)},
    )
    wait_until(lambda: len(family(program)) == 2, "server and generator", PATIENCE_S)
    started = family(program)
    program.kill()

    wait_until(lambda: all(map(has_ended, started)), "the end of server and generator")


def test_a_measure_under_nohup_outlives_its_terminal() -> None:
    """An ignored SIGHUP stays ignored."""
    command = (script("central-server"), "capacity", *SMALL, *ONE_RUN, "--json=-")
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP && exec "$@"', "sh", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("one frame costs ")
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0
    assert json.loads(out)["cameras"] == 1


def test_a_measure_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Neither emptied nor a new one beside it."""
    env = plugins.install(tmp_path, ONLY_HERE, shy="elsewhere:create")
    files = tmp_path / "files"
    files.mkdir()
    old, link = files / "old.json", files / "link.json"
    old.write_text("{}")
    link.symlink_to(old)
    for file in (old, link, files / "new.json"):
        assert capacity(*SMALL, "--detector=shy", "--json", file, env={**os.environ, **env}).returncode == 1

    assert {path.name for path in files.iterdir()} == {"old.json", "link.json"}
    assert old.read_text() == "{}"


def test_a_file_is_replaced_and_a_device_written(tmp_path: Path) -> None:
    """Through a symbolic link too; a full device is one line, after the report."""
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    old.write_text("x" * 100_000)
    link.symlink_to(old)
    replaced = capacity(*SMALL, *ONE_RUN, "--json", link)
    full = capacity(*SMALL, *ONE_RUN, "--json=/dev/full")

    assert replaced.returncode == 0
    assert json.loads(old.read_text())["cameras"] == 1
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"old.json", "link.json"}
    assert full.returncode == 1
    assert full.stdout.startswith("simulated:50, 1 worker")
    assert full.stderr.splitlines()[-1] == (
        "central-server: --json /dev/full: cannot be written: No space left on device"
    )
    assert Path("/dev/full").is_char_device()


def test_help_names_every_option() -> None:
    """And needs nothing that is heavy."""
    done = capacity("--help")

    assert done.returncode == 0
    for option in ("--detector", "--size", "--picture", "--price-per-hour", "--json", "--budget-s"):
        assert option in done.stdout
