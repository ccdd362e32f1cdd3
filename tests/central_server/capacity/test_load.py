"""The load generator against real servers: what it counts is what the server says it did."""

import contextlib
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest, DetectResponse

from central_server.capacity.load import LoadError, LoadResult, LoadSpec, run_load
from tests import pictures
from tests.conftest import ServerProgram, StartServer
from tests.polling import wait_until

METHOD = "/camera_ai.ObjectDetection/DetectStream"
CALM: dict[str, Any] = {"max_age_ms": 60_000, "payload_bytes": 1000}
# A frame goes out when the one before it is answered: none is superseded, however busy the machine is.
IN_TURN: dict[str, Any] = {**CALM, "window": 1}


def server_counts(server: ServerProgram) -> Counter[str]:
    """Drain a server and read from its log what became of all frames."""
    assert server.stop() == 0
    told = next(line for line in server.errors if "stopped; frames: " in line).split("frames: ")[1]
    return Counter({words: int(number) for words, number in re.findall(r"([a-z][a-z ]*) (\d+)", told)})


def connections(server: ServerProgram) -> int:
    """Count them at the server."""
    found = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(1 for each in found if each.status == psutil.CONN_ESTABLISHED)


@contextlib.contextmanager
def running(server: ServerProgram, spec: LoadSpec) -> Iterator[Future[LoadResult]]:
    """Run a load beside the block, which begins when the server has all connections."""
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(run_load, spec)
        wait_until(lambda: connections(server) == spec.cameras, "all cameras connect", 30)
        yield run


class Published:
    """A gRPC server with a DetectStream of the test's own, bytes in and bytes out."""

    def __init__(self, answer: Any) -> None:
        self._server = grpc.server(ThreadPoolExecutor(4))
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(answer)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("camera_ai.ObjectDetection", {"DetectStream": handler}),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self) -> "Published":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()


def test_every_frame_due_is_sent_and_counted(start_server: StartServer) -> None:
    """Three cameras, ten frames each: as many are due, sent, answered and, says the server, detected."""
    server = start_server("--detector=simulated:0")
    result = run_load(LoadSpec(server.address, cameras=3, fps=20, duration_s=0.5, **IN_TURN))

    assert result.due == result.sent == result.answered == result.detected == 30
    assert result.counts() == {"detected": 30}
    assert [result.counts(camera) for camera in range(3)] == [{"detected": 10}] * 3
    assert result.detected_of_cameras().tolist() == [10, 10, 10]
    assert len(result.latencies_ms) == 30
    assert 0 < result.p50_ms <= result.p99_ms <= result.slowest_ms == result.latencies_ms.max()
    assert not result.errors
    assert result.holds(60_000)
    assert not result.holds(result.slowest_ms - 1e-6)
    assert server_counts(server) == {"detected": 30}


def test_the_generator_tells_of_itself(start_server: StartServer) -> None:
    """How late it was itself, what waited for writes, and what processor time it took."""
    server = start_server("--detector=simulated:0")
    before_s = time.monotonic()
    result = run_load(LoadSpec(server.address, cameras=2, fps=50, duration_s=1, **IN_TURN))

    assert len(result.lag_ms) == len(result.backpressure_ms) == result.sent == 100
    assert (result.lag_ms >= 0).all()
    assert result.lag_ms.max() > 0
    assert (result.backpressure_ms >= -1e-6).all()
    assert (result.sent_s >= result.due_s).all()
    assert (result.answered_s > result.sent_s).all()
    assert 0 < result.processor_s < 10
    assert 0.9 < result.length_s < 10
    assert before_s < result.start_s < time.monotonic()
    # A tick each 10 ms of it, whatever else there was to do.
    assert 80 <= len(result.loop_lag_ms) <= result.length_s * 100 + 1
    assert (result.loop_lag_ms >= 0).all()
    told = result.summary()
    assert told["generator"]["loop_lag_ms"]["max"] == pytest.approx(result.loop_lag_ms.max())
    assert told["generator"]["lag_ms"]["max"] == pytest.approx(result.lag_ms.max())
    assert told["outcomes"] == {"detected": 100}


def test_cameras_may_start_in_bunches(start_server: StartServer) -> None:
    """Ten at an instant, the next ten a pause later: as the published measure did it."""
    server = start_server("--detector=simulated:0")
    result = run_load(
        LoadSpec(server.address, cameras=23, fps=10, duration_s=0.2, start_pause_ms=50, **IN_TURN)
    )

    first = result.due_s[np.unique(result.camera, return_index=True)[1]]
    assert first.tolist() == pytest.approx([0.0] * 10 + [0.05] * 10 + [0.1] * 3)
    assert result.detected == 46


def test_cameras_may_differ_in_their_rate(start_server: StartServer) -> None:
    """A slow one beside greedy ones; a camera has one frame at least."""
    server = start_server("--detector=simulated:0")
    result = run_load(
        LoadSpec(server.address, cameras=3, fps_of_camera=(0.2, 20, 40), duration_s=0.5, **IN_TURN)
    )

    assert result.detected_of_cameras().tolist() == [1, 10, 20]


def test_images_are_sent_as_they_are(tmp_path: Path, start_server: StartServer) -> None:
    """In turn: every second one is none, and the server says so."""
    files = (tmp_path / "whole.jpg", tmp_path / "none.jpg")
    files[0].write_bytes(pictures.jpeg())
    files[1].write_bytes(b"no picture")
    server = start_server("--workers=1", "--detector=coco-ssd")
    result = run_load(
        LoadSpec(
            server.address, cameras=2, fps=2, duration_s=2, images=files,
            max_age_ms=60_000, window=1, grace_s=30,
        )
    )  # fmt: skip

    assert [result.counts(camera) for camera in range(2)] == [{"detected": 2, "bad image": 2}] * 2
    assert result.outcome.tolist() == [1, 4, 1, 4, 4, 1, 4, 1]
    assert not result.holds(60_000)


def test_overload_is_counted_as_the_server_counts_it(start_server: StartServer) -> None:
    """Four times what one worker can do: most frames are superseded, each is answered."""
    server = start_server("--detector=simulated:20", "--workers=1")
    result = run_load(LoadSpec(server.address, cameras=4, fps=50, duration_s=1, **CALM))

    assert result.answered == 200
    assert result.counts()["superseded"] > 20
    assert not result.holds(60_000)
    assert len(result.latencies_ms) == result.detected
    assert result.counts() == server_counts(server)


def test_frames_too_old_are_stale(start_server: StartServer) -> None:
    """The maximum age is sent with each frame."""
    server = start_server("--detector=simulated:50", "--workers=1")
    result = run_load(
        LoadSpec(server.address, cameras=8, fps=5, duration_s=1, max_age_ms=20, payload_bytes=1000)
    )

    assert result.counts()["stale"] > 0
    assert result.counts() == server_counts(server)


def test_a_stalled_server_hides_nothing(start_server: StartServer) -> None:
    """Frames stay due while the server is frozen: the longest wait is nearly the whole of it."""
    server = start_server("--detector=simulated:0")
    with running(server, LoadSpec(server.address, cameras=2, fps=20, duration_s=3, **CALM)) as run:
        time.sleep(0.5)
        server.signal(signal.SIGSTOP)
        time.sleep(1.0)
        server.signal(signal.SIGCONT)
        result = run.result()

    assert result.answered == 120
    assert result.slowest_ms > 600
    # What was due in the middle of the freeze waited for its end, and so on: not one late answer, but many.
    late_s = result.answered_s - result.due_s
    assert (late_s > 0.3).sum() >= 10


def test_a_blocked_sender_is_backpressure_and_no_lag_of_its_own(start_server: StartServer) -> None:
    """A frozen server takes nothing: due frames wait in order, and still count from their instants."""
    server = start_server("--detector=simulated:0")
    spec = LoadSpec(
        server.address, cameras=1, fps=20, duration_s=4, payload_bytes=3_000_000,
        max_age_ms=60_000, grace_s=20,
    )  # fmt: skip
    with running(server, spec) as run:
        time.sleep(0.5)
        server.signal(signal.SIGSTOP)
        time.sleep(2.5)
        server.signal(signal.SIGCONT)
        result = run.result()

    assert result.answered == 80
    assert result.backpressure_ms.max() > 500
    # Without those for which the generator itself, on a busy machine, woke up late.
    waited = (result.sent_s - result.due_s > 0.2) & (result.lag_s <= 0.1)
    assert waited.sum() >= 5
    assert (result.lag_s[waited] == 0).all()
    assert ((result.answered_s - result.due_s)[waited] > 0.2).all()


def test_a_server_killed_in_the_middle_is_reported(start_server: StartServer) -> None:
    """Neither an exception nor a wait for the grace: every call says why, and the rest is unanswered."""
    server = start_server("--detector=simulated:0")
    spec = LoadSpec(server.address, cameras=3, fps=10, duration_s=60, grace_s=60, **CALM)
    with running(server, spec) as run:
        time.sleep(0.5)
        server.kill()
        result = run.result()

    assert set(result.errors) == {0, 1, 2}
    assert all(text.startswith("UNAVAILABLE: ") for text in result.errors.values())
    assert result.due == 1800
    assert result.unanswered == 1800 - result.answered > 1500
    assert result.counts()["unanswered"] == result.unanswered
    assert not result.holds(60_000)
    assert result.length_s < 50


def test_a_call_that_fails_after_its_last_answer_does_not_hold() -> None:
    """All frames were detected, and yet the server broke the call: that is no capacity."""

    def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for request in requests:
            frame_id = DetectRequest.FromString(request).frame_id
            yield DetectResponse(frame_id=frame_id, outcome=OUTCOME_DETECTED).SerializeToString()
        context.abort(grpc.StatusCode.INTERNAL, "broken")

    with Published(answer) as server:
        result = run_load(LoadSpec(server.address, cameras=1, fps=10, duration_s=0.5, **CALM))

    assert result.detected == result.due == 5
    assert result.errors == {0: "INTERNAL: broken"}
    assert not result.holds(60_000)
    assert result.why_not(60_000) == "the call of camera 1 of 1 ended: INTERNAL: broken"


def test_a_refused_call_says_why(start_server: StartServer) -> None:
    """One camera more than the server has places for."""
    server = start_server("--detector=simulated:0", "--max-streams=2")
    result = run_load(LoadSpec(server.address, cameras=3, fps=5, duration_s=1, **CALM))

    assert sorted(result.counts(camera)["detected"] for camera in range(3)) == [0, 5, 5]
    (refusal,) = result.errors.values()
    assert refusal.startswith("RESOURCE_EXHAUSTED: over capacity: ")


def test_no_answer_within_the_grace_is_no_answer(start_server: StartServer) -> None:
    """The run ends when it said it would, whatever the server does."""
    server = start_server("--detector=simulated:5000", "--workers=1")
    result = run_load(LoadSpec(server.address, cameras=1, fps=10, duration_s=0.1, grace_s=0.5, **CALM))

    assert (result.due, result.sent, result.answered) == (1, 1, 0)
    assert np.isnan(result.p99_ms)
    assert result.summary()["latency_ms"] == {"p50": None, "p99": None, "slowest": None}
    assert not result.holds(60_000)


def test_a_window_bounds_what_is_in_flight(start_server: StartServer) -> None:
    """With a window of one a frame goes out when the one before it is answered; the wait counts."""
    server = start_server("--detector=simulated:30", "--workers=1")
    result = run_load(LoadSpec(server.address, cameras=1, fps=100, duration_s=0.2, window=1, **CALM))

    assert result.counts() == {"detected": 20}
    assert (result.sent_s[1:] >= result.answered_s[:-1]).all()
    assert result.slowest_ms > 300
    assert result.backpressure_ms.max() > 300


def test_a_run_may_end_with_the_first_frame_that_fails(start_server: StartServer) -> None:
    """What was not due by then counts neither way."""
    server = start_server("--detector=simulated:200", "--workers=1")
    result = run_load(LoadSpec(server.address, cameras=1, fps=10, duration_s=60, give_up_ms=100, **CALM))

    assert result.gave_up
    assert result.due < 300
    assert (result.due_s <= result.length_s).all()
    assert not result.holds(60_000)


def test_results_can_be_cut_to_a_steady_window(start_server: StartServer) -> None:
    """By the instants at which frames were due."""
    server = start_server("--detector=simulated:0")
    result = run_load(LoadSpec(server.address, cameras=2, fps=10, duration_s=1, **IN_TURN))
    middle = result.between(0.25, 0.75)

    assert result.due == 20
    assert middle.due == middle.detected == 10
    assert middle.due_s.min() >= 0.25
    assert middle.due_s.max() < 0.75


def test_each_camera_has_a_connection_of_its_own(start_server: StartServer) -> None:
    """Counted at the server."""
    server = start_server("--detector=simulated:0")
    with running(server, LoadSpec(server.address, cameras=5, fps=10, duration_s=2, **IN_TURN)) as run:
        assert run.result().detected == 100


def test_a_server_of_the_published_messages_detects_by_its_objects() -> None:
    """It tells no outcome: an answer with objects is a detection, one without is counted as what it is."""

    def answer(requests: Iterator[bytes], _context: object) -> Iterator[bytes]:
        for request in requests:
            frame_id = DetectRequest.FromString(request).frame_id
            response = DetectResponse(frame_id=frame_id)
            if frame_id % 2:
                response.objects.add(label="person")
            yield response.SerializeToString()

    with Published(answer) as server:
        result = run_load(LoadSpec(server.address, cameras=2, fps=10, duration_s=1, **CALM))

    assert result.counts() == {"detected": 10, "outcome 0": 10}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([b"\xff\xff"], "no DetectResponse"),
        ([DetectResponse(frame_id=99, outcome=OUTCOME_DETECTED).SerializeToString()], "frame 99"),
        ([DetectResponse(frame_id=1, outcome=OUTCOME_DETECTED).SerializeToString()] * 2, "frame 1,"),
        ([DetectResponse(outcome=OUTCOME_DETECTED).SerializeToString()], "frame 0,"),
        ([], "ended the call with 5 frames unanswered"),
    ],
    ids=["nonsense", "a frame that was not sent", "a frame twice", "without a number", "nothing"],
)
def test_a_server_that_breaks_the_contract_is_found_out(answers: list[bytes], words: str) -> None:
    """The call's error says what came."""

    def answer(requests: Iterator[bytes], _context: object) -> Iterator[bytes]:
        next(requests)
        yield from answers

    with Published(answer) as server:
        result = run_load(LoadSpec(server.address, cameras=1, fps=10, duration_s=0.5, **CALM))

    assert words in result.errors[0]
    assert not result.holds(60_000)


def test_an_unreachable_server_is_an_error_in_one_line() -> None:
    """With the address and how long it was tried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(LoadError, match=rf"^{address}: found no server within 0.5 s for 2 connections$"):
        run_load(LoadSpec(address, cameras=2, connect_timeout_s=0.5))


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Before anything is connected."""
    with pytest.raises(LoadError, match=r"missing\.jpg: cannot be read: No such file"):
        run_load(LoadSpec("127.0.0.1:1", cameras=1, images=(tmp_path / "missing.jpg",)))


def test_an_interrupted_run_leaves_no_process(start_server: StartServer) -> None:
    """The generator ends with its caller's wait."""
    server = start_server("--detector=simulated:0")
    before = {child.pid for child in psutil.Process().children()}
    main = threading.get_ident()
    timer = threading.Timer(1.5, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), contextlib.suppress(LoadError):
        run_load(LoadSpec(server.address, cameras=1, duration_s=60, **CALM))

    assert {child.pid for child in psutil.Process().children()} == before
