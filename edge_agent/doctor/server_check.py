"""Whether the central server can be reached, is who it should be, and takes what the cameras ask for."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from urllib.parse import unquote

import grpc

from edge_agent import wire
from edge_agent.config import AgentConfig, CameraConfig, ServerConfig
from edge_agent.config.address import channel_security, split_host_port
from edge_agent.connection import CHANNEL_OPTIONS, credentials
from edge_agent.doctor.finding import Finding, note, ok, problem
from edge_agent.doctor.network_check import CONNECT_TIMEOUT_S, check_route, connect, resolve
from edge_agent.errors import ConfigError, one_line

SUBJECT = "server"
CALL_TIMEOUT_S = 5.0
HEALTH = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"
EXPIRES_SOON_DAYS = 21
MOST_ASKED = 20

# OpenSSL's reasons (X509_verify_cert_error_string(3)), in words and with what to do.
IN_WORDS = {
    10: ("its certificate has expired", "renew the server's certificate"),
    9: (
        "its certificate is not valid yet: the clock of this gateway or of its issuer is wrong",
        "see the clock above",
    ),
    62: (
        "its certificate is for another name",
        "give the address that the certificate carries, or renew it with this one",
    ),
    64: ("its certificate is for another address", "renew it with this address among its names"),
    23: ("its certificate is revoked", "renew the server's certificate"),
}
UNKNOWN_AUTHORITY = (
    "its certificate is signed by an authority that is not trusted here",
    "edge-agent set-server HOST:PORT --ca FILE, with the authority that signed it",
)


def check_server(config: AgentConfig, cameras: list[CameraConfig]) -> Iterator[Finding]:
    """Look at the server, one stage after the other: what fails ends it."""
    server = config.server
    if server is None:
        yield problem(SUBJECT, "none is set", "edge-agent set-server HOST:PORT")
        return
    host, port = split_host_port(server.address)
    yield from check_route(host)
    findings, addresses = resolve(SUBJECT, host, port or 0)
    yield from findings
    if not addresses:
        return
    reached, connection = connect(SUBJECT, host, port or 0, "the central server")
    yield reached
    if connection is None:
        return
    with connection:
        security = list(_security(server, host, connection))
    yield from security
    if any(finding.level == "problem" for finding in security):
        return
    yield from _calls(server, cameras)


def _security(server: ServerConfig, host: str, connection: socket.socket) -> Iterator[Finding]:
    if channel_security(server) == "plaintext":
        return
    try:
        context = ssl.create_default_context(cafile=server.ca)
    except (OSError, ssl.SSLError):
        yield problem(
            SUBJECT, f"{server.ca}: no file of authorities", "edge-agent set-server HOST:PORT --ca FILE"
        )
        return
    context.set_alpn_protocols(["h2"])
    connection.settimeout(CONNECT_TIMEOUT_S)
    try:
        with context.wrap_socket(connection, server_hostname=host) as secured:
            yield _expiry(secured)
    except ssl.SSLCertVerificationError as error:
        found, advice = IN_WORDS.get(error.verify_code, UNKNOWN_AUTHORITY)
        yield problem(SUBJECT, f"TLS: {found}", advice)
    except (ssl.SSLError, TimeoutError, ConnectionError):
        yield problem(
            SUBJECT,
            "TLS: it does not speak it",
            "start it with --tls-certificate and --tls-key, or set-server --insecure where that is meant",
        )


def _expiry(secured: ssl.SSLSocket) -> Finding:
    certificate = secured.getpeercert() or {}
    until_s = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    left_days = (until_s - datetime.now(UTC).timestamp()) / 86_400
    until = datetime.fromtimestamp(until_s, UTC).date().isoformat()
    if left_days < EXPIRES_SOON_DAYS:
        return note(SUBJECT, f"TLS: its certificate expires on {until}", "renew the server's certificate")
    return ok(SUBJECT, f"TLS: its certificate is good until {until}")


def _calls(server: ServerConfig, cameras: list[CameraConfig]) -> Iterator[Finding]:
    try:
        secure = credentials(server)
    except ConfigError as error:
        yield problem(SUBJECT, str(error), "edge-agent set-server HOST:PORT --ca FILE")
        return
    if secure is None:
        made = grpc.insecure_channel(server.address, CHANNEL_OPTIONS)
    else:
        made = grpc.secure_channel(server.address, secure, CHANNEL_OPTIONS)
    with made as channel:
        yield _health(channel)
        asked: dict[tuple[str, ...], str] = {}
        for camera in cameras:
            asked.setdefault(camera.labels, camera.name)
        asked = dict(list(asked.items())[:MOST_ASKED]) or {(): ""}
        told_version = False
        for labels, name in asked.items():
            finding, facts = _asked_for(channel, labels, name)
            yield from finding
            if facts is not None and not told_version:
                told_version = True
                yield _facts(facts)


def _health(channel: grpc.Channel) -> Finding:
    try:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)
        answer = method(b"", timeout=CALL_TIMEOUT_S)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return ok(SUBJECT, "answers calls; it tells nothing of its health")
        return problem(SUBJECT, f"answers no call: {_reason(error)}", "see the server's log")
    if answer == SERVING:
        return ok(SUBJECT, "takes frames")
    return problem(SUBJECT, "takes no frames at present: it drains, or its workers are dead", "see its log")


def _asked_for(
    channel: grpc.Channel, labels: tuple[str, ...], name: str
) -> tuple[list[Finding], wire.Facts | None]:
    """Open a stream as a camera would, without a frame."""
    camera = CameraConfig(name=name or "doctor", url="", labels=labels)
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(wire.DETECT_STREAM)
    call = method(iter(()), metadata=wire.build_wanted(camera), timeout=CALL_TIMEOUT_S)
    try:
        facts = wire.parse_facts([(key, value) for key, value in call.initial_metadata()])
        for _ in call:
            break
    except grpc.RpcError as error:
        reason = _reason(error)
        if error.code() is grpc.StatusCode.INVALID_ARGUMENT and name:
            advice = f"edge-agent set-camera {name} --label one that it knows"
            return [problem(f"camera {name}", f"the server refuses its labels: {reason}", advice)], None
        return [problem(SUBJECT, f"takes no stream: {reason}", "see the server's log")], None
    return [], facts


def _facts(facts: wire.Facts) -> Finding:
    own = version("camera-ai")
    detector = f"detector {one_line(unquote(facts.detector)) or 'unknown'}"
    size = f", model input {facts.input_wh[0]} x {facts.input_wh[1]} px" if facts.input_wh else ""
    if facts.version and facts.version.split(".")[:2] != own.split(".")[:2]:
        return note(
            SUBJECT, f"{detector}{size}; version {facts.version}, this agent is {own}", "upgrade the older"
        )
    return ok(SUBJECT, f"{detector}{size}; version {facts.version or 'not told'}")


def _reason(error: grpc.RpcError) -> str:
    return one_line(error.details() or error.code().name)
