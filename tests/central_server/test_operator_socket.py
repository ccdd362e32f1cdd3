"""The operator's socket and the commands that speak over it, with a real server and a client that watches."""

import asyncio
import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai import control_pb2, control_pb2_grpc

from central_server import operator_socket
from central_server.wishes import Wishes
from tests.conftest import ServerProgram, StartServer, script

TIMEOUT_S = 30.0

GATEWAYS = b'{"command": "gateways"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def server(start_server: StartServer, path: Path) -> ServerProgram:
    return start_server("--detector=simulated:1", f"--control={path}")


def ask(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines to the socket; gives all that is answered."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b"".join(line + b"\n" for line in lines))
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError), connection.makefile("rb") as answers:
            return [json.loads(answer) for answer in answers]
    return []


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [script("central-server"), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
async def watching(server: ServerProgram) -> AsyncIterator[Any]:
    """Watch as an agent does; the call, once the server listens."""
    channel = grpc.aio.insecure_channel(server.address)
    stub: Any = control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]
    request = control_pb2.WatchRequest(agent_version="1.2", camera_ids=["door", "yard"], gateway="shop")
    call = stub.Watch(request, timeout=TIMEOUT_S)
    await call.initial_metadata()
    yield call
    await channel.close()


async def test_wishes_by_command(watching: Any, path: Path) -> None:
    """Each option is one wish to the agent, with what was typed."""
    done = command(
        "wish",
        "--socket",
        str(path),
        "door",
        "--fps=2",
        "--watched",
        "--mask=0,0 .5,0 .5,1",
        "--mask=0,0 1,0 1,1",
    )
    told = [await watching.read() for _ in range(3)]

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "gateway shop, camera door: fps: told",
        "gateway shop, camera door: watched: told",
        "gateway shop, camera door: masks: told",
    ]
    assert [wish.WhichOneof("wish") for wish in told] == ["frame_rate", "viewing", "masks"]
    assert (told[0].frame_rate.camera_id, told[0].frame_rate.frames_per_second) == ("door", 2)
    assert told[1].viewing.watched
    points = [
        [(point.x_norm, point.y_norm) for point in polygon.points] for polygon in told[2].masks.polygons
    ]
    assert points == [[(0, 0), (0.5, 0), (0.5, 1)], [(0, 0), (1, 0), (1, 1)]]

    assert command("wish", "--socket", str(path), "--gateway=shop", "door", "--no-masks").returncode == 0
    assert not (await watching.read()).masks.polygons


async def test_who_watches(watching: Any, path: Path) -> None:
    """As a table and as JSON; whoever has left is not in it."""
    table = command("gateways", "--socket", str(path)).stdout.splitlines()
    (agent,) = [
        json.loads(line) for line in command("gateways", f"--socket={path}", "--json").stdout.splitlines()
    ]

    assert table[0].split() == ["GATEWAY", "VERSION", "SINCE", "CAMERAS"]
    assert table[1].split()[:2] == ["shop", "1.2"]
    assert table[1].endswith("door, yard")
    assert (agent["gateway"], agent["cameras"], agent["agent_version"]) == ("shop", ["door", "yard"], "1.2")
    watching.cancel()
    for _ in range(100):
        if ask(path, GATEWAYS) == [{"end": True}]:
            return
    pytest.fail("whoever has left is still listed")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["door"], "nothing is wished"),
        (["door", "--fps=nan"], "expected 0 or 0.1 to 60"),
        (["door", "--mask=0,0 1,1"], "a polygon of 2 points"),
        (["door", "--mask=zero"], "expected 'X,Y X,Y X,Y'"),
        (["door", "--mask=0,0 1,0 1,2"], "expected fractions from 0 to 1"),
        (["dor", "--fps=2"], "no agent that watches has a camera 'dor'"),
    ],
)
def test_what_cannot_be_wished(
    server: ServerProgram, path: Path, arguments: list[str], complaint: str
) -> None:
    """Ends in one line that says why."""
    done = command(
        "wish", "--socket", str(path), *(["--gateway=g"] if "door" in arguments else []), *arguments
    )

    assert done.returncode in (1, 2)
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_socket_is_the_owners_and_goes_with_the_server(server: ServerProgram, path: Path) -> None:
    """Mode 0600; a stop removes it."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.stop() == 0
    assert not path.exists()
    done = command("gateways", "--socket", str(path))
    assert (done.returncode, done.stderr) == (
        1,
        f"central-server: --socket {path}: No such file or directory\n",
    )


def test_what_a_killed_server_left_is_replaced(
    server: ServerProgram, path: Path, start_server: StartServer
) -> None:
    """While it lives nobody takes its place, and a file that is no socket is left alone."""
    second = command("serve", "--listen=127.0.0.1:0", "--detector=simulated:1", f"--control={path}")
    assert second.returncode == 1
    assert "another server listens there" in second.stderr
    server.kill()
    assert path.is_socket()
    start_server("--detector=simulated:1", f"--control={path}")
    assert ask(path, GATEWAYS) == [{"end": True}]
    other = path.with_name("precious")
    other.write_text("text")
    assert (
        command("serve", "--listen=127.0.0.1:0", "--detector=simulated:1", f"--control={other}").returncode
        == 1
    )
    assert other.read_text() == "text"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"command": "dance"}',
        b'{"command": "wish"}',
        b'{"command": "wish", "camera": 7, "fps": 1}',
        b'{"command": "wish", "camera": "door", "gateway": "g", "fps": "many"}',
        b'{"command": "wish", "camera": "door", "gateway": "g", "fps": 1, "watched": true}',
        b'{"command": "wish", "camera": "door", "gateway": "g", "watched": 1}',
        b'{"command": "wish", "camera": "door", "gateway": "g", "fps": %s}' % (b"9" * 400),
        b'{"command": "wish", "camera": "door", "gateway": "g", "masks": [[["a"]]]}',
        b'{"command": "wish", "camera": "door", "gateway": "g", "masks": 5}',
        b'{"command": "wish", "camera": "door", "gateway": "g", "masks": [[[0, 0, 0]]]}',
    ],
)
def test_what_cannot_be_understood(socket_of_session: Path, line: bytes) -> None:
    """Is answered with an error, and the next line is as welcome as any."""
    answers = ask(socket_of_session, line, GATEWAYS)

    assert [sorted(answer) for answer in answers] == [["error"], ["end"]]


def test_endless_lines_and_silent_crowds_are_bounded(socket_of_session: Path) -> None:
    """A line without an end is cut off; of those who only sit there the ninth is refused."""
    # What was sent beyond may take the answer away with it.
    for answer in ask(socket_of_session, b"x" * (1 << 20)):
        assert "found a line longer than" in answer["error"]
    assert ask(socket_of_session, GATEWAYS) == [{"end": True}]
    with contextlib.ExitStack() as crowd:
        for _ in range(8):
            silent = crowd.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            silent.connect(str(socket_of_session))
        assert ask(socket_of_session, GATEWAYS) == [{"error": "8 connections are open already"}]


@pytest.mark.parametrize("told", [b"", b'{"gateway": "shop", "told"', b"[]\n", b"7\n", b"SSH-2.0\n"])
def test_a_server_that_does_not_answer_to_the_end(path: Path, told: bytes) -> None:
    """It was killed in the middle, or is none: one line, and no list that looks whole."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(told)

        answering = threading.Thread(target=answer)
        answering.start()
        results = [
            command("wish", "door", "--fps=2", f"--socket={path}"),
            command("gateways", f"--socket={path}"),
        ]
        answering.join(TIMEOUT_S)
    for result in results:
        assert (result.returncode, result.stdout) == (1, "")
        assert re.fullmatch(
            r"central-server: --socket .*(ended before it had|is no central).*\n", result.stderr
        )


async def test_who_does_not_read_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was written for it: neither the connection nor its task stays."""
    monkeypatch.setattr(operator_socket, "PATIENCE_S", 0.2)
    operator = operator_socket.OperatorSocket(path, Wishes())
    operator.bind()
    await operator.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.setblocking(False)
        deaf.connect(str(path))
        with contextlib.suppress(BlockingIOError):
            while True:
                deaf.send(b"{}\n" * 1000)
                await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert others
        await asyncio.wait_for(asyncio.gather(*others), TIMEOUT_S)
    await operator.close()


@pytest.fixture(scope="module")
def socket_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run one server for the tests that leave it as it was."""
    path = tmp_path_factory.mktemp("operator") / "control.sock"
    program = ServerProgram("--detector=simulated:1", f"--control={path}")
    yield path
    program.kill()
    assert not [line for line in program.errors if "Traceback" in line], os.linesep.join(program.errors)
