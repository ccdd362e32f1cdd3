"""The control socket of the service: for its group, by the file's mode, and for nobody else."""

import json
import sys

from tests.systemd.conftest import CONFIGURATION, UNIT, Gateway

# The interpreter lies in somebody's home: what is needed is imported before the user is another one.
AS_SOMEBODY = """
import grp, os, pwd, sys, tomlkit
import edge_agent.commands.changing, edge_agent.control.client, edge_agent.cli
groups = [grp.getgrnam(name).gr_gid for name in sys.argv[1].split(",") if name]
os.setgroups(groups), os.setgid(65534), os.setuid(65534)
sys.exit(edge_agent.cli.main(["--config", sys.argv[2], *sys.argv[3:]]))
"""
GROUP = "camera-ai-agent"


def as_somebody(gateway: Gateway, groups: str, *arguments: str) -> tuple[int, str, str]:
    command = (sys.executable, "-c", AS_SOMEBODY, groups, CONFIGURATION, *arguments)
    done = gateway.machine.run(*command, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_group_may_ask_and_change_and_others_may_not(gateway: Gateway) -> None:
    """The service makes the change with its own rights, and keeps the password in its own file."""
    # As where root's umask is a strict one: the socket is for the group all the same.
    gateway.machine.run("chmod", "600", CONFIGURATION)
    gateway.wait_for(lambda: as_somebody(gateway, GROUP, "status", "--json")[1], "a status for the group")
    told = json.loads(as_somebody(gateway, GROUP, "status", "--json")[1])
    url = "rtsp://viewer:secret@127.0.0.1:1/"
    added = as_somebody(gateway, GROUP, "add-camera", "gate", url, "--disabled")
    refused = as_somebody(gateway, "", "remove-camera", "gate")
    asked = as_somebody(gateway, "", "status")
    mode = gateway.machine.run("stat", "--format=%a %U %G", "/run/camera-ai-agent/control.sock").stdout
    secrets = gateway.machine.run(
        "stat", "--format=%a %U", "/etc/camera-ai/agent.secrets.toml", check=False
    ).stdout
    removed = as_somebody(gateway, GROUP, "remove-camera", "gate")

    assert [camera["name"] for camera in told["cameras"]] == ["door"]
    assert added[0] == 0, added
    assert removed[0] == 0, removed
    assert secrets.strip() == f"600 {GROUP}"
    assert mode.strip() == f"660 {GROUP} {GROUP}"
    assert (refused[0], asked[0]) == (1, 1)
    for _, _, errors in (refused, asked):
        assert f"it is for {GROUP} and the group {GROUP}: use sudo, or be added to the group" in errors


def test_a_change_that_the_service_cannot_read_is_not_told_as_made(gateway: Gateway) -> None:
    """Root may write what is not the service's; doctor says whose the file should be."""
    gateway.wait_for(lambda: as_somebody(gateway, GROUP, "status", "--json")[1], "a status")
    gateway.machine.run("chmod", "600", CONFIGURATION)
    gateway.machine.run("chown", "root", CONFIGURATION)
    try:
        said = gateway.agent("set-camera", "door", "--max-kbit", "9000", check=False)
        found = json.loads(gateway.agent("doctor", "--json", check=False))["findings"]
    finally:
        gateway.machine.run("chown", f"{GROUP}:", CONFIGURATION)
    gateway.agent("set-camera", "door", "--unset", "max-kbit")

    assert said.startswith("edge-agent: it is written, and not in effect: the running agent: ")
    assert f"sudo chown {GROUP}: {CONFIGURATION}" in [finding["advice"] for finding in found]


def test_doctor_knows_the_service(gateway: Gateway) -> None:
    """That it runs, and when it does not, how it is started and where its log is."""
    gateway.wait_for(lambda: as_somebody(gateway, GROUP, "status", "--json")[1], "a status")
    well = json.loads(gateway.agent("doctor", "--json", check=False))
    gateway.systemctl("stop", UNIT)
    try:
        stopped = json.loads(gateway.agent("doctor", "--json", check=False))
    finally:
        gateway.systemctl("start", UNIT)

    of_agent = [finding for finding in well["findings"] if finding["subject"] in ("agent", "records")]
    assert not [finding for finding in of_agent if finding["level"] == "problem"], of_agent
    assert any(finding["found"].startswith("runs (process ") for finding in of_agent)
    down = [finding for finding in stopped["findings"] if finding["found"].startswith("does not run")]
    assert [finding["level"] for finding in down] == ["problem"], stopped
    assert "does not run (inactive, success): no agent runs" in down[0]["found"]
    assert "sudo systemctl start edge-agent" in down[0]["advice"]
