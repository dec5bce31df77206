"""Nodes that are processes of their own on one store, with warm processes, and what the store says of a load."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from bench.contender import script
from bench.databases.postgres import clear, name_store
from bench.peers.postgres_server import USER
from bench.real.tasks import app, warm
from bench.worker import working
from ganger.client.calls import Call, command
from ganger.client.handle import Handle

QUEUE = "real"
"""Where the tasks that are measured go; each node also has a queue of its own, where its processes are warmed."""

_SCHEMA = "real"
_WARM = 0.2
_PATIENCE = 240.0


@dataclass(frozen=True, slots=True)
class Site:
    """A store with nodes; `socket` is that of PostgreSQL, empty where the store is a SQLite file in the folder."""

    folder: Path
    socket: str
    url: str

    def send(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        return app.send([call.using(queue=QUEUE) for call in calls])

    def await_all(self, handles: Sequence[Handle[Any]]) -> float:
        """Wait until all have ended, and see that they ended well; the moment at which they had."""
        if not app.wait(handles, _PATIENCE):
            raise RuntimeError(f"not all {len(handles)} tasks ended within {_PATIENCE:g} s")
        ended = time.perf_counter()
        statuses = self.count()["statuses"]
        if statuses != {"succeeded": len(handles)}:
            raise RuntimeError(f"of {len(handles)} tasks not all succeeded: {statuses}")
        return ended

    def count(self) -> Mapping[str, Any]:
        """The tasks by status, and how often each fact was told of them."""
        words = (script("ganger"), "stats", "--json", "--store", self.url)
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
        found: Mapping[str, Any] = next(line for line in map(json.loads, told) if line["queue"] == QUEUE)
        return found

    def count_written(self) -> int:
        """Bytes that went to the disk until now: the log of PostgreSQL, or what the nodes of a SQLite file wrote."""
        return asyncio.run(_measure_log(self.socket)) if self.socket else _add_writes(self.folder)


async def _measure_log(socket: str) -> int:
    connection = await asyncpg.connect(host=socket, user=USER, database="postgres")
    try:
        written: int = await connection.fetchval("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        return written
    finally:
        await connection.close()


def _add_writes(folder: Path) -> int:
    """By `write_bytes` of every process that was started for this folder: nodes and their guardians."""
    total = 0
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for word in process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess):
                total += process.io_counters().write_bytes
    return total


@contextmanager
def open_site(folder: Path, socket: str, nodes: Sequence[int]) -> Iterator[Site]:
    """A new store and so many nodes, each with that many slots, all of them warm."""
    url = name_store(socket, _SCHEMA) if socket else f"sqlite:{folder / 'ganger.db'}"
    os.environ |= {"GANGER_STORE": url, "GANGER_HOME": str(folder)}
    if socket:
        asyncio.run(clear(socket, _SCHEMA))
    with ExitStack() as parts:
        for number, slots in enumerate(nodes):
            words = _command_node(url, f"node-{number}", slots)
            parts.enter_context(working(words, folder / f"node-{number}.log"))
        parts.enter_context(app)
        _warm_up(nodes)
        yield Site(folder, socket, url)


def _command_node(url: str, name: str, slots: int) -> Sequence[str]:
    queues = ("--queue", QUEUE, "--queue", name)
    return (script("ganger"), "node", "run", "--store", url, "--name", name, "--slots", str(slots), *queues, "--quiet")


def _warm_up(nodes: Sequence[int]) -> None:
    """Have every slot of every node run a function and a command."""
    calls: list[Call[Any]] = []
    for number, slots in enumerate(nodes):
        both = [warm.bind(_WARM), command(["sleep", str(_WARM)])]
        calls += [call.using(queue=f"node-{number}") for call in both for _ in range(slots)]
    if not app.wait(app.send(calls), _PATIENCE):
        raise RuntimeError("the nodes did not begin to work")
