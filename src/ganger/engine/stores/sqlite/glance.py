"""The SQLite store for one short look: it reads one snapshot, answers at once, and can change nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Never

from ganger.core.audit import AuditLine
from ganger.core.clock import Clock
from ganger.core.errors import StoreReadOnly
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.task import Task
from ganger.databases.sqlite import glancing, list_files
from ganger.engine.store import (
    Capabilities,
    Configure,
    Configured,
    Directory,
    Edits,
    Exchange,
    Exchanged,
    Look,
    Note,
    Page,
    Query,
    Submission,
    Submitted,
    Tend,
    Tended,
    Value,
)
from ganger.engine.stores.sqlite import reading
from ganger.engine.stores.sqlite.finding import find
from ganger.engine.stores.sqlite.queries import APPLICATION, Q


class SqliteGlance:
    """The store contract, its reading half: whatever writes raises StoreReadOnly, and nobody is woken."""

    def __init__(self, file: glancing.Glance) -> None:
        self._file = file

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, shared=True)

    async def submit(self, request: Submission) -> Submitted:
        refuse()

    async def exchange(self, request: Exchange) -> Exchanged:
        refuse()

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        refuse()

    async def edit(self, request: Edits) -> None:
        refuse()

    async def configure(self, request: Configure) -> Configured:
        refuse()

    async def tend(self, step: Tend) -> Tended:
        refuse()

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return self._file.read(lambda connection: reading.tasks(connection, ids))

    async def find(self, query: Query) -> Page:
        return self._file.read(lambda connection: find(connection, query))

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return self._file.read(lambda connection: reading.look(connection, task, most))

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        return self._file.read(
            lambda connection: reading.value(connection, reading.Part(task, key, start, most, fence))
        )

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        return self._file.read(lambda connection: reading.events(connection, after, most))

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return self._file.read(reading.counts)

    async def directory(self) -> Directory:
        return self._file.read(reading.directory)

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        return self._file.read(lambda connection: reading.audit(connection, after, most))

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None


def refuse() -> Never:
    raise StoreReadOnly("this is a glance at the store, which changes nothing: open the store to write")


@contextmanager
def glance_at(path: Path, clock: Clock) -> Iterator[SqliteGlance | None]:
    """The store as it is now; None if only its owner can tell, by mending, migrating or refusing the file.

    After a restart of the machine the leases in the file mean nothing: an owner must take them back first.
    """
    schema = len(list_files(__package__ or "", "migrations"))
    with glancing.glance_at(path, application=APPLICATION, schema=schema) as file:
        yield SqliteGlance(file) if file is not None and _is_of_this_boot(file, clock) else None


def _is_of_this_boot(file: glancing.Glance, clock: Clock) -> bool:
    found = file.read(lambda connection: list(connection.execute(Q.store_read)))
    return any(row[1] == clock.boot_id() for row in found)
