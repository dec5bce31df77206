"""Tasks that take a while: shared by two nodes, urgent among long ones, in bursts beside peers: goals 15 to 18."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.goals import Goal, Sense
from bench.peers import settings
from bench.real.bursts import Mix
from bench.real.times import MEDIAN, SPREAD
from bench.rounds import Figure, Load
from bench.suites.peers import Entrant, Server, Servers, open_servers
from bench.suites.suite import Suite
from bench.work import Work

_NODES = (2, 2)
_ALONE = (4,)
_WORKERS = 8
_KINDS = {"function": "functions", "command": "commands"}
_STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_PARTS = ("p50", "p99")
ENTRANTS = (
    Entrant("ganger", "ganger", "Ganger", "SQLite"),
    Entrant("huey_sqlite", "huey", "Huey", "SQLite FULL"),
    Entrant("dramatiq", "dramatiq", "Dramatiq", "Redis", server="redis", durable=False),
    Entrant("pgqueuer", "pgqueuer", "PgQueuer", "PostgreSQL", server="postgres"),
    Entrant("ganger_postgres", "ganger", "Ganger", "PostgreSQL", server="postgres"),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """`tasks` with run times up to `longest` are shared; `urgent` ones come while `waiting` of `length` wait."""

    tasks: int = 200
    longest: float = 5.0
    waiting: int = 1_000
    length: float = 0.2
    urgent: int = 40
    mix: Mix = field(default_factory=Mix)


QUICK = Sizes(tasks=60, longest=1.0, urgent=8, mix=Mix(seconds=1.5, burst=200, at=(0.5,)))


@contextmanager
def open_real_suite(beside: Path, quick: bool) -> Iterator[Suite]:
    with ExitStack() as stack:
        yield real_suite(QUICK if quick else Sizes(), open_servers(stack, beside))


def real_suite(sizes: Sizes, servers: Servers) -> Suite:
    parts = Parts(sizes, servers)
    return Suite(
        name="real",
        settings=_settings(sizes),
        loads=(*parts.shared(), *parts.urgent(), *parts.bursts()),
        goals=(*_sharing_goals(), *_urgent_goals(), *_cost_goals(), *_burst_goals()),
    )


def _settings(sizes: Sizes) -> dict[str, Any]:
    return {
        "sizes": asdict(sizes),
        "run times": {"distribution": "log-normal", "median": MEDIAN, "spread": SPREAD, "longest": sizes.longest},
        "nodes": {"slots": _NODES, "undisturbed": _ALONE},
        "bytes": {"SQLite": "write_bytes of the nodes in /proc", "PostgreSQL": "growth of its log"},
        "workers of each": {"at once": _WORKERS},
        "Huey": {**asdict(settings.HueySettings()), "workers": _WORKERS},
        "PgQueuer": {
            **asdict(settings.PgQueuerSettings()),
            "batch_size": _WORKERS // 2,
            "max_concurrent_tasks": _WORKERS,
        },
        "Dramatiq": {**asdict(settings.DramatiqSettings()), "threads": _WORKERS},
        "PostgreSQL": dict(settings.PostgresSettings().parameters),
        "Redis": dict(settings.RedisSettings().parameters),
    }


@dataclass(frozen=True, slots=True)
class Parts:
    """The loads of the suite, in groups."""

    sizes: Sizes
    servers: Servers

    def shared(self) -> Iterator[Load]:
        """On two nodes; and undisturbed, on one with as many slots, half as many of the same distribution."""
        for store, kind in _cases():
            for whose, nodes, tasks in (("ganger", _NODES, self.sizes.tasks), ("alone", _ALONE, self.sizes.tasks // 2)):
                shape = {"tasks": tasks, "longest": self.sizes.longest}
                key, who = f"{whose}.{store}.{kind}", _name(store, nodes)
                what = f"{tasks} {_KINDS[kind]} of very different lengths"
                figures = (
                    Figure(f"{key}.makespan", who, what, "s"),
                    Figure(f"{key}.schedule", "a greedy schedule of the same times", what, "s"),
                    Figure(f"{key}.claims", who, f"{what}, claims", "per task"),
                    Figure(f"{key}.written", who, f"{what}, written", "KB/task"),
                )
                yield self._load(figures, "sharing:share", store, kind=kind, nodes=nodes, **shape)

    def urgent(self) -> Iterator[Load]:
        shape = {"waiting": self.sizes.waiting, "length": self.sizes.length, "urgent": self.sizes.urgent}
        for store, kind in _cases():
            what = f"an urgent one among {self.sizes.waiting:,} {_KINDS[kind]}: a slot is free until it starts"
            figures = tuple(
                Figure(f"ganger.{store}.{kind}.urgent.{part}", _name(store, _NODES), f"{what}, {part}", "ms")
                for part in _PARTS
            )
            yield self._load(figures, "urgent:time_urgent", store, kind=kind, nodes=_NODES, **shape)

    def _load(self, figures: tuple[Figure, ...], target: str, store: str, **given: Any) -> Load:
        server: Server | None = "postgres" if store == "postgres" else None
        socket = "" if server is None else self.servers.place.postgres
        work = Work(f"bench.real.{target}", {"socket": socket, **given})
        return Load(figures, work, missing=self.servers.lacks(server))

    def bursts(self) -> Iterator[Load]:
        """Whole systems, each with as many workers."""
        mix, place = self.sizes.mix, replace(self.servers.place, workers=_WORKERS)
        what = f"{mix.rate}/s of 20 ms with bursts of {mix.burst:,}: due until its start"
        for each in ENTRANTS:
            figures = tuple(
                Figure(f"{each.module}.burst.{part}", each.who, f"{what}, {part}", "ms", each.durable)
                for part in _PARTS
            )
            work = Work("bench.real.bursts:time_bursts", {"contender": each.module, "place": place, "mix": mix})
            yield Load(figures, work, missing=self.servers.lacks(each.server))


def _cases() -> Iterator[tuple[str, str]]:
    return ((store, kind) for store in _STORES for kind in _KINDS)


def _name(store: str, nodes: tuple[int, ...]) -> str:
    return f"Ganger, {_STORES[store]}, {' + '.join(map(str, nodes))} slots"


def _sharing_goals() -> Iterator[Goal]:
    for store, kind in _cases():
        key, what = f"ganger.{store}.{kind}", f"two nodes share {_KINDS[kind]}, {_STORES[store]}"
        yield Goal(15, what, f"{key}.makespan", f"{key}.schedule", 1.10, Sense.AT_MOST)


def _urgent_goals() -> Iterator[Goal]:
    for store, kind in _cases():
        what = f"an urgent one among long {_KINDS[kind]}, {_STORES[store]}, p99"
        yield Goal(16, what, f"ganger.{store}.{kind}.urgent.p99", None, 50.0, Sense.AT_MOST, "ms")


def _cost_goals() -> Iterator[Goal]:
    for store, kind in _cases():
        key, where = f"{store}.{kind}", f"{_KINDS[kind]}, {_STORES[store]}"
        yield Goal(17, f"claims, {where}", f"ganger.{key}.claims", None, 1.05, Sense.AT_MOST, "per task")
        yield Goal(17, f"written, {where}", f"ganger.{key}.written", f"alone.{key}.written", 1.3, Sense.AT_MOST)


def _burst_goals() -> Iterator[Goal]:
    """Each store beside the peer that keeps tasks likewise, and both beside the one that keeps them in memory."""
    pairs = (("ganger", "huey_sqlite"), ("ganger", "dramatiq"), ("ganger_postgres", "pgqueuer"))
    for ours, theirs in (*pairs, ("ganger_postgres", "dramatiq")):
        store = _STORES["sqlite" if ours == "ganger" else "postgres"]
        what = f"bursts on a steady load, {store}, p99"
        yield Goal(18, what, f"{ours}.burst.p99", f"{theirs}.burst.p99", 1.0, Sense.AT_MOST)
