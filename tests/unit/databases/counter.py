"""A small application on a shared file, for tests: rows with a name and a number, and a tally kept in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from ganger.core.errors import DuplicateKey
from ganger.databases.sqlite import Migration, Operation, Session, SharedFile, Together
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

MIGRATIONS = (
    Migration(1, "rows", "CREATE TABLE line (who TEXT NOT NULL, n INTEGER NOT NULL, room BLOB) STRICT;"),
    Migration(2, "tally", "CREATE TABLE tally (total INTEGER NOT NULL) STRICT; INSERT INTO tally VALUES (0);"),
)


class Line(NamedTuple):
    who: str
    n: int
    size: int = 0


class Tally:
    """What the owner keeps in memory: how many lines there are."""

    def __init__(self, total: int) -> None:
        self.total = total


def prepare(session: Session) -> Tally:
    return Tally(first(session.connection, "SELECT total FROM tally"))


def write(session: Session, line: Line) -> int:
    """One line; the tally in memory at once, on disk before the commit."""
    session.connection.execute("INSERT INTO line VALUES (?, ?, zeroblob(?))", line)
    session.state.total += 1
    session.rolled_back(lambda: _take_back(session.state))
    session.before_commit("tally", _store_tally)
    session.wake(f"line:{line.who}")
    return int(session.state.total)


def _take_back(tally: Tally) -> None:
    tally.total -= 1


def _store_tally(session: Session) -> None:
    session.connection.execute("UPDATE tally SET total = ?", (session.state.total,))


def write_and_refuse(session: Session, line: Line) -> int:
    write(session, line)
    raise DuplicateKey(f"{line.who} is taken", key=line.who, ids=[line.n])


def write_and_crash(session: Session, line: Line) -> int:
    return write(session, line) // 0


def write_twice(session: Session, line: Line) -> list[int]:
    return [write(session, line), write(session, line._replace(n=line.n + 1))]


def write_page(session: Session, page: tuple[Line, ...]) -> list[int]:
    """Some lines; one with a negative number is refused, after all were written."""
    totals = [write(session, line) for line in page]
    for line in page:
        if line.n < 0:
            raise DuplicateKey(f"{line.who} is taken", key=line.who, ids=[line.n])
    return totals


def write_pages(session: Session, pages: Sequence[tuple[Line, ...]]) -> list[list[int]]:
    return [[n] for n in write_page(session, tuple(page[0] for page in pages))]


PAGES = Together(lambda page: len(page) == 1, write_pages)


def count(session: Session, _: None) -> int:
    return first(session.connection, "SELECT count(*) FROM line")


def look_at_clock(session: Session, _: None) -> tuple[int, int]:
    return session.now, session.wall


def end_transaction(session: Session, _: None) -> None:
    session.connection.execute("ROLLBACK")


def call_the_roll(session: Session, line: Line) -> str:
    write(session, line)
    return f"{line.who}:{line.n}"


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation("submit", Line, int, write, needs_space=True),
    Operation("settle", Line, int, write),
    Operation("refuse", Line, int, write_and_refuse),
    Operation("crash", Line, int, write_and_crash),
    Operation("twice", Line, list[int], write_twice),
    Operation("page", tuple[Line, ...], list[int], write_page, together=PAGES),
    Operation("count", None, int, count),
    Operation("clock", None, tuple[int, int], look_at_clock),
    Operation("end", None, None, end_transaction),
    Operation("return", Line, list[int], lambda session, line: [line.n] * line.size),
    Operation(
        "roll",
        Line,
        str,
        call_the_roll,
        receipt=lambda reply: reply.encode()[::-1],
        replay=lambda session, receipt: receipt[::-1].decode(),
    ),
)


def open_counter(path: Path, **changes: Any) -> Any:
    """A handle on the counter's file, with whatever is to be different."""
    settings: dict[str, Any] = {
        "operations": OPERATIONS,
        "migrations": MIGRATIONS,
        "clock": SystemClock(),
        "entropy": SystemEntropy(),
        "application": "counter",
        "prepare": prepare,
    }
    return SharedFile.open(path, **{**settings, **changes})


@asynccontextmanager
async def opened(path: Path, **changes: Any) -> AsyncIterator[SharedFile]:
    shared: SharedFile = await open_counter(path, **changes)
    try:
        yield shared
    finally:
        await shared.close()


def first(connection: apsw.Connection, sql: str) -> int:
    """The one number that a query gives."""
    (row,) = connection.execute(sql)
    return int(row[0])


def lines(connection: apsw.Connection) -> list[tuple[str, int]]:
    return [(str(who), int(n)) for who, n in connection.execute("SELECT who, n FROM line ORDER BY rowid")]


def read_file(path: Path, query: Callable[[apsw.Connection], Any] = lines) -> Any:
    """Look into a file that nobody has open."""
    connection = apsw.Connection(str(path))
    try:
        return query(connection)
    finally:
        connection.close()


class Counted:
    """A probe that counts."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, name: str) -> None:
        self.seen.append(name)

    def count(self, name: str) -> int:
        return self.seen.count(name)


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for something that another thread or process does."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what another process does sets no event here
            await asyncio.sleep(0.002)
