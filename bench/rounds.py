"""Rounds that alternate between Ganger and its peers, so that a slow minute of the machine falls on all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.work import NotMeasuredError, Values, Work


@dataclass(frozen=True, slots=True)
class Figure:
    """What one number says: whose it is, what was done, in which unit, and whether it was on disk when it counted."""

    key: str
    who: str
    what: str
    unit: str
    durable: bool = True


@dataclass(frozen=True, slots=True)
class Load:
    """Work to run once a round; it returns one value for each of its figures.

    `preparation` is run once before the first round, and `missing` says why the load cannot be run at all.
    """

    figures: tuple[Figure, ...]
    work: Work
    preparation: Work | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The samples of one figure in the order of the rounds, or the reason why there are none."""

    figure: Figure
    samples: tuple[float, ...] = ()
    missing: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclass(frozen=True, slots=True)
class Derived:
    """A figure that is made, round by round, out of others."""

    figure: Figure
    parts: tuple[str, ...]
    combine: Callable[[Sequence[float]], float]


Run = Callable[[Work], Values]
Tell = Callable[[str], None]


def take_rounds(loads: Sequence[Load], rounds: int, run: Run, tell: Tell) -> Mapping[str, Taken]:
    """Every load once a round, in reversed order every other round; one that fails is not run again."""
    taken = {figure.key: Taken(figure, missing=load.missing) for load in loads for figure in load.figures}
    _prepare(loads, taken, run, tell)
    for number in range(1, rounds + 1):
        for load in loads if number % 2 else reversed(loads):
            if taken[load.figures[0].key].missing is None:
                tell(f"round {number}/{rounds}: {load.figures[0].who}, {load.figures[0].what}")
                _run_once(load, taken, run)
    return taken


def _prepare(loads: Sequence[Load], taken: dict[str, Taken], run: Run, tell: Tell) -> None:
    """Run each preparation once, however many loads share its folder."""
    outcomes: dict[str | None, str | None] = {}
    for load in loads:
        if load.preparation is None or load.missing is not None:
            continue
        folder = load.preparation.kept
        if folder not in outcomes:
            tell(f"preparing {folder}")
            outcomes[folder] = _reason(load.preparation, run)
        _note_missing(load, outcomes[folder], taken)


def _reason(work: Work, run: Run) -> str | None:
    try:
        run(work)
    except NotMeasuredError as error:
        return str(error)
    return None


def _note_missing(load: Load, reason: str | None, taken: dict[str, Taken]) -> None:
    for figure in load.figures:
        taken[figure.key] = Taken(figure, missing=reason)


def _run_once(load: Load, taken: dict[str, Taken], run: Run) -> None:
    try:
        values = run(load.work)
    except NotMeasuredError as error:
        _note_missing(load, str(error), taken)
        return
    for figure, value in zip(load.figures, values, strict=True):
        taken[figure.key] = Taken(figure, (*taken[figure.key].samples, value))


def derive(derived: Derived, taken: Mapping[str, Taken]) -> Taken:
    """A figure without one of its parts is not measured either."""
    parts = [taken[key] for key in derived.parts]
    missing = next((part.missing for part in parts if part.missing is not None), None)
    if missing is not None:
        return Taken(derived.figure, missing=missing)
    rounds = zip(*(part.samples for part in parts), strict=True)
    return Taken(derived.figure, tuple(derived.combine(values) for values in rounds))
