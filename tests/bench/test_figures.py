"""What is made of a load's frames: the slowest answer, the share of each stream, a p99 that moved."""

import math
import os
from typing import Any

import numpy as np
import pytest

from bench import overload
from bench.peers import Disturbed
from bench.servers import capacity
from bench.servers.capacity import Capacities
from bench.servers.run import errors_in_words, slowest_ms, summed_up
from bench.servers.variants import (
    ASYNC_CPP,
    ASYNC_CPP_DOUBLE,
    CENTRAL,
    CENTRAL_DOUBLE,
    VARIANTS,
    Work,
    chosen,
)
from bench.usage import Usage
from central_server.capacity.load import LoadResult
from central_server.capacity.load_result import UNANSWERED
from central_server.frame import Outcome

NEVER = math.nan


def load_result(*frames: tuple[int, float, float, int], length_s: float = 10.0, **facts: Any) -> LoadResult:
    """Make a result of (camera, due_s, answered_s, outcome)."""
    camera, due_s, answered_s, outcome = (np.array(column) for column in zip(*frames, strict=True))
    return LoadResult(
        cameras=int(camera.max()) + 1,
        camera=camera.astype(np.int32),
        due_s=due_s.astype(float),
        lag_s=np.zeros(len(frames)),
        sent_s=due_s.astype(float),
        answered_s=answered_s.astype(float),
        outcome=outcome.astype(np.int8),
        length_s=length_s,
        **facts,
    )


def test_the_slowest_counts_what_was_never_answered() -> None:
    """A frame without an answer has waited until the end, and no figure is better for it."""
    answered = (0, 1.0, 1.05, Outcome.DETECTED)

    assert slowest_ms(load_result(answered)) == pytest.approx(50)
    assert slowest_ms(load_result(answered, (0, 8.0, NEVER, UNANSWERED))) == pytest.approx(2000)
    assert slowest_ms(load_result((0, 8.0, NEVER, UNANSWERED))) == pytest.approx(2000)


def test_a_run_holds_only_if_every_frame_was_detected_in_time() -> None:
    def holds(*frames: tuple[int, float, float, int]) -> bool:
        return summed_up(CENTRAL, load_result(*frames), 1.0, Usage(os.getpid())).holds

    in_time = (0, 1.0, 1.09, Outcome.DETECTED)
    assert holds(in_time)
    assert not holds(in_time, (0, 2.0, 2.11, Outcome.DETECTED))
    assert not holds(in_time, (0, 2.0, 2.01, Outcome.SUPERSEDED))
    assert not holds(in_time, (0, 2.0, NEVER, UNANSWERED))


def test_runs_are_kept_by_variant_and_level() -> None:
    capacities = Capacities(duration_s=10)
    for answered_s in (1.02, 1.5):
        result = load_result((0, 1.0, answered_s, Outcome.DETECTED))
        capacities.runs.append(summed_up(CENTRAL, result, 1.0, Usage(os.getpid())))

    assert capacities.slowest_ms(CENTRAL.name) == {1: pytest.approx([20, 500])}
    assert capacities.levels(CENTRAL.name) == {1: True}
    assert capacities.slowest_ms("another") == {}


def test_a_p99_that_moved_is_told_for_all_and_for_the_worst_camera() -> None:
    def disturbed(*answered_s: float) -> Disturbed:
        frames = [(camera, 1.0, at_s, Outcome.DETECTED) for camera, at_s in enumerate(answered_s)]
        return Disturbed(load_result(*frames), share=0.1)

    of_all, of_worst = disturbed(1.02, 1.05).moved_ms(disturbed(1.01, 1.06))

    assert of_all == pytest.approx(-10)
    assert of_worst == pytest.approx(10)


def test_a_frame_that_was_not_detected_moves_p99_without_bound() -> None:
    lost = Disturbed(load_result((0, 1.0, 1.01, Outcome.SUPERSEDED)), 0.1)
    fine = Disturbed(load_result((0, 1.0, 1.01, Outcome.DETECTED)), 0.1)

    assert lost.moved_ms(fine) == (math.inf, math.inf)
    assert np.isnan(fine.moved_ms(lost)).all(), "a control run that lost frames is none"


def test_fairness_is_the_most_over_the_least() -> None:
    detected = (1.0, 1.01, Outcome.DETECTED)

    assert overload._unfairness(load_result((0, *detected), (0, *detected), (1, *detected))) == 2
    assert overload._unfairness(load_result((0, *detected), (1, 1.0, 1.01, Outcome.STALE))) == math.inf


def test_variants_are_chosen_by_name() -> None:
    assert chosen(None) == VARIANTS
    assert [variant.name for variant in chosen("central, sync-python")] == ["sync-python", "central"]
    with pytest.raises(ValueError, match="found fast, expected some of sync-python"):
        chosen("central,fast")


def test_the_work_is_told_to_each_kind_of_server() -> None:
    assert Work(5).detector == "simulated:5"
    assert Work(2.5, by_wall_clock=True).detector == "simulated:2.5,wall"
    assert Work(2.5, by_wall_clock=True).control_options == ("--work-ms", "2.5", "--spin", "wall")


def test_the_curve_says_which_frames_it_leaves_out() -> None:
    """A server that drops has a slowest answer that flatters it: the share that it detected stands beside."""
    capacities = Capacities(duration_s=10)
    detected, superseded = (0, 1.0, 1.02, Outcome.DETECTED), (1, 1.0, 1.02, Outcome.SUPERSEDED)
    for result in (load_result(detected), load_result(detected, superseded)):
        capacities.runs.append(summed_up(CENTRAL, result, 1.0, Usage(os.getpid())))

    assert capacities.shares_detected(CENTRAL.name) == {2: 0.5}
    assert "2: 50.0%" in capacity.curve(capacities, VARIANTS).notes[-1]


def test_a_run_whose_calls_ended_does_not_hold_and_says_why() -> None:
    result = load_result((0, 1.0, 1.02, Outcome.DETECTED), errors={0: "INTERNAL: it broke"})
    found = summed_up(CENTRAL, result, 1.0, Usage(os.getpid()))

    assert not found.holds
    assert errors_in_words([found]) == ["calls to central ended: INTERNAL: it broke (in runs of 1 cameras)"]


def test_a_run_that_gave_up_is_only_known_to_be_late() -> None:
    """Its first late frame ended it: the slowest is told by runs that went on, and by none of them `late`."""
    capacities = Capacities(duration_s=10)

    def ran(*answered_s: float, gave_up: bool) -> None:
        for at_s in answered_s:
            result = load_result((0, 1.0, at_s, Outcome.DETECTED), gave_up=gave_up)
            capacities.runs.append(summed_up(CENTRAL, result, 1.0, Usage(os.getpid())))

    ran(1.2, 1.3, gave_up=True)
    assert capacities.curve_ms(CENTRAL.name) == {1: math.inf}
    assert capacity.curve(capacities, [CENTRAL]).rows == [(1, "late")]

    ran(1.4, gave_up=False)
    assert capacities.curve_ms(CENTRAL.name) == {1: pytest.approx(400)}

    ran(1.01, 1.02, 1.03, gave_up=False)
    assert capacities.curve_ms(CENTRAL.name) == {1: pytest.approx((30 + 400) / 2)}


def test_like_is_compared_with_like_and_the_better_with_the_better() -> None:
    rounds = {
        CENTRAL.name: [33, 33, 33],
        CENTRAL_DOUBLE.name: [32, 31, 32],
        ASYNC_CPP.name: [30, 31, 30],
        ASYNC_CPP_DOUBLE.name: [33, 35, 36],
    }
    targets = capacity._ratios(rounds)

    assert [target.figure for target in targets] == pytest.approx([33 / 30, 32 / 35, 33 / 35])
    assert targets[-1].what == f"capacity, {CENTRAL.title} / {ASYNC_CPP_DOUBLE.title}"
    assert not targets[-1].holds


def test_a_ratio_wants_both() -> None:
    assert capacity._ratios({CENTRAL.name: [33, 33, 33]}) == []
