"""`true` as a command task beside `xargs -P` and GNU parallel: goal 7."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.goals import Goal
from bench.rounds import Figure, Load
from bench.suites.suite import Panel, Suite
from bench.work import Work

_WHAT = "the command true, 2 at once"
_RATE = "commands/s"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Enough that each takes about two seconds."""

    ganger: int = 1_500
    xargs: int = 1_500
    parallel: int = 400


QUICK = Sizes(300, 300, 100)


@contextmanager
def open_commands_suite(_beside: Path, quick: bool) -> Iterator[Suite]:
    yield commands_suite(QUICK if quick else Sizes())


def commands_suite(sizes: Sizes) -> Suite:
    rows = (("ganger", "Ganger, 2 slots", sizes.ganger), ("xargs", "xargs -P2", sizes.xargs))
    loads = [_load(name, who, tasks) for name, who, tasks in (*rows, ("parallel", "GNU parallel -j2", sizes.parallel))]
    return Suite(
        name="commands",
        settings={"commands": asdict(sizes)},
        loads=tuple(loads),
        goals=(
            Goal(7, _WHAT, "ganger.true", "parallel.true", 3.0),
            Goal(7, _WHAT, "ganger.true", "xargs.true", 0.65),
        ),
        panels=(Panel(_WHAT, "more", tuple(load.figures[0].key for load in loads)),),
    )


def _load(name: str, who: str, tasks: int) -> Load:
    figure = Figure(f"{name}.true", who, _WHAT, _RATE, durable=name == "ganger")
    return Load((figure,), Work(f"bench.commands:run_{name}", {"tasks": tasks}), missing=_missing(name))


def _missing(name: str) -> str | None:
    if name == "ganger" or shutil.which(name) is not None:
        return None
    return f"{name} is missing: install it (Debian: apt-get install {'findutils' if name == 'xargs' else name})"
