"""Goals and how a run is judged by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from bench.rounds import Taken


class Sense(Enum):
    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Goal:
    """The median of `ours` over the median of `beside`, or alone where there is nothing beside it."""

    number: int
    what: str
    ours: str
    beside: str | None
    want: float
    sense: Sense = Sense.AT_LEAST
    unit: str = "ratio"


@dataclass(frozen=True, slots=True)
class Verdict:
    goal: Goal
    beside: str
    value: float | None
    samples: tuple[Mapping[str, float], ...]
    missing: str | None = None

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        if self.goal.sense is Sense.AT_LEAST:
            return self.value >= self.goal.want
        return self.value <= self.goal.want


def judge(goal: Goal, taken: Mapping[str, Taken]) -> Verdict:
    """A verdict for every goal: one that could not be measured has no value and is not met."""
    ours = taken[goal.ours]
    beside = taken[goal.beside] if goal.beside is not None else None
    whose = beside.figure.who if beside is not None else "a limit"
    missing = ours.missing or (beside.missing if beside is not None else None)
    if missing is not None:
        return Verdict(goal, whose, None, (), missing)
    if beside is None:
        return Verdict(goal, whose, ours.median, tuple({"ganger": value} for value in ours.samples))
    pairs = zip(ours.samples, beside.samples, strict=True)
    samples = tuple({"ganger": mine, "beside": theirs} for mine, theirs in pairs)
    return Verdict(goal, whose, ours.median / beside.median, samples)
