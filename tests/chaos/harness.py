"""What every proof of the store needs: to open it with other bounds, and to ask a file whether its books balance."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from ganger.core.audit import AuditLine, verify
from ganger.core.clock import Clock, Entropy, Wall
from ganger.core.ids import Position
from ganger.core.outcome import after_loss
from ganger.core.state import Move
from ganger.databases.sqlite import Host, Limits, Probe, SharedFile, load_migrations, no_probe
from ganger.engine.store import Lapsed
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.stores.sqlite.queries import APPLICATION
from ganger.engine.stores.sqlite.store import OPERATIONS, prepare

SMALL: Final = Limits(checkpoint_pages=60, reserve_bytes=256 * 1024, readers=1)
"""A file that checkpoints every few commits and keeps a small reserve, so that a short run meets everything."""

_OWN_TABLES: Final = frozenset({"ownership", "unit", "migration"})
"""What the file keeps for itself: it changes with each owner and says nothing of tasks."""


async def open_store(
    path: Path,
    clock: Clock,
    entropy: Entropy,
    *,
    vfs: str | None = None,
    limits: Limits = SMALL,
    probe: Probe = no_probe,
    host: Host | None = None,
) -> SqliteStore:
    """As `SqliteStore.open`, with bounds that a test chooses."""
    file = await SharedFile.open(
        path,
        operations=OPERATIONS,
        migrations=load_migrations("ganger.engine.stores.sqlite", "migrations"),
        clock=clock,
        entropy=entropy,
        prepare=lambda session: prepare(session, clock, entropy),
        probe=probe,
        vfs=vfs,
        application=APPLICATION,
        limits=limits,
        host=host,
    )
    return SqliteStore(file)


class Fact(NamedTuple):
    """What a caller was told, as a question to the file and the answer that it must give from then on."""

    about: str
    question: str
    values: tuple[Any, ...]
    answer: tuple[Any, ...] | None


def find_broken(connection: apsw.Connection, facts: Iterable[Fact]) -> list[tuple[str, Any]]:
    """The facts that do not hold, each with the answer that the file gave instead."""
    asked = ((fact, connection.execute(fact.question, fact.values).fetchone()) for fact in facts)
    return [(fact.about, answer) for fact, answer in asked if answer != fact.answer]


def find_unsound(connection: apsw.Connection) -> list[str]:
    """What is wrong with a file that is not as it must be; nothing if it is."""
    wrong = [f"integrity: {text}" for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    wrong += [
        f"{name}: {rows}" for name, question in _LAWS.items() if (rows := connection.execute(question).fetchall())
    ]
    lines = connection.execute("SELECT position, at, who, action, detail, hash FROM audit ORDER BY position")
    verify(AuditLine(Position(line[0]), Wall(line[1]), *line[2:]) for line in lines)
    return wrong


_LAWS: Final = {
    "tallies that differ from the tasks": """
        SELECT queue, status, sum(told), sum(counted) FROM (
            SELECT queue, status, n AS told, 0 AS counted FROM tally
            UNION ALL SELECT queue, status, 0, count(*) FROM task GROUP BY queue, status
        ) GROUP BY queue, status HAVING sum(told) <> sum(counted)""",
    "leases without a holder, or holders without a lease": """
        SELECT id, status, holder FROM task WHERE (status IN (-1, 0)) <> (holder IS NOT NULL)""",
    "tasks that count their children wrongly": """
        SELECT id FROM task WHERE kids <> (SELECT count(*) FROM edge WHERE parent = task.id)""",
    "blocked tasks that wait for nothing": """
        SELECT task.id FROM task JOIN lane ON lane.id = task.lane
        WHERE status = -4 AND waits = 0 AND kind NOT IN ('condition', 'group')""",
    "tasks whose open parents are not what they wait for": """
        SELECT task.id, waits FROM task JOIN lane ON lane.id = task.lane
        WHERE status = -4 AND kind <> 'group' AND any_join = 0 AND waits <> (
            SELECT count(*) FROM edge JOIN task AS above ON above.id = edge.parent
            WHERE edge.child = task.id AND (above.status IN (-8, -7, -4, -2, -1, 0)
                OR EXISTS (SELECT 1 FROM follow WHERE parent = above.id AND after < task.id)))""",
    "edges that lead nowhere": "SELECT parent, child FROM edge WHERE child NOT IN (SELECT id FROM task)",
    "data and output of nobody": """
        SELECT task FROM data WHERE task NOT IN (SELECT id FROM task)
        UNION ALL SELECT task FROM output WHERE task NOT IN (SELECT id FROM task)""",
    "attempts under a fence that no task has reached": """
        SELECT attempt.task FROM attempt JOIN task ON task.id = attempt.task WHERE attempt.fence > task.fence""",
    "ids at or above the next one": """
        SELECT task.id FROM task, book WHERE book.queue = -1 AND name = 'next_task' AND task.id >= n""",
    "a wrong sum of output": """
        SELECT n FROM counter WHERE fact = 'output_bytes' AND n <> (SELECT coalesce(sum(size), 0) FROM output)""",
}


def digest(connection: apsw.Connection) -> str:
    """One value for everything that the store has written, whatever page it lies on."""
    found = hashlib.sha256()
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    for (table,) in tables.fetchall():
        if table not in _OWN_TABLES:
            found.update(repr((table, connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall())).encode())
    return found.hexdigest()


def loss_of(lapsed: Lapsed) -> Move:
    """The move that takes back what has lapsed."""
    task, fence, _, started, left, crashes, retry, on_lost, kill, holder = lapsed
    return after_loss(
        task, fence, started=started, left=left, crashes=crashes, retry=retry, on_lost=on_lost, kill=kill, holder=holder
    )


async def until(happens: Callable[[], bool], *, within: float = 60.0) -> None:
    """Wait until it is so; after `within` seconds it is a failure."""
    deadline = time.monotonic() + within
    while not happens():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


def look_into(path: Path) -> "closing[apsw.Connection]":
    """A connection of the test's own, beside whoever uses the file."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return closing(connection)
