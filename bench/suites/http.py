"""The HTTP API beside servers that only echo: goal 8, the way of a command, and what idle subscribers cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.goals import Goal
from bench.http.rates import CONNECTIONS
from bench.rounds import Figure, Load
from bench.suites.suite import Suite, name_peer
from bench.work import Work

_CHUNK = 1000
_BATCH = 100
_REQUESTS = "requests/s"
_RATE = "tasks/s"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Enough that each load takes about a second or more."""

    echoes: int = 100_000
    large_echoes: int = 10_000
    single: int = 40_000
    batches: int = 3_000
    bulk: int = 200_000
    commands: int = 400
    subscribers: int = 1_000


QUICK = Sizes(echoes=20_000, large_echoes=2_000, single=8_000, batches=500, bulk=40_000, commands=150)


@contextmanager
def open_http_suite(beside: Path, quick: bool) -> Iterator[Suite]:
    yield http_suite(QUICK if quick else Sizes())


def http_suite(sizes: Sizes) -> Suite:
    return Suite(
        name="http",
        settings=_settings(sizes),
        loads=(*_single_loads(sizes), *_batch_loads(sizes), _latency_load(sizes), _subscriber_load(sizes)),
        goals=(
            Goal(8, "durable submit, one task a request", "ganger.http.submit.1", "uvicorn.echo.1", 0.35),
            Goal(
                8, f"durable submit, {_BATCH} a request", f"ganger.http.submit.{_BATCH}", "ganger.submit_in_bulk", 0.25
            ),
        ),
    )


def _settings(sizes: Sizes) -> dict[str, Any]:
    return {
        "sizes": asdict(sizes),
        "client": {"connections": CONNECTIONS, "keep_alive": True, "in_flight_each": 1, "processes": 1},
        "Ganger": {"server": "ganger server", "store": "sqlite", "latency": "ganger up --slots 2"},
        "uvicorn": {"http": "httptools", "loop": "uvloop", "workers": 1, "access_log": False},
    }


def _echo(app: str, who: str, nodes: int, requests: int) -> Load:
    what = "echo of a request with " + ("one task" if nodes == 1 else f"{nodes} tasks")
    figure = Figure(f"{app}.echo.{nodes}", who, what, _REQUESTS, durable=False)
    name = "bare" if app == "uvicorn" else app
    return Load((figure,), Work("bench.http.rates:echo", {"app": name, "requests": requests, "nodes": nodes}))


def _submit(nodes: int, requests: int) -> Load:
    what = f"submit over HTTP, {'one' if nodes == 1 else nodes} a request"
    figure = Figure(f"ganger.http.submit.{nodes}", "Ganger", what, _RATE)
    return Load((figure,), Work("bench.http.rates:submit", {"requests": requests, "nodes": nodes}))


def _single_loads(sizes: Sizes) -> Iterator[Load]:
    yield _submit(1, sizes.single)
    yield _echo("uvicorn", name_peer("uvicorn", "uvicorn", "bare ASGI"), 1, sizes.echoes)
    yield _echo("starlette", name_peer("starlette", "Starlette", "on uvicorn"), 1, sizes.echoes)


def _batch_loads(sizes: Sizes) -> Iterator[Load]:
    yield _submit(_BATCH, sizes.batches)
    yield _echo("uvicorn", name_peer("uvicorn", "uvicorn", "bare ASGI"), _BATCH, sizes.large_echoes)
    bulk = Figure("ganger.submit_in_bulk", "Ganger engine", "submit in bulk", _RATE)
    yield Load((bulk,), Work("bench.ganger_engine:submit_in_bulk", {"tasks": sizes.bulk, "chunk": _CHUNK}))


def _latency_load(sizes: Sizes) -> Load:
    figures = tuple(
        Figure(f"ganger.http.{key}.{part}", "Ganger", f"{what}, {part}", "ms")
        for key, what in (("started", "submit -> the event of its start"), ("waited", "submit -> wait returns"))
        for part in ("p50", "p99")
    )
    return Load(figures, Work("bench.http.latency:time_commands", {"times": sizes.commands}))


def _subscriber_load(sizes: Sizes) -> Load:
    who = f"Ganger with {sizes.subscribers} idle subscribers"
    figures = (
        Figure("ganger.http.idle.memory", who, "memory of each", "KB"),
        Figure("ganger.http.idle.cpu", who, "share of a core, all together", "%"),
    )
    return Load(figures, Work("bench.http.rates:keep_subscribers", {"subscribers": sizes.subscribers}))
