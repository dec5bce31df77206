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
    """The rows that any honest engine writes: the task with its indexes, an event a batch, an attempt, the tallies."""
    return Script(
        _SCHEMA,
        (
            (
                Write(_INSERT_TASK, lambda span: [(task, _SPEC, _NOW, _NOW) for task in span]),
                Write(_INSERT_EVENT, lambda span: [("submitted", _NOW, _pack(span))]),
                Write(_ADD_TALLY, lambda span: [(-2, len(span))]),
            ),
            (
                Write(_SETTLE_TASK, lambda span: [(_NOW, task) for task in span], lag=1),
                Write(_INSERT_ATTEMPT, lambda span: [(task, _NOW, _NOW) for task in span], lag=1),
                Write(_INSERT_EVENT, lambda span: [("settled", _NOW, _pack(span))], lag=1),
                Write(_ADD_TALLY, lambda span: [(0, -len(span)), (1, len(span))], lag=1),
                Write(_CLAIM_TASK, lambda span: [(_NOW + 30_000, _NOW, task) for task in span]),
                Write(_INSERT_EVENT, lambda span: [("claimed", _NOW, _pack(span))]),
                Write(_ADD_TALLY, lambda span: [(-2, -len(span)), (0, len(span))]),
            ),
        ),
    )


def _pack(span: range) -> bytes:
    return b"".join(task.to_bytes(8, "big") for task in span)


_NOW = 1_800_000_000_000
_SPEC = b'{"function":"package.module:function","args":[]}'

_SCHEMA = """
CREATE TABLE task (
  id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, kind TEXT NOT NULL, spec BLOB NOT NULL, status INTEGER NOT NULL,
  priority INTEGER NOT NULL, key TEXT, description TEXT, due INTEGER, holder INTEGER, fence INTEGER NOT NULL,
  until INTEGER, attempts INTEGER NOT NULL, crashes INTEGER NOT NULL, result INTEGER, created INTEGER NOT NULL,
  modified INTEGER NOT NULL, started INTEGER, ended INTEGER);
CREATE INDEX task_ready ON task (queue, priority, id) WHERE status = -2;
CREATE INDEX task_leased ON task (until) WHERE until IS NOT NULL;
CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL;
CREATE TABLE attempt (
  task INTEGER NOT NULL, fence INTEGER NOT NULL, holder INTEGER NOT NULL, started INTEGER NOT NULL,
  ended INTEGER NOT NULL, result INTEGER NOT NULL, PRIMARY KEY (task, fence)) WITHOUT ROWID;
CREATE TABLE event (position INTEGER PRIMARY KEY, kind TEXT NOT NULL, wall INTEGER NOT NULL, tasks BLOB NOT NULL);
CREATE TABLE tally (
  queue INTEGER NOT NULL, status INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (queue, status)) WITHOUT ROWID;
"""
_INSERT_TASK = """
INSERT INTO task (id, queue, kind, spec, status, priority, fence, attempts, crashes, created, modified)
VALUES (?1, 1, 'function', ?2, -2, 1024, 0, 0, 0, ?3, ?4)
"""
_CLAIM_TASK = """
UPDATE task SET status = 0, holder = 7, fence = fence + 1, attempts = attempts + 1, until = ?1, started = ?2,
modified = ?2 WHERE id = ?3
"""
_SETTLE_TASK = """
UPDATE task SET status = 1, holder = NULL, until = NULL, result = 0, ended = ?1, modified = ?1 WHERE id = ?2
"""
_INSERT_ATTEMPT = "INSERT INTO attempt (task, fence, holder, started, ended, result) VALUES (?1, 1, 7, ?2, ?3, 0)"
_INSERT_EVENT = "INSERT INTO event (kind, wall, tasks) VALUES (?1, ?2, ?3)"
_ADD_TALLY = """
INSERT INTO tally (queue, status, count) VALUES (1, ?1, ?2)
ON CONFLICT (queue, status) DO UPDATE SET count = count + excluded.count
"""
