"""Urgent tasks that come one by one while every slot has a long one and a thousand more wait."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.field import summarise
from bench.real.site import Site, open_site
from bench.real.tasks import call_report

_SEED = 16
_LOOK = 0.002
_PATIENCE = 60.0


class Note(NamedTuple):
    """A body began or ended."""

    edge: str
    name: str
    at: float


def time_urgent(
    folder: Path, *, kind: str, socket: str, nodes: Sequence[int], waiting: int, length: float, urgent: int
) -> tuple[float, float]:
    """Milliseconds from the next end of any slot after an urgent task was acknowledged to its start: p50 and p99."""
    notes = folder / "notes"
    notes.touch()
    with open_site(folder, socket, nodes) as site:
        site.send([call_report(kind, notes, f"long-{number}", length) for number in range(waiting)])
        _await_begun(notes, sum(nodes), "long-")
        acknowledged = _submit_each(site, kind, notes, urgent, length)
        told = read_notes(notes.read_text())
    return summarise(find_lags(told, acknowledged))


def _submit_each(site: Site, kind: str, notes: Path, urgent: int, length: float) -> dict[str, float]:
    """Each at a moment that has nothing to do with the slots, and after the one before has begun."""
    random, acknowledged = Random(_SEED), dict[str, float]()
    for number in range(urgent):
        time.sleep(random.uniform(0, length))
        name = f"urgent-{number}"
        site.send([call_report(kind, notes, name, 0.0).using(priority=0)])
        acknowledged[name] = time.time()
        _await_begun(notes, 1, name)
    return acknowledged


def _await_begun(notes: Path, tasks: int, name: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while sum(line.startswith(f"begin {name}") for line in notes.read_text().splitlines()) < tasks:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not begin within {_PATIENCE:g} s")
        time.sleep(_LOOK)


def read_notes(text: str) -> list[Note]:
    """Whole lines alone: the last may be half written."""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [Note(edge, name, float(at)) for edge, name, at in map(str.split, lines)]


def find_lags(notes: Sequence[Note], acknowledged: Mapping[str, float]) -> list[float]:
    """For each urgent task the seconds from the moment at which a slot was free for it to its start.

    That is the first end of another behind its acknowledgement; or the acknowledgement, if it began before any ended.
    """
    begins = {note.name: note.at for note in notes if note.edge == "begin"}
    ends = [note for note in notes if note.edge == "end"]
    return [begins[name] - _find_free(name, moment, begins[name], ends) for name, moment in acknowledged.items()]


def _find_free(name: str, acknowledged: float, begun: float, ends: Sequence[Note]) -> float:
    behind = [end.at for end in ends if end.name != name and acknowledged < end.at <= begun]
    return min(behind, default=min(acknowledged, begun))
