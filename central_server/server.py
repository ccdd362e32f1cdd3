"""The server put together: detectors, engine, gRPC; from start to drain."""

import asyncio
import logging
import signal
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from central_server import wire
from central_server.control import ControlServicer
from central_server.counters import in_words
from central_server.detectors import registry
from central_server.detectors.detector import Detector, DetectorOptions
from central_server.dispatcher import Dispatcher
from central_server.engine import Engine
from central_server.errors import ListenError, OptionError
from central_server.image import ImageLimits
from central_server.listen import (
    Address,
    TlsFiles,
    check_free,
    check_protection,
    read_key_and_certificate,
)
from central_server.operator_socket import OperatorSocket
from central_server.records.servicer import TelemetryServicer
from central_server.records.store import Retention
from central_server.records.writer import RecordWriter
from central_server.servicer import DetectionServicer
from central_server.wishes import Wishes

log = logging.getLogger(__name__)

# In one in work and one waiting: a third would only supersede the second.
WINDOW = 2
# Agents that watch, beyond one for each camera: those that come back before the old call has ended.
SPARE_WATCHES = 16
# Health checks that stay open.
MAX_HEALTH_WATCHES = 32
# What none of the bounded calls can take is for health checks, and for telling others that they are refused.
SPARE_CALLS = 64
# A peer that has not shown by then that it speaks our language is cut.
HANDSHAKE_TIMEOUT_S = 10
# What remains of the drain's patience for closing connections after the calls have ended.
CLOSE_GRACE_S = 0.5
# How long after its time a frame may be answered as stale when no worker is free.
EXPIRY_S = 1.0


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `central-server serve` was told."""

    listen: Address
    detector: str
    workers: int
    detector_options: DetectorOptions = field(default_factory=DetectorOptions)
    min_score: float = 0.5
    max_streams: int = 256
    max_age_ms: int = 1000
    limits: ImageLimits = field(default_factory=ImageLimits)
    tls: TlsFiles | None = None
    insecure: bool = False
    drain_grace_s: float = 10.0
    control: Path | None = None
    data: Path | None = None
    """The directory for records; None keeps none."""
    retention: Retention = field(default_factory=Retention)


class Health(health.aio.HealthServicer):  # type: ignore[misc]
    """The health service, with a bound on the calls that stay open."""

    def __init__(self) -> None:
        super().__init__()
        self._watching = 0

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - gRPC's own name
        """Tell the status, and each change of it."""
        if self._watching >= MAX_HEALTH_WATCHES:
            detail = f"over capacity: {self._watching} health checks watch"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, detail)
        self._watching += 1
        try:
            await super().Watch(request, context)
        finally:
            self._watching -= 1


class Server:
    """The central server in one event loop.

    Lifecycle: `start` (raises for everything that is wrong with the options), then `drain`.
    """

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._health = Health()
        wishes = Wishes()
        self._control = ControlServicer(
            wishes, int(options.drain_grace_s * 1e3), options.max_streams + SPARE_WATCHES
        )
        self._operator = None if options.control is None else OperatorSocket(options.control, wishes)

    async def start(self) -> Address:
        """Load the detectors, listen, and say so to the health service.

        Returns:
            The address with its real port.

        Raises:
            OptionError, DetectorError, ListenError: in one line each.

        """
        options = self._options
        check_protection(options.listen, options.tls, options.insecure)
        check_free(options.listen)
        detectors = registry.load(options.detector, options.detector_options, options.workers)
        self._engine = Engine(detectors, options.limits)
        self._dispatcher = Dispatcher(self._engine, options.limits, options.max_age_ms)
        self._detection = DetectionServicer(
            self._dispatcher,
            self._facts(detectors[0]),
            detectors[0].labels,
            options.min_score,
            options.max_streams,
        )
        self._records = self._make_writer()
        self._telemetry = TelemetryServicer(self._records, options.max_streams)
        self._grpc = grpc.aio.server(
            options=channel_options(options),
            maximum_concurrent_rpcs=3 * options.max_streams
            + SPARE_WATCHES
            + MAX_HEALTH_WATCHES
            + SPARE_CALLS,
        )
        self._grpc.add_generic_rpc_handlers(
            (self._detection.handler(), self._control.handler(), self._telemetry.handler())
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        port = self._bind()
        if self._operator is not None:
            self._operator.bind()
        self._engine.start()
        if self._records is not None:
            self._records.start()
        self._expiry = asyncio.create_task(self._expire())
        await self._grpc.start()
        if self._operator is not None:
            await self._operator.start()
        await self._tell_health(health_pb2.HealthCheckResponse.SERVING)
        if options.insecure and not options.listen.is_loopback:
            log.warning(
                "plaintext beyond loopback: whoever is on the way can read and forge frames (--insecure)"
            )
        return Address(options.listen.host, port)

    async def drain(self) -> None:
        """Tell the agents, answer what was accepted, then close; bounded by the drain grace."""
        log.info("draining %d streams", self._detection.open_streams)
        await self._tell_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._control.drain()
        self._detection.drain()
        self._telemetry.drain()
        if not await self._detection.all_ended(self._options.drain_grace_s):
            log.warning("%d streams did not end in time and are cut", self._detection.open_streams)
        self._expiry.cancel()
        if self._operator is not None:
            await self._operator.close()
        await self._grpc.stop(CLOSE_GRACE_S)
        await self._detection.all_ended(CLOSE_GRACE_S)
        if self._records is not None and not await asyncio.to_thread(self._records.close):
            log.warning("the records' disk did not answer in time: what was not acknowledged comes again")
        self._engine.stop()
        await asyncio.to_thread(self._engine.join, CLOSE_GRACE_S)
        self._engine.close()
        log.info("stopped; frames: %s", in_words(self._dispatcher.counters.total()))

    def _make_writer(self) -> RecordWriter | None:
        data = self._options.data
        if data is None:
            return None
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"--data {data}: {error.strerror}") from error
        return RecordWriter(data, self._options.retention)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_S)
            self._dispatcher.expire()

    def _facts(self, detector: Detector) -> wire.Facts:
        return wire.Facts(
            version=version("camera-ai"),
            detector=detector.name,
            max_image_bytes=self._options.limits.max_bytes,
            max_image_pixels=self._options.limits.max_pixels,
            window=WINDOW,
            default_max_age_ms=self._options.max_age_ms,
            input_wh=detector.input_wh,
        )

    def _bind(self) -> int:
        address, tls = str(self._options.listen), self._options.tls
        try:
            if tls is None:
                return self._grpc.add_insecure_port(address)
            credentials = grpc.ssl_server_credentials([read_key_and_certificate(tls)])
            return self._grpc.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise ListenError(f"--listen {address}: {error}") from error

    async def _tell_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for service in ("", wire.DETECTION_SERVICE):
            await self._health.set(service, status)


def channel_options(options: ServeOptions) -> list[tuple[str, int]]:
    """Give gRPC's settings: limits, and keepalive as the agent's client expects it."""
    return [
        # A port in use is an error, not shared with whoever has it.
        ("grpc.so_reuseport", 0),
        # A message above the announced limit still gets its answer; above twice that gRPC ends the call.
        ("grpc.max_receive_message_length", max(2 * options.limits.max_bytes, wire.MAX_BATCH_BYTES)),
        # Identity only: a compressed message could expand a thousandfold before anybody looks at it.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_S * 1000),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ]


async def serve(options: ServeOptions) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP, then drain. Prints `listening HOST:PORT` once ready."""
    server = Server(options)
    address = await server.start()
    # Not before: while the detectors load nobody would look at what a handler notes.
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    print(f"listening {address}", flush=True)  # noqa: T201 - what scripts and tests wait for
    await stopping.wait()
    await server.drain()
