"""The outcome of a run as one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.goals import Verdict
from bench.rounds import Taken
from bench.suites.suite import Panel


@dataclass(frozen=True, slots=True)
class Outcome:
    suite: str
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    figures: Sequence[Taken]
    verdicts: Sequence[Verdict]
    panels: Sequence[Panel] = ()
    quick: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """Each reason why something was not measured, once."""
        return tuple(dict.fromkeys(taken.missing for taken in self.figures if taken.missing is not None))


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "suite": outcome.suite,
        "quick": outcome.quick,
        "machine": dict(outcome.machine),
        "settings": dict(outcome.settings),
        "goals": [_describe_verdict(verdict) for verdict in outcome.verdicts],
        "figures": [_describe_figure(taken) for taken in outcome.figures],
        "panels": [asdict(panel) for panel in outcome.panels],
    }


def _describe_verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "goal": verdict.goal.number,
        "what": verdict.goal.what,
        "value": verdict.value,
        "want": verdict.goal.want,
        "sense": verdict.goal.sense.value,
        "unit": verdict.goal.unit,
        "met": verdict.met,
        "beside": verdict.beside,
        "samples": [dict(sample) for sample in verdict.samples],
        "missing": verdict.missing,
    }


def _describe_figure(taken: Taken) -> dict[str, Any]:
    return {
        "key": taken.figure.key,
        "who": taken.figure.who,
        "what": taken.figure.what,
        "median": taken.median if taken.samples else None,
        "unit": taken.figure.unit,
        "durable": taken.figure.durable,
        "samples": list(taken.samples),
        "missing": taken.missing,
    }


def write_json(outcome: Outcome, destination: str) -> None:
    """Write the object to a file, or to standard output for `-`."""
    text = json.dumps(describe_outcome(outcome), indent=2) + "\n"
    if destination == "-":
        sys.stdout.write(text)
    else:
        Path(destination).write_text(text)
