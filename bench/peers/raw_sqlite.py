"""Raw SQLite doing the row writes of the engine, with nothing between the statements: what the file itself allows.

The rows are made before the clock starts. A script's phases run one after another over all batches, one transaction a
batch. A write may lag behind: with a lag of 1 it takes the ids of the batch before, which is how the engine settles the
last batch and claims the next in one transaction.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from bench.peers.settings import RawSettings
from ganger.databases.sqlite import load_migrations

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Write:
    sql: str
    rows: Callable[[range], Sequence[Row]]
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    schema: str
    phases: tuple[tuple[Write, ...], ...]


Transaction = tuple[tuple[str, Sequence[Row]], ...]


def turn_over(folder: Path, *, tasks: int, batch: int, settings: RawSettings) -> float:
    """Tasks a second through the writes of submit, claim and settle."""
    connection = open_connection(folder / "raw.db", settings)
    rate = play(connection, plain_script(), tasks, batch)
    connection.close()
    return rate


def open_connection(path: Path, settings: RawSettings) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size={settings.page_size}")
    connection.execute(f"PRAGMA journal_mode={settings.journal_mode}")
    connection.execute(f"PRAGMA synchronous={settings.synchronous}")
    connection.execute(f"PRAGMA cache_size=-{settings.cache_kib}")
    connection.execute(f"PRAGMA wal_autocheckpoint={settings.wal_autocheckpoint}")
    return connection


def play(connection: apsw.Connection, script: Script, tasks: int, batch: int) -> float:
    connection.execute(script.schema)
    spans = [range(first, min(first + batch, tasks + 1)) for first in range(1, tasks + 1, batch)]
    transactions = [made for phase in script.phases for made in make_transactions(phase, spans)]
    gc.freeze()
    began = time.perf_counter()
    for transaction in transactions:
        _apply(connection, transaction)
    return tasks / (time.perf_counter() - began)


def make_transactions(phase: tuple[Write, ...], spans: Sequence[range]) -> Iterator[Transaction]:
    for turn in range(len(spans) + max(write.lag for write in phase)):
        due = [(write, turn - write.lag) for write in phase]
        yield tuple((write.sql, write.rows(spans[index])) for write, index in due if 0 <= index < len(spans))


def _apply(connection: apsw.Connection, transaction: Transaction) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for sql, rows in transaction:
        connection.executemany(sql, rows)
    connection.execute("COMMIT")


def plain_script() -> Script:
    """The rows that the engine writes, in its own schema: tasks with their indexes, events, attempts, tallies."""
    return Script(
        _schema(),
        (
            (
                Write(_INSERT_TASK, lambda span: [(task, _SPEC, _NOW) for task in span]),
                Write(_INSERT_EVENT, lambda span: [(_NOW, "submitted", _pack(span))]),
                Write(_SET_TALLY, lambda span: [(-2, span.stop)]),
            ),
            (
                Write(_INSERT_ATTEMPT, lambda span: [(task, _NOW) for task in span], lag=1),
                Write(_SETTLE_TASK, lambda span: [(_NOW, task) for task in span], lag=1),
                Write(_INSERT_EVENT, lambda span: [(_NOW, "settled", _pack(span))], lag=1),
                Write(_CLAIM_TASK, lambda span: [(_NOW, task) for task in span]),
                Write(_INSERT_EVENT, lambda span: [(_NOW, "claimed", _pack(span))]),
                Write(_SET_TALLY, lambda span: [(-2, -span.stop), (0, len(span)), (1, span.start)]),
            ),
        ),
    )


def _schema() -> str:
    return "\n".join(migration.sql for migration in load_migrations("ganger.engine.stores.sqlite", "migrations"))


def _pack(span: range) -> bytes:
    return b"".join(task.to_bytes(8, "big") for task in span)


_NOW = 1_800_000_000_000
_SPEC = b'{"function":"package.module:function","args":[]}'

_INSERT_TASK = """
INSERT INTO task (id, queue, lane, status, priority, rank, spec, created, modified)
VALUES (?1, 1, 1, -2, 1024, ?1, ?2, ?3, ?3)
"""
_CLAIM_TASK = """
UPDATE task SET status = 0, fence = fence + 1, holder = 7, claimed = ?1, started = NULL, modified = ?1,
reserves = reserves + 1 WHERE id = ?2
"""
_SETTLE_TASK = """
UPDATE task SET status = 1, holder = NULL, ended = ?1, modified = ?1, attempts = attempts + 1
WHERE id = ?2
"""
_INSERT_ATTEMPT = """
INSERT INTO attempt (task, fence, holder, claimed, ended, outcome, code) VALUES (?1, 1, 7, ?2, ?2, 'succeed', 1)
"""
_INSERT_EVENT = "INSERT INTO event (at, fact, queue, holder, entries) VALUES (?1, ?2, 1, 0, ?3)"
_SET_TALLY = """
INSERT INTO book (queue, name, n) VALUES (1, ?1, ?2) ON CONFLICT (queue, name) DO UPDATE SET n = excluded.n
"""
