"""Networks that misbehave: a gateway and a server, each in a network namespace of its own, joined by a line.

Needs root, for the kernel's sake. Nothing of it touches the network of the machine, and it is gone with the
two processes that hold the namespaces.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conftest import END_TIMEOUT_S, Program, ServerProgram, script

GATEWAY_ADDRESS = "198.18.0.1"
SERVER_ADDRESS = "198.18.0.2"
PORT = 50051
UPLINK = "uplink"
DOWNLINK = "downlink"
TABLE = "inet cut"


class Namespace:
    """A network namespace, held open by a process that waits; no name of it is left anywhere."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            # It ends with these tests, however they end: its input is closed then.
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        self.pid = self._holder.pid
        if self._holder.stdout.readline() != b"ready\n":
            self.close()
            pytest.skip("network namespaces cannot be made here")

    def close(self) -> None:
        """End it."""
        self._holder.kill()
        self._holder.wait(END_TIMEOUT_S)
        for pipe in (self._holder.stdin, self._holder.stdout):
            assert pipe is not None
            pipe.close()

    def command(self, *command: str) -> list[str]:
        """Give the command that runs another one inside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *command]

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a short command inside; gives its output."""
        done = subprocess.run(
            self.command(*command), input=stdin, capture_output=True, text=True, check=False, timeout=10
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout


@dataclass(frozen=True, slots=True)
class Networks:
    """A gateway's network, a server's, and the uplink between them."""

    gateway: Namespace
    server: Namespace
    programs: contextlib.ExitStack

    def limit_uplink(self, kbit: int | None) -> None:
        """Let the uplink carry so much, as a thin line does: what comes faster waits in its queue."""
        if kbit is None:
            self.gateway.run("tc", "qdisc", "del", "dev", UPLINK, "root")
            return
        # A queue of a second or more, as modems have.
        queue_bytes = str(max(kbit * 250, 30_000))
        self.gateway.run(
            *("tc", "qdisc", "replace", "dev", UPLINK, "root", "tbf", "rate", f"{kbit}kbit"),
            *("burst", "3000", "limit", queue_bytes),
        )

    def cut(self) -> None:
        """Drop everything between the two, in both directions, without a word to either."""
        rules = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0; {device} != lo drop; }}\n"
            for hook, device in (("input", "iifname"), ("output", "oifname"))
        )
        self.gateway.run("nft", "-f", "-", stdin=f"table {TABLE} {{\n{rules}}}\n")

    def mend(self) -> None:
        """Let everything pass again."""
        self.gateway.run("nft", "delete", "table", *TABLE.split())

    def uplink_bytes(self) -> int:
        """Give the bytes that have left the gateway, headers and all."""
        (link,) = json.loads(self.gateway.run("ip", "-json", "-statistics", "link", "show", UPLINK))
        return int(link["stats64"]["tx"]["bytes"])

    def serve(self, *options: str) -> ServerProgram:
        """Start a central server."""
        server = InsideServer(self.server, *options)
        self.programs.callback(server.kill)
        return server

    def agent(self, *arguments: str) -> Program:
        """Start the edge agent."""
        return self.start(self.gateway, script("edge-agent"), *arguments)

    def start(self, where: Namespace, *command: str) -> Program:
        """Start a program in one of the two."""
        program = Program(*where.command(*command))
        self.programs.callback(program.kill)
        return program


class InsideServer(ServerProgram):
    """A central server in a namespace."""

    def __init__(self, namespace: Namespace, *options: str) -> None:
        listen = f"{SERVER_ADDRESS}:{PORT}"
        command = (script("central-server"), "serve", "--listen", listen, "--insecure", *options)
        Program.__init__(self, *namespace.command(*command))
        self.address = self.wait_for_line(r"^listening (\S+:\d+)$")[1]


@contextlib.contextmanager
def joined_networks() -> Iterator[Networks]:
    """Make the two networks, and end them."""
    with contextlib.ExitStack() as closing:
        ends = []
        for _ in range(2):
            ends.append(Namespace())
            closing.callback(ends[-1].close)
        gateway, server = ends
        gateway.run(
            "ip", "link", "add", UPLINK, "type", "veth", "peer", "name", DOWNLINK, "netns", str(server.pid)
        )
        for end, device, address in ((gateway, UPLINK, GATEWAY_ADDRESS), (server, DOWNLINK, SERVER_ADDRESS)):
            end.run("ip", "link", "set", "lo", "up")
            end.run("ip", "address", "add", f"{address}/30", "dev", device)
            end.run("ip", "link", "set", device, "up")
        yield Networks(gateway, server, closing.enter_context(contextlib.ExitStack()))
