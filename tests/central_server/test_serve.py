"""The server as a process: from its first line to the end of its drain."""

import contextlib
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import trustme
from camera_ai import control_pb2, control_pb2_grpc, detection_pb2_grpc
from camera_ai.detection_pb2 import (
    OUTCOME_DETECTED,
    OUTCOME_INTERNAL_ERROR,
    OUTCOME_STALE,
    DetectRequest,
    DetectResponse,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests import pictures, plugins
from tests.conftest import Program, ServerProgram, StartProgram, StartServer
from tests.polling import until

TIMEOUT_S = 30.0
HEALTH = health_pb2.HealthCheckResponse
NOISE = re.compile(r"Traceback|ERROR|Task was destroyed|never awaited|never retrieved|Warning")

OpenChannel = Callable[..., grpc.aio.Channel]


@pytest.fixture
async def open_channel() -> AsyncIterator[OpenChannel]:
    """Open channels; they are closed after the test."""
    channels: list[grpc.aio.Channel] = []

    def open_channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
        channels.append(
            grpc.aio.secure_channel(address, credentials)
            if credentials
            else grpc.aio.insecure_channel(address)
        )
        return channels[-1]

    yield open_channel
    for channel in channels:
        await channel.close()


def detect_stream(channel: grpc.aio.Channel) -> Any:
    """Begin a DetectStream call."""
    stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
    return stub.DetectStream(timeout=TIMEOUT_S)


async def ask(call: Any, frame_id: int, image_data: bytes = b"any bytes") -> DetectResponse:
    """Send a frame and wait for its answer."""
    await call.write(DetectRequest(frame_id=frame_id, image_data=image_data, max_age_ms=60_000))
    answer: DetectResponse = await call.read()
    assert answer.frame_id == frame_id
    return answer


async def end(call: Any) -> tuple[grpc.StatusCode, str]:
    """Wait for the end of a call: no answer comes before it."""
    status = await call.code(), await call.details()
    with contextlib.suppress(grpc.aio.AioRpcError):
        assert await call.read() is grpc.aio.EOF
    return status


def assert_ended_quietly(server: ServerProgram) -> None:
    """See that it exited by itself, with 0, and left no complaint."""
    assert server.wait() == 0
    assert not [line for line in server.errors if NOISE.search(line)]
    assert any("stopped; frames: " in line for line in server.errors)


async def test_the_first_line_has_the_real_port(start_server: StartServer, open_channel: OpenChannel) -> None:
    """Asked for port 0 it prints the one it got, and answers there at once."""
    server = start_server("--detector=simulated:1")

    assert server.lines == [f"listening {server.address}"]
    assert not server.address.endswith(":0")
    assert (await ask(detect_stream(open_channel(server.address)), 1)).outcome == OUTCOME_DETECTED


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_ipv6(start_server: StartServer, open_channel: OpenChannel) -> None:
    """Addresses in brackets are listened on and printed as such."""
    server = start_server("--detector=simulated:1", listen="[::1]:0")

    assert server.address.startswith("[::1]:")
    assert (await ask(detect_stream(open_channel(server.address)), 1)).outcome == OUTCOME_DETECTED


async def test_beyond_loopback_plaintext_is_served_with_a_warning(
    start_server: StartServer, open_channel: OpenChannel
) -> None:
    """Whoever says --insecure is reminded of what it means."""
    server = start_server("--detector=simulated:1", "--insecure", listen="0.0.0.0:0")
    port = server.address.rpartition(":")[2]

    assert (await ask(detect_stream(open_channel(f"127.0.0.1:{port}")), 1)).outcome == OUTCOME_DETECTED
    await until(lambda: any("plaintext beyond loopback" in line for line in server.errors), "a warning")


async def test_tls_from_end_to_end(
    start_server: StartServer, open_channel: OpenChannel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the right authority frames are answered; with another, or without TLS, nothing is."""
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / "chain.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    server = start_server(
        "--detector=simulated:1", f"--tls-certificate={folder}/chain.pem", f"--tls-key={folder}/key.pem"
    )

    def trusting(ca: trustme.CA) -> grpc.aio.Channel:
        return open_channel(server.address, grpc.ssl_channel_credentials(ca.cert_pem.bytes()))

    for refused in (trusting(stranger), open_channel(server.address)):
        assert await detect_stream(refused).code() is grpc.StatusCode.UNAVAILABLE
    call = detect_stream(trusting(authority))
    assert (await ask(call, 1)).outcome == OUTCOME_DETECTED


async def test_strangers_at_the_tls_port_fill_no_log(
    start_server: StartServer, open_channel: OpenChannel, tmp_path: Path
) -> None:
    """A handshake that fails is nothing to report each time."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "chain.pem"))
    server = start_server(
        "--detector=simulated:1", f"--tls-certificate={tmp_path}/chain.pem", f"--tls-key={tmp_path}/chain.pem"
    )
    host, port = server.address.split(":")
    for _ in range(50):
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(OSError):
                stranger.recv(1000)

    channel = open_channel(server.address, grpc.ssl_channel_credentials(authority.cert_pem.bytes()))
    assert (await ask(detect_stream(channel), 1)).outcome == OUTCOME_DETECTED
    assert len(server.errors) <= 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_with_nothing_to_do_ends_at_once(
    start_server: StartServer, how: signal.Signals
) -> None:
    """SIGTERM from a supervisor or Ctrl-C at a terminal."""
    server = start_server("--detector=simulated:1", "--drain-grace-s=60")
    server.signal(how)

    assert_ended_quietly(server)


async def test_a_drain_answers_what_was_accepted(
    start_server: StartServer, open_channel: OpenChannel
) -> None:
    """One frame is in work and one waits: both are answered, then the calls end with UNAVAILABLE."""
    server = start_server("--detector=simulated:400", "--workers=1")
    channel = open_channel(server.address)
    calls = [detect_stream(channel) for _ in range(2)]
    for call in calls:
        # The facts come when the call is being served.
        await call.initial_metadata()
    for call in calls:
        await call.write(DetectRequest(frame_id=7, image_data=b"any bytes", max_age_ms=60_000))
    await until(lambda: sum("stream of camera" in line for line in server.errors) == 2, "both are accepted")
    server.signal(signal.SIGTERM)

    for call in calls:
        answer = await call.read()
        assert (answer.frame_id, answer.outcome) == (7, OUTCOME_DETECTED)
        assert await end(call) == (grpc.StatusCode.UNAVAILABLE, "the server is draining")
    assert_ended_quietly(server)
    assert any(line.endswith("stopped; frames: detected 2") for line in server.errors)


async def test_a_drain_is_told_to_those_who_watch(
    start_server: StartServer, open_channel: OpenChannel
) -> None:
    """Agents by a wish with the time they have, supervisors by the health service; newcomers are refused."""
    server = start_server("--detector=simulated:600", "--workers=1", "--drain-grace-s=20")
    channel = open_channel(server.address)
    control: Any = control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]
    watching = control.Watch(
        control_pb2.WatchRequest(agent_version="1", camera_ids=["door"]), timeout=TIMEOUT_S
    )
    health = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
    assert (await health.read()).status == HEALTH.SERVING
    busy = detect_stream(channel)
    await busy.write(DetectRequest(frame_id=1, image_data=b"any bytes"))
    await until(lambda: any("stream of camera" in line for line in server.errors), "a frame is in work")
    server.signal(signal.SIGTERM)

    wish = await watching.read()
    assert wish.WhichOneof("wish") == "drain"
    assert wish.drain.grace_ms == 20_000
    assert wish.drain.reason
    assert (await health.read()).status == HEALTH.NOT_SERVING
    assert await detect_stream(channel).code() is grpc.StatusCode.UNAVAILABLE
    assert (await busy.read()).outcome == OUTCOME_DETECTED
    health.cancel()
    assert_ended_quietly(server)


async def test_a_drain_ends_calls_that_say_nothing(
    start_server: StartServer, open_channel: OpenChannel
) -> None:
    """A camera that sends nothing at the moment does not hold the server up."""
    server = start_server("--detector=simulated:1", "--drain-grace-s=60")
    call = detect_stream(open_channel(server.address))
    await ask(call, 1)
    server.signal(signal.SIGTERM)

    assert await end(call) == (grpc.StatusCode.UNAVAILABLE, "the server is draining")
    assert_ended_quietly(server)


async def test_a_drain_is_bounded(start_server: StartServer, open_channel: OpenChannel) -> None:
    """Work that outlasts the grace is cut, and the server still ends well."""
    server = start_server("--detector=simulated:8000", "--workers=1", "--drain-grace-s=0.3")
    call = detect_stream(open_channel(server.address))
    await call.write(DetectRequest(frame_id=1, image_data=b"any bytes"))
    await until(lambda: any("stream of camera" in line for line in server.errors), "the frame is in work")
    server.signal(signal.SIGTERM)

    assert (await end(call))[0] is not grpc.StatusCode.OK
    assert_ended_quietly(server)
    assert any("1 streams did not end in time" in line for line in server.errors)


async def test_a_client_that_goes_during_the_drain(
    start_server: StartServer, open_channel: OpenChannel
) -> None:
    """Nobody waits for it."""
    server = start_server("--detector=simulated:500", "--workers=1", "--drain-grace-s=60")
    call = detect_stream(open_channel(server.address))
    for frame_id in range(2):
        await call.write(DetectRequest(frame_id=frame_id, image_data=b"any bytes"))
    await until(lambda: any("stream of camera" in line for line in server.errors), "a frame is in work")
    server.signal(signal.SIGTERM)
    await until(lambda: any("draining" in line for line in server.errors), "the drain has begun")
    call.cancel()

    assert_ended_quietly(server)


BLACK_ONLY = """
import numpy as np
from central_server.frame import Detections


class BlackOnly:
    name, labels, input_wh = "black-only", ("night",), (16, 16)

    def detect(self, image, query):
        if image.any():
            raise RuntimeError("the sun has risen")
        return Detections(np.array([[0, 0, 9, 9]], np.float32), np.ones(1, np.float32), np.zeros(1, np.int32))


def create(argument, options):
    return BlackOnly()
"""


async def test_a_detector_that_fails_on_a_frame(
    start_program: StartProgram, open_channel: OpenChannel, tmp_path: Path
) -> None:
    """The frame is answered with an internal error, without what it says of itself; the call goes on."""
    server = start_program(
        "central-server",
        "serve",
        "--listen=127.0.0.1:0",
        "--detector=black-only",
        env=plugins.install(tmp_path, BLACK_ONLY, **{"black-only": "elsewhere:create"}),
    )
    call = detect_stream(open_channel(server.wait_for_line(r"^listening (\S+)$")[1]))
    day, night = pictures.jpeg(), pictures.encode(np.zeros((96, 128, 3), np.uint8), "PNG")
    for _ in range(3):
        failed = await ask(call, 1, day)
        found = await ask(call, 2, night)

        assert (failed.outcome, len(failed.objects)) == (OUTCOME_INTERNAL_ERROR, 0)
        assert failed.detail == "the detector failed: RuntimeError"
        assert [(found.label, found.bbox.width) for found in found.objects] == [("night", 9)]
    await until(
        lambda: any("the sun has risen" in line for line in server.errors), "the reason is in the log"
    )
    assert sum("Traceback" in line for line in server.errors) <= 2  # Once for each of two workers.


WAYWARD = """
import sys
import threading
import numpy as np
from central_server.frame import Detections


class Wayward:
    name, input_wh = "wayward", None
    labels = ("thing",)

    def __init__(self, argument):
        self.argument = argument

    def detect(self, image, query):
        if self.argument == "hangs":
            threading.Event().wait()
        if self.argument == "forges":
            raise RuntimeError("\\n2000-01-01 00:00:00,000 ERROR forged\\x1b[2J")
        self.labels = ("\\udc80",)
        return Detections(np.array([[0, 0, 9, 9]], np.float32), np.ones(1, np.float32), np.zeros(1, np.int32))


def create(argument, options):
    if argument == "loads":
        print("loading", flush=True)
        threading.Event().wait()
    return Wayward(argument)
"""

StartWayward = Callable[[str], Program]


@pytest.fixture
def start_wayward(start_program: StartProgram, tmp_path: Path) -> StartWayward:
    """Start a server with a detector that does harm in a given way."""
    env = plugins.install(tmp_path, WAYWARD, wayward="elsewhere:create")

    def start(how: str) -> Program:
        options = ("--listen=127.0.0.1:0", f"--detector=wayward:{how}", "--workers=1")
        return start_program("central-server", "serve", *options, env=env)

    return start


async def test_objects_that_cannot_be_written(start_wayward: StartWayward, open_channel: OpenChannel) -> None:
    """Are an internal error of the frame, not the end of the call."""
    server = start_wayward("labels")
    call = detect_stream(open_channel(server.wait_for_line(r"^listening (\S+)$")[1]))
    for frame_id in range(3):
        answer = await ask(call, frame_id)
        assert (answer.outcome, len(answer.objects)) == (OUTCOME_INTERNAL_ERROR, 0)
        assert answer.detail == "the detector failed: UnicodeEncodeError"


async def test_frames_that_wait_for_a_detector_that_hangs(
    start_wayward: StartWayward, open_channel: OpenChannel
) -> None:
    """Are answered as stale when their time is over."""
    server = start_wayward("hangs")
    channel = open_channel(server.wait_for_line(r"^listening (\S+)$")[1])
    stuck, waiting = detect_stream(channel), detect_stream(channel)
    await stuck.write(DetectRequest(frame_id=1, image_data=b"any bytes"))
    await until(lambda: any("stream of camera" in line for line in server.errors), "a frame is in work")
    await waiting.write(DetectRequest(frame_id=2, image_data=b"any bytes", max_age_ms=100))
    answer = await waiting.read()

    assert (answer.frame_id, answer.outcome) == (2, OUTCOME_STALE)


async def test_a_detector_cannot_forge_a_line_of_the_log(
    start_wayward: StartWayward, open_channel: OpenChannel
) -> None:
    """A traceback is indented, and a terminal's commands are written out."""
    server = start_wayward("forges")
    call = detect_stream(open_channel(server.wait_for_line(r"^listening (\S+)$")[1]))
    await ask(call, 1)

    def forged() -> list[str]:
        return [line for line in server.errors if "2000-01-01" in line and "raise" not in line]

    await until(forged, "the reason is in the log")
    assert forged() == ["  2000-01-01 00:00:00,000 ERROR forged\\x1b[2J"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_the_detectors_load(start_wayward: StartWayward, how: signal.Signals) -> None:
    """Ends the server at once and without a word."""
    server = start_wayward("loads")
    server.wait_for_line("loading")
    server.signal(how)

    assert server.wait() == -how
    assert server.errors == []


async def test_told_twice_it_ends_once(start_server: StartServer) -> None:
    """A second signal does not disturb the drain."""
    server = start_server("--detector=simulated:1")
    server.signal(signal.SIGTERM)
    server.signal(signal.SIGTERM)

    assert_ended_quietly(server)
