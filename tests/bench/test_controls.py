"""The control servers keep the wire, and do the work that they are told."""

import time
from collections.abc import Iterator
from typing import Any

import grpc
import psutil
import pytest
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest

from bench import programs
from bench.answers import check_published
from bench.controls.spin import spin_cpu, spin_wall
from bench.programs import Started
from tests.conftest import StartServer
from tests.polling import wait_until

CONTROLS = {
    "sync": ("bench.controls.sync_server",),
    "asyncio": ("bench.controls.asyncio_server",),
    "processes": ("bench.controls.processes", "--processes", "2"),
}
FRAMES = 25
PAYLOAD = bytes(60_000)


def start(name: str, *options: str) -> Started:
    """Start a control."""
    return programs.module(r"^listening (\S+:\d+)$", *CONTROLS[name], *options)


@pytest.fixture(params=CONTROLS)
def control(request: pytest.FixtureRequest) -> Iterator[Started]:
    """Run each control once."""
    with start(request.param, "--work-ms", "1") as started:
        yield started


def detect(channel: grpc.Channel, frame_ids: list[int]) -> list[Any]:
    """Send frames on one call, half-close, and give all answers."""
    stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
    requests = (DetectRequest(frame_id=frame_id, image_data=PAYLOAD) for frame_id in frame_ids)
    return list(stub.DetectStream(requests, timeout=60))


def test_every_frame_is_answered_once_with_the_published_object(control: Started) -> None:
    frame_ids = list(range(1000, 1000 + FRAMES))
    with grpc.insecure_channel(control.said) as channel:
        answers = detect(channel, frame_ids)

    assert [answer.frame_id for answer in answers] == frame_ids
    for answer in answers:
        assert answer.outcome == OUTCOME_DETECTED
        [found] = answer.objects
        assert (found.label, found.confidence) == ("person", pytest.approx(0.9))
        box = found.bbox
        assert (box.x, box.y, box.width, box.height) == (100, 100, 50, 200)


def test_several_calls_at_once_are_all_answered(control: Started) -> None:
    with grpc.insecure_channel(control.said) as channel:
        stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
        calls = [
            stub.DetectStream(iter([DetectRequest(frame_id=n, image_data=PAYLOAD)]), timeout=60)
            for n in range(15)
        ]
        answers = [list(call) for call in calls]

    assert [[answer.frame_id for answer in of_call] for of_call in answers] == [[n] for n in range(15)]


def test_a_control_ends_with_all_of_its_processes() -> None:
    for name in CONTROLS:
        with start(name, "--work-ms", "0") as started:
            processes = [
                psutil.Process(started.process.pid),
                *psutil.Process(started.process.pid).children(),
            ]
            assert len(processes) == (3 if name == "processes" else 1)
        wait_until(lambda: not any(process.is_running() for process in processes), f"{name} has ended")  # noqa: B023
        assert started.process.returncode == 0


def test_connections_are_dealt_to_all_processes() -> None:
    """Forty connections to two processes: that one has them all is as likely as forty equal coins."""
    with start("processes", "--work-ms", "0") as started:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.insecure_channel(started.said, options) for _ in range(40)]
        for channel in channels:
            assert len(detect(channel, [1])) == 1
        workers = psutil.Process(started.process.pid).children()
        connections = [
            sum(one.status == psutil.CONN_ESTABLISHED for one in worker.net_connections())
            for worker in workers
        ]
        for channel in channels:
            channel.close()

    assert len(workers) == 2
    assert sum(connections) == 40
    assert min(connections) > 0


@pytest.mark.parametrize("name", ["sync", "asyncio"])
def test_the_work_is_processor_time_of_the_server(name: str) -> None:
    """A hundred frames of 5 ms take at least half a second of it, however the machine is."""
    with start(name, "--work-ms", "5") as started:
        before_s = started.processor_s()
        with grpc.insecure_channel(started.said) as channel:
            detect(channel, list(range(100)))
        used_s = started.processor_s() - before_s

    assert used_s >= 0.5


def test_spins_last_as_long_as_they_are_told() -> None:
    before_s = time.thread_time()
    spin_cpu(20)
    assert time.thread_time() - before_s >= 0.020

    before_s = time.perf_counter()
    spin_wall(20)
    assert time.perf_counter() - before_s >= 0.020


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--work-ms", "-1"), "expected milliseconds of work from 0 to 60000"),
        (("--work-ms", "nan"), "expected milliseconds of work from 0 to 60000"),
        (("--spin", "fast"), "invalid choice: 'fast'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: tuple[str, ...], expected: str) -> None:
    with pytest.raises(RuntimeError, match=expected):
        start("asyncio", *options)


def test_the_check_before_each_run_tells_servers_apart(start_server: StartServer) -> None:
    """The central server's simulated detector passes; a model, which sees no picture, does not."""
    check_published(start_server("--detector=simulated:0").address)
    with pytest.raises(RuntimeError, match="expected frame_id"):
        check_published(start_server("--workers=1").address)
