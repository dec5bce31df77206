"""A goal is judged by medians, and one without a value is never met."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.goals import Goal, Sense, judge
from bench.rounds import Figure, Taken


def taken_of(**samples: tuple[float, ...] | str) -> Mapping[str, Taken]:
    return {key: take(key, values) for key, values in samples.items()}


def take(key: str, values: tuple[float, ...] | str) -> Taken:
    figure = Figure(key, f"who of {key}", "what", "tasks/s")
    return Taken(figure, missing=values) if isinstance(values, str) else Taken(figure, values)


def test_the_value_is_the_ratio_of_the_medians() -> None:
    verdict = judge(Goal(1, "x", "ours", "peer", 4.0), taken_of(ours=(40.0, 50.0, 90.0), peer=(10.0, 11.0, 5.0)))
    assert verdict.value == 5.0
    assert verdict.met
    assert verdict.beside == "who of peer"


def test_the_raw_samples_are_kept_in_pairs() -> None:
    verdict = judge(Goal(1, "x", "ours", "peer", 4.0), taken_of(ours=(40.0, 50.0), peer=(10.0, 11.0)))
    assert verdict.samples == ({"ganger": 40.0, "beside": 10.0}, {"ganger": 50.0, "beside": 11.0})


@pytest.mark.parametrize(
    ("sense", "value", "met"),
    [
        (Sense.AT_LEAST, 1.49, False),
        (Sense.AT_LEAST, 1.5, True),
        (Sense.AT_MOST, 1.5, True),
        (Sense.AT_MOST, 1.51, False),
    ],
)
def test_a_goal_is_met_on_its_side_of_the_line(sense: Sense, value: float, met: bool) -> None:
    assert judge(Goal(1, "x", "ours", "peer", 1.5, sense), taken_of(ours=(value,), peer=(1.0,))).met is met


@pytest.mark.parametrize("absent", ["ours", "peer"])
def test_a_goal_without_one_of_its_sides_is_not_measured_and_not_met(absent: str) -> None:
    both: dict[str, tuple[float, ...] | str] = {"ours": (1.0,), "peer": (1.0,), absent: "install it"}
    verdict = judge(Goal(1, "x", "ours", "peer", 0.0), taken_of(**both))
    assert verdict.value is None
    assert verdict.missing == "install it"
    assert not verdict.met


def test_a_limit_is_judged_by_our_figure_alone() -> None:
    goal = Goal(12, "memory", "ours", None, 200.0, Sense.AT_MOST, "MB")
    verdict = judge(goal, taken_of(ours=(150.0, 160.0, 400.0)))
    assert verdict.value == 160.0
    assert verdict.met
    assert verdict.beside == "a limit"
