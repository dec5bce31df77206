"""The part of the suite of databases that is MongoDB's: Ganger beside plain pymongo that does the same claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.peers.settings import RawMongoSettings
from bench.rounds import Figure, Load
from bench.work import Work

_RATE, _MS = "tasks/s", "ms"
_BATCH = 100
_PATIENCE = 3600.0


@dataclass(frozen=True, slots=True)
class MongoSizes:
    """How many tasks each load has."""

    drain: int = 10_000
    raw: int = 1_000
    shared: int = 8_000
    nodes: tuple[int, ...] = (1, 2, 4, 8)
    wakeups: int = 100


QUICK_MONGO = MongoSizes(drain=3_000, raw=300, shared=2_000, wakeups=30)


@dataclass(frozen=True, slots=True)
class MongoParts:
    """The loads, in groups. `server` is its URL, `missing` says why there is none."""

    sizes: MongoSizes
    server: str
    missing: str | None

    def loads(self) -> Iterator[Load]:
        yield from self._drains()
        yield from self._crowds()

    def _drains(self) -> Iterator[Load]:
        what, tasks = "drain of a full queue on MongoDB", self.sizes.drain
        own = Figure("mongo.drain", "Ganger by 100", what, _RATE)
        yield self._load((own,), "bench.databases.mongo:drain", tasks=tasks, batch=_BATCH)
        shared = Figure("mongo.drain.shared", "Ganger by 100, beside strangers", what, _RATE)
        yield self._load((shared,), "bench.databases.mongo:drain", tasks=tasks, batch=_BATCH, shared=True)
        settings = RawMongoSettings()
        raw = Figure("mongo.drain.raw", f"pymongo, {settings.threads} threads", what, _RATE)
        yield self._load((raw,), "bench.peers.raw_mongo:drain", tasks=self.sizes.raw, settings=settings)

    def _crowds(self) -> Iterator[Load]:
        """One to many nodes on one database: what they do together, how even their shares are, how soon they wake."""
        for nodes in self.sizes.nodes:
            many = f"{nodes} nodes" if nodes > 1 else "1 node"
            ours = _crowd(f"mongo.nodes.{nodes}", f"Ganger, {many}")
            target, tasks = "bench.databases.mongo:share", self.sizes.shared
            yield self._load(ours, target, nodes=nodes, tasks=tasks, batch=_BATCH)
            theirs = _crowd(f"mongo.raw.{nodes}", f"pymongo, {many}")
            target, settings = "bench.peers.raw_mongo:share", RawMongoSettings()
            yield self._load(theirs, target, nodes=nodes, tasks=self.sizes.raw, settings=settings)
            yield self._load(
                _waking(nodes, many), "bench.databases.mongo:time_wakeups", nodes=nodes, tasks=self.sizes.wakeups
            )

    def _load(self, figures: tuple[Figure, ...], target: str, **given: Any) -> Load:
        work = Work(target, {"server": self.server, **given}, timeout=_PATIENCE)
        return Load(figures, work, missing=self.missing)


def _crowd(key: str, who: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{key}.rate", who, "drain together on MongoDB", _RATE),
        Figure(f"{key}.fair", who, "least share of a node on MongoDB over an even one", "ratio"),
    )


def _waking(nodes: int, many: str) -> tuple[Figure, ...]:
    said = "submit on MongoDB until an idle node has it"
    return tuple(
        Figure(f"mongo.nodes.{nodes}.wake.{part}", f"Ganger, {many}", f"{said}, {part}", _MS) for part in ("p50", "p99")
    )
