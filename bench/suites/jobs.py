"""Jobs through websocket workers, beside the same frames without jobs: goal 9."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.goals import Goal
from bench.rounds import Figure, Load
from bench.suites.suite import Suite
from bench.work import Work

_RATE = "jobs/s"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Enough that each load takes about a second or more."""

    jobs: int = 5_000
    echoes: int = 20_000
    workers: int = 8
    idle: int = 500


QUICK = Sizes(jobs=1_000, echoes=5_000, idle=200)


@contextmanager
def open_jobs_suite(beside: Path, quick: bool) -> Iterator[Suite]:
    yield jobs_suite(QUICK if quick else Sizes())


def jobs_suite(sizes: Sizes) -> Suite:
    return Suite(
        name="jobs",
        settings={
            "sizes": asdict(sizes),
            "client": {"processes": 1, "payload": "1 KiB in, 1 KiB out"},
            "Ganger": {"server": "ganger server", "store": "sqlite"},
        },
        loads=(*_rates(sizes), _idle(sizes)),
        goals=(Goal(9, "jobs through websocket workers", "ganger.jobs", "frames.echo", 0.25),),
    )


def _rates(sizes: Sizes) -> Iterator[Load]:
    who = f"{sizes.workers} workers"
    given = {"workers": sizes.workers}
    jobs = Figure("ganger.jobs", f"Ganger, {who}", "jobs of 1 KiB, results of 1 KiB", _RATE)
    yield Load((jobs,), Work("bench.jobs.rates:solve", {**given, "jobs": sizes.jobs}))
    echo = Figure("frames.echo", f"the same websockets, {who}", "the same frames without jobs", _RATE, durable=False)
    yield Load((echo,), Work("bench.jobs.rates:echo", {**given, "jobs": sizes.echoes}))


def _idle(sizes: Sizes) -> Load:
    who = f"Ganger with {sizes.idle} idle workers"
    figures = (
        Figure("ganger.jobs.idle.memory", who, "memory of each", "KB"),
        Figure("ganger.jobs.idle.cpu", who, "share of a core, all together", "%"),
    )
    return Load(figures, Work("bench.jobs.rates:keep_idle", {"workers": sizes.idle}))
