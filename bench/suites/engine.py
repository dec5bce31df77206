"""The engine by itself with a no-op worker in the process: goals 1, 2, 3, 6, 12 and 13."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from bench.goals import Goal, Sense
from bench.peers.postgres_server import run_server
from bench.peers.settings import HueySettings, PgQueuerSettings, PostgresSettings, RawSettings
from bench.rounds import Figure, Load
from bench.subject import Backlog, GraphShape
from bench.suites.suite import Suite, name_peer
from bench.work import NotMeasuredError, Work

_BATCH = 100
_CHUNK = 1000
_GROWTH_TIMEOUT = 3600.0
_RATE = "tasks/s"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many tasks each load has; enough that each takes about a second or more."""

    ganger_bulk: int = 200_000
    ganger_single: int = 16_000
    huey: int = 8_000
    pgqueuer: int = 40_000
    raw: int = 200_000
    shallow: int = 10_000
    deep: int = 10_000_000
    ahead: int = 1_000_000
    graph: int = 1_000_000
    small_graph: int = 10_000


QUICK = Sizes(
    ganger_bulk=40_000,
    ganger_single=4_000,
    huey=2_400,
    pgqueuer=15_000,
    raw=40_000,
    deep=500_000,
    ahead=100_000,
    graph=100_000,
)


@contextmanager
def open_engine_suite(beside: Path, quick: bool) -> Iterator[Suite]:
    sizes = QUICK if quick else Sizes()
    socket, missing = None, None
    with ExitStack() as servers:
        try:
            socket = servers.enter_context(run_server(PostgresSettings(), beside))
        except NotMeasuredError as error:
            missing = str(error)
        yield engine_suite(sizes, socket, missing)


def engine_suite(sizes: Sizes, socket: str | None, missing: str | None = None) -> Suite:
    return Suite(
        name="engine",
        settings=_settings(sizes),
        loads=(
            *_drain_loads(sizes, socket, missing),
            *_bulk_loads(sizes, socket, missing),
            *_single_loads(sizes),
            *_raw_loads(sizes),
            *_growth_loads(sizes),
            *_graph_loads(sizes),
        ),
        goals=(*_side_by_side_goals(), *_growth_goals(), *_graph_goals()),
    )


def _settings(sizes: Sizes) -> dict[str, Any]:
    return {
        "sizes": asdict(sizes),
        "Huey": asdict(HueySettings()),
        "PgQueuer": asdict(PgQueuerSettings()),
        "PostgreSQL": dict(PostgresSettings().parameters),
        "raw SQLite": asdict(RawSettings()),
    }


def _ganger(key: str, what: str, unit: str = _RATE) -> Figure:
    return Figure(f"ganger.{key}", "Ganger", what, unit)


def _huey(key: str, what: str) -> Figure:
    return Figure(f"huey.{key}", name_peer("huey", "Huey", "SQLite FULL"), what, _RATE)


def _pgqueuer(key: str, what: str) -> Figure:
    return Figure(f"pgqueuer.{key}", name_peer("pgqueuer", "PgQueuer", f"batch {_BATCH}"), what, _RATE)


def _ganger_load(figure: Figure, function: str, **arguments: Any) -> Load:
    return Load((figure,), Work(f"bench.ganger_engine:{function}", arguments))


def _huey_load(figure: Figure, function: str, **arguments: Any) -> Load:
    return Load((figure,), Work(f"bench.peers.huey:{function}", {**arguments, "settings": HueySettings()}))


def _pgqueuer_load(figure: Figure, function: str, tasks: int, socket: str | None, missing: str | None) -> Load:
    arguments: Mapping[str, Any] = {"socket": socket, "tasks": tasks, "settings": PgQueuerSettings()}
    return Load((figure,), Work(f"bench.peers.pgqueuer:{function}", arguments), missing=missing)


def _drain_loads(sizes: Sizes, socket: str | None, missing: str | None) -> Iterator[Load]:
    what = "drain of a full queue"
    yield _ganger_load(_ganger("drain.100", f"{what}, by 100"), "drain", tasks=sizes.ganger_bulk, batch=100)
    yield _pgqueuer_load(_pgqueuer("drain", what), "drain", sizes.pgqueuer, socket, missing)
    yield _huey_load(_huey("drain", what), "drain", tasks=sizes.huey)
    yield _ganger_load(_ganger("drain.10", f"{what}, by 10"), "drain", tasks=sizes.ganger_bulk // 4, batch=10)
    yield _ganger_load(_ganger("drain.1", f"{what}, by 1"), "drain", tasks=sizes.ganger_single, batch=1)


def _bulk_loads(sizes: Sizes, socket: str | None, missing: str | None) -> Iterator[Load]:
    run, submit = "end to end in bulk", "submit in bulk"
    size = {"tasks": sizes.ganger_bulk, "chunk": _CHUNK}
    yield _ganger_load(_ganger("run_in_bulk", run), "run_in_bulk", **size, batch=_BATCH)
    yield _pgqueuer_load(_pgqueuer("run_in_bulk", run), "run_in_bulk", sizes.pgqueuer, socket, missing)
    yield _ganger_load(_ganger("submit_in_bulk", submit), "submit_in_bulk", **size)
    yield _pgqueuer_load(_pgqueuer("enqueue", submit), "enqueue", sizes.pgqueuer, socket, missing)


def _single_loads(sizes: Sizes) -> Iterator[Load]:
    for count, crowd in ((1, "1 producer"), (8, "8 producers")):
        run, submit = f"end to end one by one, {crowd}", f"submit one by one, {crowd}"
        ours: dict[str, Any] = {"tasks": sizes.ganger_single, "producers": count}
        theirs: dict[str, Any] = {"tasks": sizes.huey, "producers": count}
        yield _ganger_load(_ganger(f"run.{count}", run), "run_one_by_one", **ours, batch=_BATCH)
        yield _huey_load(_huey(f"run.{count}", run), "run_one_by_one", **theirs)
        yield _ganger_load(_ganger(f"submit.{count}", submit), "submit_one_by_one", **ours)
        yield _huey_load(_huey(f"enqueue.{count}", submit), "enqueue", **theirs)


def _raw_loads(sizes: Sizes) -> Iterator[Load]:
    what = f"submit + claim + settle, by {_BATCH}"
    size = {"tasks": sizes.raw, "batch": _BATCH}
    yield _ganger_load(_ganger("turn_over", what), "turn_over", **size)
    raw = Work("bench.peers.raw_sqlite:turn_over", {**size, "settings": RawSettings()})
    yield Load((Figure("raw.turn_over", "raw SQLite", what, _RATE),), raw)


def _backlogs(sizes: Sizes) -> Iterator[tuple[str, Backlog, int]]:
    yield "fifo_shallow", "fifo", sizes.shallow
    yield "fifo_deep", "fifo", sizes.deep
    yield "lifo_shallow", "lifo", sizes.shallow
    yield "lifo_deep", "lifo", sizes.deep
    yield "full_key", "full_key", sizes.ahead
    yield "avoided", "avoided", sizes.ahead


def _growth_loads(sizes: Sizes) -> Iterator[Load]:
    for name, backlog, depth in _backlogs(sizes):
        who = Figure(f"ganger.claim.{name}", f"Ganger {_shorten(depth)} {backlog}", f"a claim of {_BATCH}", "s")
        yield _growth_load(who, name, backlog, depth, "time_claims", backlog=backlog, batch=_BATCH)
    for name, depth in (("fifo_shallow", sizes.shallow), ("fifo_deep", sizes.deep)):
        who = Figure(f"ganger.submit.{name}", f"Ganger {_shorten(depth)} fifo", f"a submit of {_BATCH}", "s")
        yield _growth_load(who, name, "fifo", depth, "time_submits", batch=_BATCH)
    weight = _ganger("memory", f"memory with {_shorten(sizes.deep)} queued", "MB")
    yield _growth_load(weight, "fifo_deep", "fifo", sizes.deep, "weigh")


def _growth_load(figure: Figure, name: str, kind: Backlog, depth: int, function: str, **arguments: Any) -> Load:
    shape = {"backlog": kind, "depth": depth}
    preparation = Work("bench.ganger_engine:prepare_backlog", shape, kept=name, timeout=_GROWTH_TIMEOUT)
    return Load((figure,), Work(f"bench.ganger_engine:{function}", arguments, kept=name), preparation)


def _shorten(count: int) -> str:
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count / 1000:g}k"


def _graph_loads(sizes: Sizes) -> Iterator[Load]:
    plain = Figure("ganger.graph.none", f"Ganger {_shorten(sizes.graph)} without edges", "submit", _RATE)
    yield _ganger_load(plain, "submit_in_bulk", tasks=sizes.graph, chunk=_CHUNK)
    for shape in get_args(GraphShape):
        for size, name in ((sizes.graph, "large"), (sizes.small_graph, "small")):
            key, who = f"ganger.graph.{shape}.{name}", f"Ganger {_shorten(size)} {shape} graph"
            figures = (
                Figure(f"{key}.submit", who, "submit", _RATE),
                Figure(f"{key}.release", who, "release of an edge", "s"),
            )
            arguments = {"shape": shape, "tasks": size}
            yield Load(figures, Work("bench.ganger_engine:grow_graph", arguments, timeout=_GROWTH_TIMEOUT))


def _side_by_side_goals() -> Iterator[Goal]:
    drain, single = "drain of a full queue of no-op functions", "end to end one by one"
    yield Goal(1, drain, "ganger.drain.100", "pgqueuer.drain", 4.0)
    yield Goal(1, drain, "ganger.drain.100", "huey.drain", 12.0)
    yield Goal(2, "end to end in bulk", "ganger.run_in_bulk", "pgqueuer.run_in_bulk", 3.0)
    yield Goal(3, f"{single}, 1 producer process", "ganger.run.1", "huey.run.1", 1.5)
    yield Goal(3, f"{single}, 8 producer processes", "ganger.run.8", "huey.run.8", 3.5)
    yield Goal(6, "engine alone: submit + claim + settle, by 100", "ganger.turn_over", "raw.turn_over", 0.4)


def _growth_goals() -> Iterator[Goal]:
    for what, deep, shallow in (
        ("a claim from a deep queue", "claim.fifo_deep", "claim.fifo_shallow"),
        ("a claim from a deep queue, lifo", "claim.lifo_deep", "claim.lifo_shallow"),
        ("a claim with tasks of a full key ahead", "claim.full_key", "claim.fifo_shallow"),
        ("a claim with tasks that avoid the holder ahead", "claim.avoided", "claim.fifo_shallow"),
        ("a submit to a deep queue", "submit.fifo_deep", "submit.fifo_shallow"),
    ):
        yield Goal(12, what, f"ganger.{deep}", f"ganger.{shallow}", 1.5, Sense.AT_MOST)
    yield Goal(12, "memory of a process on a deep queue", "ganger.memory", None, 200.0, Sense.AT_MOST, "MB")


def _graph_goals() -> Iterator[Goal]:
    for shape in get_args(GraphShape):
        grown, small = f"ganger.graph.{shape}.large", f"ganger.graph.{shape}.small"
        yield Goal(13, f"submit of a {shape} graph", f"{grown}.submit", "ganger.graph.none", 0.5)
        release = f"release of an edge of a large {shape} graph"
        yield Goal(13, release, f"{grown}.release", f"{small}.release", 1.5, Sense.AT_MOST)
