"""Jobs through websocket workers, beside the same frames without jobs: goal 9."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.goals import Goal, Sense
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
    large: int = 1 << 30


QUICK = Sizes(jobs=1_000, echoes=5_000, idle=200, large=64 << 20)


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
        loads=(*_rates(sizes), _idle(sizes), *_large(sizes)),
        goals=tuple(_goals()),
    )


def _goals() -> Iterator[Goal]:
    most = Sense.AT_MOST
    yield Goal(9, "jobs through websocket workers", "ganger.jobs", "frames.echo", 0.2)
    yield Goal(9, "memory of an idle worker", "ganger.jobs.idle.memory", None, 30.0, most, "KB")
    yield Goal(9, "a large job to a worker and its result back", "ganger.jobs.large", "files.plain", 0.5)
    yield Goal(9, "memory that a large job takes", "ganger.jobs.large.memory", None, 64.0, most, "MB")


def _rates(sizes: Sizes) -> Iterator[Load]:
    who = f"{sizes.workers} workers"
    given = {"workers": sizes.workers}
    jobs = Figure("ganger.jobs", f"Ganger, {who}", "jobs of 1 KiB, results of 1 KiB", _RATE)
    yield Load((jobs,), Work("bench.jobs.rates:solve", {**given, "jobs": sizes.jobs}))
    echo = Figure("frames.echo", f"the same websockets, {who}", "the same frames without jobs", _RATE, durable=False)
    yield Load((echo,), Work("bench.jobs.rates:echo", {**given, "jobs": sizes.echoes}))


def _large(sizes: Sizes) -> Iterator[Load]:
    what, unit = f"{sizes.large >> 20} MiB up, to a worker, back and down", "MB/s"
    figures = (
        Figure("ganger.jobs.large", "Ganger, one large job", what, unit),
        Figure("ganger.jobs.large.memory", "Ganger, one large job", "growth of the server", "MB"),
    )
    yield Load(figures, Work("bench.jobs.large:carry", {"size": sizes.large}))
    plain = Figure("files.plain", "a plain file server", "the same bytes up, down, up and down", unit)
    yield Load((plain,), Work("bench.jobs.large:copy_files", {"size": sizes.large}))


def _idle(sizes: Sizes) -> Load:
    who = f"Ganger with {sizes.idle} idle workers"
    figures = (
        Figure("ganger.jobs.idle.memory", who, "memory of each", "KB"),
        Figure("ganger.jobs.idle.cpu", who, "share of a core, all together", "%"),
    )
    return Load(figures, Work("bench.jobs.rates:keep_idle", {"workers": sizes.idle}))
