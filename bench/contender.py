"""THE CONTRACT of `bench.contenders`: a task system as its users run it, a worker process and processes that submit.

Each module there is imported by the worker and by the producers of one load, finds the load's place in the environment,
and has a `CONTENDER`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

Body = Literal["note", "stamp"]

CHUNK = 1000
"""How many tasks a submit in bulk takes at a time."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Contender:
    """`submit(body, turns)` submits one task a turn, acknowledged before it asks for the next turn.

    `worker` is the command line of the system's own worker. `prepare` is called once, before anything else, and leaves
    the queue installed and empty. `submit_in_bulk(tasks)` is there where the system has a call for it. `fill(tasks)`
    submits `note` as fast as it can, not measured. `has_settled(tasks)`, where it is there, tells that so many are
    recorded as done on disk: then a load ends with that, and not with the last body. `send(batches)` submits a `work`
    of each moment in a batch, in one call where the system has one for many, before it asks for the next batch.
    """

    worker: Sequence[str]
    submit: Callable[[Body, Iterable[object]], None]
    prepare: Callable[[], None] = _nothing
    submit_in_bulk: Callable[[int], None] | None = None
    has_settled: Callable[[int], bool] | None = None
    send: Callable[[Iterable[Sequence[float]]], None] | None = None

    def fill(self, tasks: int) -> None:
        if self.submit_in_bulk is None:
            self.submit("note", range(tasks))
        else:
            self.submit_in_bulk(tasks)


def find_contender(name: str) -> Contender:
    contender: Contender = import_module(f"bench.contenders.{name}").CONTENDER
    return contender


def python(module: str, *arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", module, *arguments)


def chunks(tasks: int) -> Iterable[int]:
    return (min(CHUNK, tasks - first) for first in range(0, tasks, CHUNK))


def script(name: str) -> str:
    """A program that was installed beside this Python."""
    return str(Path(sys.executable).with_name(name))
