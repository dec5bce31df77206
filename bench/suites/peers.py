"""Whole systems side by side, each with its own worker process: goals 1, 2, 3, 5, 7 and 14."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench.goals import Goal, Sense
from bench.peers import settings
from bench.peers.postgres_server import run_server
from bench.peers.redis_server import run_redis
from bench.place import Place
from bench.rounds import Derived, Figure, Load
from bench.suites.commands import open_commands_suite
from bench.suites.suite import Panel, Suite, name_peer
from bench.work import NotMeasuredError, Work

Server = Literal["redis", "postgres"]

_RATE, _MS = "tasks/s", "ms"
_PRODUCERS = (1, 8)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A contender: its module, how it is called, and how many tasks take about a second each way."""

    module: str
    package: str
    title: str
    manner: str
    drain: int = 0
    single: int = 0
    bulk: int = 0
    server: Server | None = None
    durable: bool = True

    @property
    def who(self) -> str:
        return name_peer(self.package, self.title, self.manner)


ENTRANTS = (
    Entrant("ganger", "ganger", "Ganger", "SQLite", 60_000, 4_800, bulk=60_000),
    Entrant("pgqueuer", "pgqueuer", "PgQueuer", "batch 100", 16_000, 2_400, bulk=16_000, server="postgres"),
    Entrant("huey_sqlite", "huey", "Huey", "SQLite FULL", 4_000, 2_400),
    Entrant("procrastinate", "procrastinate", "Procrastinate", "10 slots", 600, 480, bulk=600, server="postgres"),
    Entrant("huey_redis", "huey", "Huey", "Redis", 5_000, 3_200, server="redis", durable=False),
    Entrant("dramatiq", "dramatiq", "Dramatiq", "Redis", 4_000, 2_400, server="redis", durable=False),
    Entrant("taskiq", "taskiq", "taskiq", "Redis", 4_000, 2_400, server="redis", durable=False),
    Entrant("celery", "celery", "Celery", "Redis", 1_600, 1_200, server="redis", durable=False),
    Entrant("rq", "rq", "RQ", "Redis", 400, 400, bulk=400, server="redis", durable=False),
)

_GANGER = ENTRANTS[0]


@dataclass(frozen=True, slots=True)
class Sizes:
    """`share` of each entrant's number of tasks; the others are counted as they are."""

    share: float = 1.0
    latency: int = 400
    startups: int = 15
    syncs: int = 300


QUICK = Sizes(share=0.2, latency=80, startups=5, syncs=100)


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers are, and for each that is not there what to install."""

    place: Place
    missing: Mapping[Server, str]

    def lacks(self, server: Server | None) -> str | None:
        """Why what needs that server cannot be measured."""
        return None if server is None else self.missing.get(server)


def open_servers(stack: ExitStack, beside: Path) -> Servers:
    """Redis and PostgreSQL, as far as they are installed, until the stack is left."""
    found, missing = Place(""), dict[Server, str]()
    try:
        found = replace(found, redis=stack.enter_context(run_redis(settings.RedisSettings(), beside)))
    except NotMeasuredError as error:
        missing["redis"] = str(error)
    try:
        found = replace(found, postgres=stack.enter_context(run_server(settings.PostgresSettings(), beside)))
    except NotMeasuredError as error:
        missing["postgres"] = str(error)
    return Servers(found, missing)


@contextmanager
def open_peers_suite(beside: Path, quick: bool) -> Iterator[Suite]:
    with ExitStack() as stack:
        suite = peers_suite(QUICK if quick else Sizes(), open_servers(stack, beside))
        yield join(suite, stack.enter_context(open_commands_suite(beside, quick)))


def join(suite: Suite, other: Suite) -> Suite:
    """One run of both; the settings of each are told under their names."""
    return Suite(
        name=suite.name,
        settings={**other.settings, **suite.settings},
        loads=(*suite.loads, *other.loads),
        goals=tuple(sorted((*suite.goals, *other.goals), key=lambda goal: goal.number)),
        derived=(*suite.derived, *other.derived),
        panels=(*suite.panels, *other.panels),
    )


def peers_suite(sizes: Sizes, servers: Servers) -> Suite:
    return Suite(
        name="peers",
        settings=_settings(sizes),
        loads=tuple(_loads(sizes, servers)),
        goals=tuple(_goals()),
        derived=(_best_with_syncs(),),
        panels=tuple(_panels()),
    )


def _settings(sizes: Sizes) -> dict[str, Any]:
    return {
        "sizes": asdict(sizes),
        "Ganger": asdict(settings.GangerSettings()),
        "PgQueuer": asdict(settings.PgQueuerSettings()),
        "Procrastinate": asdict(settings.ProcrastinateSettings()),
        "PostgreSQL": dict(settings.PostgresSettings().parameters),
        "Huey SQLite": asdict(settings.HueySettings()),
        "Huey Redis": asdict(settings.HueyRedisSettings()),
        "Dramatiq": asdict(settings.DramatiqSettings()),
        "taskiq": asdict(settings.TaskiqSettings()),
        "Celery": asdict(settings.CelerySettings()),
        "RQ": asdict(settings.RqSettings()),
        "Redis": dict(settings.RedisSettings().parameters),
        "raw SQLite": asdict(settings.RawSettings()),
    }


def _loads(sizes: Sizes, servers: Servers) -> Iterator[Load]:
    """Row by row, so that Ganger and its peers take turns."""
    for entrant in ENTRANTS:
        yield _rate(entrant, "drain", "drain of a full queue", servers, "drain", tasks=_size(entrant.drain, sizes))
    for entrant in _bulky():
        size = _size(entrant.bulk, sizes)
        yield _rate(entrant, "bulk", "end to end in bulk", servers, "run_in_bulk", tasks=size)
    for count in _PRODUCERS:
        what = f"end to end one by one, {_say_producers(count)}"
        for entrant in ENTRANTS:
            shape = {"tasks": _size(entrant.single, sizes), "producers": count}
            yield _rate(entrant, f"run.{count}", what, servers, "run_one_by_one", **shape)
    yield from _latency_loads(sizes, servers)
    yield _startup_load(sizes)


def _bulky() -> Sequence[Entrant]:
    return [entrant for entrant in ENTRANTS if entrant.bulk]


def _size(tasks: int, sizes: Sizes) -> int:
    """A share that eight producers can divide."""
    return max(int(tasks * sizes.share) // 8, 1) * 8


def _say_producers(count: int) -> str:
    return "1 producer" if count == 1 else f"{count} producers"


def _rate(entrant: Entrant, row: str, what: str, servers: Servers, function: str, **shape: int) -> Load:
    figure = Figure(f"{entrant.module}.{row}", entrant.who, what, _RATE, entrant.durable)
    return Load((figure,), _work(entrant, servers, function, **shape), missing=servers.lacks(entrant.server))


def _work(entrant: Entrant, servers: Servers, function: str, **shape: int) -> Work:
    return Work(
        f"bench.field:{function}", {"contender": entrant.module, "place": servers.place, **shape}, timeout=120.0
    )


def _latency_loads(sizes: Sizes, servers: Servers) -> Iterator[Load]:
    for entrant in ENTRANTS:
        work = _work(entrant, servers, "time_latency", tasks=sizes.latency)
        yield Load(
            _latencies(entrant.module, entrant.who, entrant.durable), work, missing=servers.lacks(entrant.server)
        )
    shape = {"tasks": sizes.latency, "settings": settings.RawSettings()}
    yield Load(_latencies("raw", "two raw commits + wake-up", True), Work("bench.peers.raw_wakeup:time_wakeup", shape))
    sync = Figure("raw.sync", "the disk", "one append made durable", _MS)
    yield Load((sync,), Work("bench.peers.raw_wakeup:time_syncs", {"times": sizes.syncs}))


def _latencies(key: str, who: str, durable: bool) -> tuple[Figure, ...]:
    what = "submit until the body starts"
    return tuple(Figure(f"{key}.latency.{part}", who, f"{what}, {part}", _MS, durable) for part in ("p50", "p99"))


def _startup_load(sizes: Sizes) -> Load:
    figures = (
        Figure("python.pass", "python -c pass", "from start to end", _MS),
        Figure("ganger.import", "import ganger", "from start to end", _MS),
        Figure("ganger.ls", "ganger ls", "from start to end", _MS),
    )
    return Load(figures, Work("bench.startup:time_startups", {"times": sizes.startups}))


def _best_with_syncs() -> Derived:
    """The best p50 of those that sync nothing, and two syncs."""
    who, what = "best peer that is not durable + 2 syncs", "submit until the body starts, p50"
    peers = tuple(f"{entrant.module}.latency.p50" for entrant in ENTRANTS if not entrant.durable)
    return Derived(Figure("best.latency.p50", who, what, _MS), ("raw.sync", *peers), _add_two_syncs)


def _add_two_syncs(values: Sequence[float]) -> float:
    sync, *peers = values
    return min(peers) + 2 * sync


def _goals() -> Iterator[Goal]:
    drain, single, least = "drain of a full queue of no-op functions", "end to end one by one", Sense.AT_MOST
    yield Goal(1, drain, "ganger.drain", "pgqueuer.drain", 4.0)
    yield Goal(1, drain, "ganger.drain", "huey_sqlite.drain", 12.0)
    yield Goal(2, "end to end in bulk", "ganger.bulk", "pgqueuer.bulk", 3.0)
    yield Goal(3, f"{single}, 1 producer process", "ganger.run.1", "huey_sqlite.run.1", 1.5)
    yield Goal(3, f"{single}, 8 producer processes", "ganger.run.8", "huey_sqlite.run.8", 3.5)
    yield Goal(5, "submit until the body starts, p50", "ganger.latency.p50", "best.latency.p50", 1.3, least)
    yield Goal(5, "submit until the body starts, p99", "ganger.latency.p99", "raw.latency.p99", 3.0, least)
    yield Goal(14, "import ganger", "ganger.import", "python.pass", 4.0, least)
    yield Goal(14, "ganger ls", "ganger.ls", "python.pass", 10.0, least)


def _panels() -> Iterator[Panel]:
    everyone = [entrant.module for entrant in ENTRANTS]
    yield Panel("drain of a full queue", "more", tuple(f"{name}.drain" for name in everyone))
    yield Panel("end to end in bulk", "more", tuple(f"{entrant.module}.bulk" for entrant in _bulky()))
    for count in _PRODUCERS:
        what = f"end to end one by one, {_say_producers(count)}"
        yield Panel(what, "more", tuple(f"{name}.run.{count}" for name in everyone))
    timed = [*everyone, "raw"]
    upper = {f"{name}.latency.p50": f"{name}.latency.p99" for name in timed}
    yield Panel("submit until the body starts, p50 and p99", "less", tuple(upper), upper)
