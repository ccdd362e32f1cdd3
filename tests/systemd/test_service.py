"""The agent under a systemd that has really booted: what it tells, its watchdog, its ends and its journal."""

import itertools
import os
import re
import time
from collections.abc import Iterator

import pytest

from tests.conftest import Program
from tests.systemd.conftest import CONFIGURATION, UNIT, WATCHDOG_S, Gateway, kill

STREAMING = "1 of 1 camera streaming; server connected"
# In the service's interpreter alone: SIGUSR1 blocks the thread of the event loop, and no other.
WEDGE = "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))\n"
HOG = ("sh", "-c", "while :; do :; done")
# Takes connections, and never says a word.
SILENT = """
import socket, time
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def wedgeable(installed: Gateway) -> Gateway:
    """Start the service such that its event loop can be blocked by a signal."""
    installed.machine.write("/opt/wedge/sitecustomize.py", WEDGE)
    installed.drop_in("wedge", "Environment=PYTHONPATH=/opt/wedge")
    installed.systemctl("restart", UNIT)
    return installed


@pytest.fixture
def crowded(gateway: Gateway) -> Iterator[Gateway]:
    """Have the service share one processor with eight programs that do nothing but use it."""
    processor = str(min(os.sched_getaffinity(0)))
    gateway.drop_in("crowded", f"CPUAffinity={processor}")
    gateway.systemctl("restart", UNIT)
    programs = [Program(*gateway.machine.inside("taskset", "--cpu-list", processor, *HOG)) for _ in range(8)]
    yield gateway
    for program in programs:
        kill(program)
    gateway.undo("crowded")
    gateway.systemctl("restart", UNIT)


def test_systemd_is_told_that_it_is_ready_and_how_it_does(gateway: Gateway) -> None:
    """Type=notify: active after READY, cameras and server in the status text, folders of its own."""
    assert gateway.show("ActiveState") == "active"
    assert re.fullmatch(rf"{STREAMING}; \d+ records? waiting", gateway.show("StatusText"))
    assert gateway.show("User") == "camera-ai-agent"
    mode_and_owner = gateway.machine.run(
        "stat", "--format=%a %U %n", "/run/camera-ai-agent", "/var/lib/camera-ai-agent"
    ).stdout

    assert mode_and_owner.splitlines() == [
        "750 camera-ai-agent /run/camera-ai-agent",
        "750 camera-ai-agent /var/lib/camera-ai-agent",
    ]


def test_a_wedged_event_loop_is_restarted_by_the_watchdog(wedgeable: Gateway, gateway: Gateway) -> None:
    """The loop's thread blocks, others run on: it is ended, all stacks are in the journal, it is back."""
    process, restarts = gateway.main_process(), gateway.restarts()
    cursor = _cursor(gateway)

    gateway.systemctl("kill", "--signal=USR1", UNIT)
    gateway.wait_for(lambda: gateway.restarts() > restarts, "a restart by the watchdog")
    gateway.wait_for_status(STREAMING)

    said = _messages(gateway, cursor)
    assert any("Watchdog timeout" in line for line in said)
    assert any("sitecustomize.py" in line for line in said), "the stack of the thread that hung"
    assert gateway.main_process() not in (0, process)


@pytest.mark.parametrize(("periods", "more_cameras"), [(2, 1), pytest.param(20, 15, marks=pytest.mark.soak)])
def test_heavy_load_is_no_reason_to_restart(crowded: Gateway, periods: int, more_cameras: int) -> None:
    """With a ninth of a processor, and cameras that are down, watchdog periods pass like any."""
    gateway = crowded
    process, restarts = gateway.main_process(), gateway.restarts()
    names = [f"down-{number}" for number in range(more_cameras)]
    try:
        for name in names:
            gateway.agent("add-camera", name, "rtsp://127.0.0.1:1/")
        begin_s = time.monotonic()

        gateway.wait_for(lambda: time.monotonic() - begin_s > periods * WATCHDOG_S, "the periods", 90.0)

        assert (gateway.main_process(), gateway.restarts()) == (process, restarts)
        gateway.wait_for_status(f"1 of {1 + more_cameras} cameras streaming; server connected")
    finally:
        for name in names:
            gateway.agent("remove-camera", name)


def test_killed_it_comes_back(gateway: Gateway) -> None:
    """After SIGKILL it is started again and streams."""
    process = gateway.main_process()

    gateway.systemctl("kill", "--signal=KILL", UNIT)

    gateway.wait_for(lambda: gateway.main_process() not in (0, process), "another process")
    gateway.wait_for_status(STREAMING)


def test_it_never_gives_up_for_good(gateway: Gateway) -> None:
    """Seven deaths, one after the other, are no start limit; systemd's own would be five."""
    for _ in range(7):
        gateway.wait_for(gateway.main_process, "a process")
        gateway.systemctl("kill", "--signal=KILL", UNIT)

    gateway.wait_for_status(STREAMING)


def test_it_stops_within_five_seconds(gateway: Gateway) -> None:
    """By itself, not killed, although one of its cameras takes the connection and never says a word."""
    silent = Program(*gateway.machine.inside("python3", "-c", SILENT))
    try:
        port = silent.wait_for_line(r"^\d+$")[0]
        gateway.agent("add-camera", "silent", f"rtsp://127.0.0.1:{port}/")
        gateway.systemctl("reload", UNIT)
        gateway.wait_for_status("1 of 2 cameras streaming; server connected")

        begin_s = time.monotonic()
        gateway.systemctl("stop", UNIT)

        assert time.monotonic() - begin_s < 5.0
        assert gateway.show("Result") == "success"
    finally:
        gateway.agent("remove-camera", "silent")
        kill(silent)


@pytest.mark.soak
def test_wedged_it_stops_within_five_seconds(wedgeable: Gateway, gateway: Gateway) -> None:
    """What cannot stop by itself is killed in time."""
    gateway.systemctl("kill", "--signal=USR1", UNIT)

    begin_s = time.monotonic()
    gateway.systemctl("stop", UNIT)

    assert time.monotonic() - begin_s < 5.0
    assert gateway.show("Result") in {"timeout", "watchdog"}


def test_a_reload_reads_the_configuration_again(gateway: Gateway) -> None:
    """`systemctl reload` brings a camera that was added, in the same process."""
    process = gateway.main_process()
    gateway.agent("add-camera", "second", gateway.camera, "--transport", "udp")
    try:
        gateway.systemctl("reload", UNIT)

        gateway.wait_for_status("2 of 2 cameras streaming; server connected")
        assert gateway.main_process() == process
        assert gateway.show("ActiveState") == "active"
    finally:
        gateway.agent("remove-camera", "second")
        gateway.systemctl("reload", UNIT)


def test_the_journal_has_levels_and_no_noise(gateway: Gateway) -> None:
    """A fault that repeats twenty times a second has a line a second, an error's level, and a count."""
    cursor = _cursor(gateway)
    good = gateway.machine.run("cat", CONFIGURATION).stdout
    try:
        gateway.machine.write(CONFIGURATION, good + "\nnonsense = 1\n")
        reload = f"for _ in $(seq 50); do kill -HUP {gateway.main_process()}; sleep 0.05; done"
        gateway.machine.run("sh", "-c", reload)
    finally:
        gateway.machine.write(CONFIGURATION, good)
    gateway.systemctl("reload", UNIT)
    gateway.wait_for(
        lambda: sum("more like it" in line for line in _messages(gateway, cursor)) >= 2,
        "counts of what was left out",
    )

    entries = gateway.machine.journal(UNIT, f"--after-cursor={cursor}")
    faults = [entry for entry in entries if "stays as it was" in entry["MESSAGE"]]
    instants_s = [int(entry["__MONOTONIC_TIMESTAMP"]) / 1e6 for entry in faults]
    assert {entry["PRIORITY"] for entry in faults} == {"3"}
    assert all(after - before > 0.95 for before, after in itertools.pairwise(instants_s)), instants_s
    assert re.search(r"\(and \d+ more like it\)$", faults[1]["MESSAGE"])
    # The journal has times and levels of its own.
    assert not [entry for entry in entries if re.match(r"<\d>|\d{4}-\d\d-\d\d|ERROR|INFO", entry["MESSAGE"])]


def test_a_configuration_that_cannot_be_used_is_told_as_an_error(gateway: Gateway) -> None:
    """It is said why; the service goes on with the one that was in use before, also when started again."""
    cursor = _cursor(gateway)
    good = gateway.machine.run("cat", CONFIGURATION).stdout
    try:
        gateway.machine.write(CONFIGURATION, "nonsense = 1\n")
        gateway.machine.run("systemctl", "restart", UNIT)
        gateway.wait_for_status(STREAMING)
        entries = gateway.machine.journal(UNIT, f"--after-cursor={cursor}")
    finally:
        gateway.machine.write(CONFIGURATION, good)

    assert {entry["PRIORITY"] for entry in entries if f"{CONFIGURATION}:1:1" in entry["MESSAGE"]} == {"3"}
    gateway.wait_for_status(STREAMING)


def _cursor(gateway: Gateway) -> str:
    """Give the journal's end."""
    return str(gateway.machine.journal(UNIT, "--lines=1")[-1]["__CURSOR"])


def _messages(gateway: Gateway, cursor: str) -> list[str]:
    return [str(entry["MESSAGE"]) for entry in gateway.machine.journal(UNIT, f"--after-cursor={cursor}")]
