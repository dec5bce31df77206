"""Ganger on a database server, beside those who live there too: goals 4 and 12."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.goals import Goal, Sense
from bench.peers.mongo_server import run_mongo
from bench.peers.postgres_server import run_server
from bench.peers.settings import (
    GangerSettings,
    MongoSettings,
    PgQueuerSettings,
    PostgresSettings,
    ProcrastinateSettings,
    RawMongoSettings,
)
from bench.place import Place
from bench.rounds import Figure, Load
from bench.suites.mongodb import QUICK_MONGO, MongoParts, MongoSizes
from bench.suites.suite import Suite, name_peer
from bench.work import NotMeasuredError, Work

_RATE, _MS = "tasks/s", "ms"
_BATCH = 100
_CHUNK = 1000
_PATIENCE = 3600.0
_GROWTH = "size after the run over the size after a third of it"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many tasks each load has. `deep` tasks are queued where the time of a claim is looked at."""

    drain: int = 60_000
    pgqueuer: int = 20_000
    procrastinate: int = 600
    bulk: int = 60_000
    shared: int = 40_000
    nodes: tuple[int, ...] = (1, 2, 4, 8)
    wakeups: int = 200
    shallow: int = 10_000
    deep: int = 500_000
    growth_rate: int = 1_000
    growth_minutes: float = 0.0


QUICK = Sizes(drain=15_000, pgqueuer=8_000, procrastinate=240, bulk=20_000, shared=8_000, wakeups=40, deep=50_000)


@contextmanager
def open_databases_suite(
    beside: Path, quick: bool, queued: int | None = None, growth: float | None = None
) -> Iterator[Suite]:
    sizes = QUICK if quick else Sizes()
    sizes = replace(sizes, deep=queued or sizes.deep, growth_minutes=growth or sizes.growth_minutes)
    socket, missing = "", None
    with ExitStack() as servers:
        try:
            socket = servers.enter_context(run_server(PostgresSettings(), beside))
        except NotMeasuredError as error:
            missing = str(error)
        mongo = _serve_mongo(servers, beside, QUICK_MONGO if quick else MongoSizes())
        yield databases_suite(sizes, socket, missing, mongo)


def _serve_mongo(servers: ExitStack, beside: Path, sizes: MongoSizes) -> MongoParts:
    try:
        return MongoParts(sizes, servers.enter_context(run_mongo(MongoSettings(), beside)), None)
    except NotMeasuredError as error:
        return MongoParts(sizes, "", str(error))


def databases_suite(sizes: Sizes, socket: str, missing: str | None = None, mongo: MongoParts | None = None) -> Suite:
    parts = Parts(sizes, socket, missing)
    other = () if mongo is None else tuple(mongo.loads())
    growth = tuple(parts.growth())
    return Suite(
        name="databases",
        settings=_settings(sizes),
        loads=(*parts.drains(), *parts.whole(), *parts.bulk(), *parts.crowds(), *parts.depths(), *growth, *other),
        goals=(*_goals(), *_growth_goals(bool(growth))),
    )


def _settings(sizes: Sizes) -> dict[str, Any]:
    return {
        "sizes": asdict(sizes),
        "Ganger": {**asdict(GangerSettings()), "store": "postgresql", "batch": _BATCH},
        "PgQueuer": asdict(PgQueuerSettings()),
        "Procrastinate": asdict(ProcrastinateSettings()),
        "PostgreSQL": dict(PostgresSettings().parameters),
        "MongoDB": dict(MongoSettings().options),
        "pymongo": asdict(RawMongoSettings()),
    }


@dataclass(frozen=True, slots=True)
class Parts:
    """The loads of the suite, in groups."""

    sizes: Sizes
    socket: str
    missing: str | None

    def drains(self) -> Iterator[Load]:
        """Worker and engine in one process, on both sides."""
        what = "drain of a full queue"
        ours = Figure("ganger.drain", "Ganger by 100", what, _RATE)
        yield self._load((ours,), "postgres:drain", tasks=self.sizes.drain, batch=_BATCH)
        theirs = Figure("pgqueuer.drain", _pgqueuer(), what, _RATE)
        settings = {"socket": self.socket, "tasks": self.sizes.pgqueuer, "settings": PgQueuerSettings()}
        yield Load((theirs,), Work("bench.peers.pgqueuer:drain", settings), missing=self.missing)

    def whole(self) -> Iterator[Load]:
        """Each with its own worker program, as its users run it."""
        entrants = (
            ("ganger_postgres", "Ganger, one slot", self.sizes.drain),
            ("pgqueuer", _pgqueuer(), self.sizes.pgqueuer),
            ("procrastinate", name_peer("procrastinate", "Procrastinate", "10 slots"), self.sizes.procrastinate),
        )
        for module, who, tasks in entrants:
            figure = Figure(f"{module}.worker", who, "drain by its worker program", _RATE)
            given = {"contender": module, "place": Place("", postgres=self.socket), "tasks": tasks}
            yield Load((figure,), Work("bench.field:drain", given, timeout=120.0), missing=self.missing)

    def bulk(self) -> Iterator[Load]:
        what = "submit in bulk"
        ours = Figure("ganger.submit_in_bulk", "Ganger", what, _RATE)
        yield self._load((ours,), "postgres:submit_in_bulk", tasks=self.sizes.bulk, chunk=_CHUNK)
        theirs = Figure("pgqueuer.enqueue", _pgqueuer(), what, _RATE)
        settings = {"socket": self.socket, "tasks": self.sizes.pgqueuer, "settings": PgQueuerSettings()}
        yield Load((theirs,), Work("bench.peers.pgqueuer:enqueue", settings), missing=self.missing)

    def crowds(self) -> Iterator[Load]:
        """One to many nodes on one database: what they do together, how even their shares are, how soon they wake."""
        for nodes in self.sizes.nodes:
            who, key = f"Ganger, {nodes} nodes" if nodes > 1 else "Ganger, 1 node", f"ganger.nodes.{nodes}"
            together = (
                Figure(f"{key}.rate", who, "drain together", _RATE),
                Figure(f"{key}.fair", who, "least share of a node over an even one", "ratio"),
            )
            yield self._load(together, "postgres:share", nodes=nodes, tasks=self.sizes.shared, batch=_BATCH)
            waking = tuple(
                Figure(f"{key}.wake.{part}", who, f"submit until an idle node has it, {part}", _MS)
                for part in ("p50", "p99")
            )
            yield self._load(waking, "postgres:time_wakeups", nodes=nodes, tasks=self.sizes.wakeups)

    def depths(self) -> Iterator[Load]:
        for name, depth in (("shallow", self.sizes.shallow), ("deep", self.sizes.deep)):
            for what in ("claim", "submit"):
                figure = Figure(f"ganger.{what}.{name}", f"Ganger, {depth:,} queued", f"a {what} of {_BATCH}", "s")
                yield self._load((figure,), f"postgres:time_{what}s", schema=name, depth=depth, batch=_BATCH)

    def growth(self) -> Iterator[Load]:
        if not self.sizes.growth_minutes:
            return
        who = f"Ganger, {self.sizes.growth_rate:,} tasks/s for {self.sizes.growth_minutes:g} minutes"
        figures = (
            Figure("ganger.growth", who, _GROWTH, "ratio"),
            Figure("ganger.growth.size", who, "tables and indexes at the end", "MB"),
            Figure("ganger.growth.rate", who, "tasks that were done", _RATE),
        )
        given = {"rate": self.sizes.growth_rate, "seconds": self.sizes.growth_minutes * 60}
        yield self._load(figures, "growth:grow", **given)

    def _load(self, figures: tuple[Figure, ...], target: str, **given: Any) -> Load:
        given = {"socket": self.socket, **given}
        preparation = None
        if "depth" in given:
            depth = given.pop("depth")
            shape = {"socket": self.socket, "schema": given["schema"], "depth": depth}
            preparation = Work("bench.databases.postgres:prepare_backlog", shape, given["schema"], _PATIENCE)
        return Load(figures, Work(f"bench.databases.{target}", given, timeout=_PATIENCE), preparation, self.missing)


def _pgqueuer() -> str:
    return name_peer("pgqueuer", "PgQueuer", f"batch {_BATCH}")


def _goals() -> Iterator[Goal]:
    yield Goal(4, "drain on PostgreSQL", "ganger.drain", "pgqueuer.drain", 2.0)
    for what in ("claim", "submit"):
        many, few = f"ganger.{what}.deep", f"ganger.{what}.shallow"
        yield Goal(12, f"a {what} on a deep queue of PostgreSQL", many, few, 1.5, Sense.AT_MOST)


def _growth_goals(measured: bool) -> Iterator[Goal]:
    if measured:
        yield Goal(12, _GROWTH, "ganger.growth", None, 1.1, Sense.AT_MOST)
