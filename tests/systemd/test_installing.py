"""`edge-agent install-service` on a machine where systemd runs, from nothing to nothing."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.systemd.conftest import AGENT, CONFIGURATION, UNIT, Gateway
from tests.systemd.machine import ROOT, Machine

UNIT_PATH = f"/etc/systemd/system/{UNIT}"
USER_PATH = "/etc/sysusers.d/camera-ai-agent.conf"
SECRETS = "/etc/camera-ai/agent.secrets.toml"
# Reaches whatever the agent reaches: a camera over UDP and multicast, names, the control socket.
REACH = """
import socket, struct
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 3702))
udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
group = struct.pack("4s4s", socket.inet_aton("239.255.255.250"), socket.inet_aton("127.0.0.1"))
udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
udp.sendto(b"probe", ("239.255.255.250", 3702))
assert udp.recv(100) == b"probe"
assert socket.getaddrinfo("localhost", 554, type=socket.SOCK_STREAM)
control = socket.socket(socket.AF_UNIX)
control.bind("/run/reach/trial.sock")
for path in ("/var/lib/camera-ai-agent/trial", "/etc/camera-ai/trial"):
    open(path, "w").close()
for path in ("/etc/trial", "/usr/trial", "/srv/trial", "/var/lib/trial"):
    try:
        open(path, "w").close()
    except OSError:
        continue
    raise SystemExit(path + " can be written")
print("reached")
"""


@pytest.fixture
def fresh(machine: Machine, tmp_path: Path) -> Iterator[Machine]:
    """Boot a machine on which nothing is installed; `machine` says where none can be booted."""
    with closing(Machine(tmp_path)) as booted:
        yield booted


def test_from_nothing_to_a_service_and_back(fresh: Machine) -> None:
    """Each step says what it does; started once there is something to run; removed, what was typed stays."""
    first = fresh.run(AGENT, "install-service").stdout
    assert f"not started: {CONFIGURATION}: no configuration here" in first
    assert f"{UNIT_PATH}: written" in first
    assert fresh.show(UNIT, "ActiveState") == "inactive"
    assert fresh.show(UNIT, "UnitFileState") == "enabled"

    # The service reads, and later rewrites, what root's commands write.
    fresh.run(AGENT, "set-server", "127.0.0.1:1")
    fresh.run(
        AGENT,
        "add-camera",
        "door",
        "rtsp://127.0.0.1:1/",
        "--user",
        "u",
        "--password-file",
        "-",
        stdin="secret",
    )
    owners = fresh.run("stat", "--format=%a %U", "/etc/camera-ai", CONFIGURATION, SECRETS).stdout.split("\n")
    assert owners[:3] == ["750 camera-ai-agent", "644 camera-ai-agent", "600 camera-ai-agent"]
    assert "started: 0 of 1 camera streaming" in fresh.run(AGENT, "install-service").stdout

    removed = fresh.run(AGENT, "install-service", "--remove").stdout
    assert "/etc/camera-ai: left, the configuration" in removed
    assert fresh.show(UNIT, "LoadState") == "not-found"
    assert fresh.run("ls", UNIT_PATH, USER_PATH, check=False).stdout == ""
    assert "secret" in fresh.run("cat", SECRETS).stdout
    again = fresh.run(AGENT, "install-service", "--remove").stdout
    assert "removed" not in again


def test_an_upgrade_keeps_what_was_configured(gateway: Gateway) -> None:
    """Installed again, it is started anew; the files, a drop-in and the user are as they were."""
    before = gateway.machine.run("sha256sum", CONFIGURATION).stdout
    process = gateway.main_process()
    # An older version's unit.
    gateway.machine.write(
        UNIT_PATH, gateway.machine.run("cat", UNIT_PATH).stdout.replace("WatchdogSec=30s", "WatchdogSec=99s")
    )

    said = gateway.agent("install-service")

    assert f"{UNIT_PATH}: written" in said
    assert f"{USER_PATH}: as it was" in said
    assert "user camera-ai-agent: was there" in said
    assert gateway.machine.run("sha256sum", CONFIGURATION).stdout == before
    assert gateway.show("WatchdogUSec") == "3s", "the drop-in's"
    assert gateway.main_process() not in (0, process)
    assert f"{UNIT_PATH}: as it was" in gateway.agent("install-service")


def test_systemd_finds_nothing_wrong_with_the_unit(gateway: Gateway) -> None:
    """`systemd-analyze verify` prints nothing; exposure is at most 1.5; --print prints what is installed."""
    assert (
        gateway.machine.run(AGENT, "install-service", "--print").stdout
        == gateway.machine.run("cat", UNIT_PATH).stdout
    )

    verified = gateway.machine.run("systemd-analyze", "verify", UNIT_PATH)
    assert verified.stdout + verified.stderr == ""
    gateway.machine.run("systemd-analyze", "security", "--threshold=15", "--no-pager", UNIT)
    gateway.machine.run(
        "systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", UNIT_PATH
    )


def test_a_drop_in_lets_local_video_devices_in(gateway: Gateway) -> None:
    """With the one that is shipped, it runs with their group and devices, and nothing else is wrong."""
    drop_in = (ROOT / "systemd" / "edge-agent-video-devices.conf").read_text()
    try:
        gateway.drop_in("video-devices", drop_in)
        gateway.systemctl("restart", UNIT)

        status = gateway.machine.run("cat", f"/proc/{gateway.main_process()}/status").stdout
        video = gateway.machine.run("getent", "group", "video").stdout.split(":")[2]
        assert video in status.partition("Groups:")[2].splitlines()[0].split()
        assert "char-video4linux rw" in gateway.show("DeviceAllow")
        verified = gateway.machine.run("systemd-analyze", "verify", UNIT_PATH)
        assert verified.stdout + verified.stderr == ""
    finally:
        gateway.undo("video-devices")
        gateway.systemctl("restart", UNIT)


def test_the_sandbox_leaves_open_what_the_agent_needs_and_nothing_else(gateway: Gateway) -> None:
    """UDP, multicast, names, Unix sockets, its own three folders; the rest of the system is read-only."""
    gateway.machine.write("/opt/reach.py", REACH)
    gateway.machine.write("/etc/systemd/system/reach.service", _tried(gateway, "/opt/reach.py"))
    gateway.systemctl("daemon-reload")
    gateway.systemctl("start", "reach.service")

    assert "reached" in [entry["MESSAGE"] for entry in gateway.machine.journal("reach.service")]


def test_it_says_what_is_missing(fresh: Machine) -> None:
    """Without root, and where systemd does not run, one line says so, and nothing is installed."""
    nobody = fresh.run("setpriv", "--reuid=65534", "--clear-groups", AGENT, "install-service", check=False)
    without = fresh.run(
        "unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && {AGENT} install-service", check=False
    )

    assert (nobody.returncode, without.returncode) == (1, 1)
    assert nobody.stderr == "edge-agent: install-service needs root: call it with sudo\n"
    assert without.stderr.startswith("edge-agent: no service can be installed: systemd does not run here")
    assert fresh.run("ls", UNIT_PATH, check=False).stdout == ""


def _tried(gateway: Gateway, program: str) -> str:
    """Give the unit with another program, that is to end well, in its sandbox."""
    lines = gateway.machine.run("cat", UNIT_PATH).stdout.splitlines()
    unit = [line for line in lines if not line.startswith(("Restart", "WatchdogSec", "ExecReload"))]
    text = "\n".join(unit).replace("Type=notify", "Type=oneshot")
    # Its end would take the agent's with it.
    text = text.replace("RuntimeDirectory=camera-ai-agent", "RuntimeDirectory=reach")
    command = next(line for line in unit if line.startswith("ExecStart="))
    return text.replace(command, f"ExecStart=/usr/bin/python3 {program}") + "\n"
