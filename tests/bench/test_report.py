"""Figures: ratios, targets, and what JSON gets of them."""

import json
import math

import pytest

from bench.report import Report, Target, in_words, ratio


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    target = ratio("cameras", [30, 36, 33], [30, 40, 22], ">=", 0.95)

    assert target.figure == pytest.approx(33 / 30)
    assert target.spread == pytest.approx((0.9, 1.5))
    assert target.holds


def test_a_ratio_to_nothing_meets_no_target() -> None:
    target = ratio("cameras", [30], [0], "<=", 2)

    assert math.isnan(target.figure)
    assert not target.holds


@pytest.mark.parametrize(
    ("figure", "side", "holds"),
    [(2.0, "<=", True), (2.01, "<=", False), (2.0, ">=", True), (1.99, ">=", False), (math.nan, ">=", False)],
)
def test_a_target_includes_its_bound(figure: float, side: str, holds: bool) -> None:
    target = Target("figure", figure, side, 2.0)  # type: ignore[arg-type]

    assert target.holds is holds
    assert ("holds" if holds else "falls short") in str(target)


@pytest.mark.parametrize(
    ("cell", "words"), [(127_814.3, "127,814"), (5.648, "5.65"), (0.0, "0"), (12, "12"), ("no", "no")]
)
def test_figures_in_words(cell: float | str, words: str) -> None:
    assert in_words(cell) == words


def test_json_has_null_where_there_is_no_number() -> None:
    report = Report("title", ("what", "figure"), runs=[{"latency_ms": [1.5, math.inf], 3: math.nan}])
    report.add("none", math.nan)
    report.targets.append(Target("figure", math.nan, "<=", 1))

    found = json.loads(json.dumps(report.to_json(), allow_nan=False))

    assert found["rows"] == [{"what": "none", "figure": None}]
    assert found["runs"] == [{"latency_ms": [1.5, None], "3": None}]
    assert (found["targets"][0]["figure"], found["targets"][0]["holds"]) == (None, False)


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="found 1 cells, expected 2"):
        Report("title", ("what", "figure")).add("alone")
