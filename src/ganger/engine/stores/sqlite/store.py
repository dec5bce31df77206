"""The SQLite store: one file, one owner, everything that waits at one moment in one durable transaction."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ganger.core.audit import AuditLine
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import GangerError
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.task import Eager, Task
from ganger.databases.sqlite import Operation, Probe, Rank, Session, SharedFile, load_migrations, no_probe
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
from ganger.engine.stores.sqlite import exchanging, reading
from ganger.engine.stores.sqlite.attending import Haste
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.finding import find
from ganger.engine.stores.sqlite.joining import configure, lose
from ganger.engine.stores.sqlite.noting import write
from ganger.engine.stores.sqlite.queries import APPLICATION, Q, load_all
from ganger.engine.stores.sqlite.shelf import Shelf, load
from ganger.engine.stores.sqlite.step import Step
from ganger.engine.stores.sqlite.submitting import TOGETHER, submit
from ganger.engine.stores.sqlite.tending import tend
from ganger.runtime.telemetry import LOUD, Telemetry

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    Operation("submit", Submission, Submitted, submit, needs_space=True, together=TOGETHER),
    Operation(
        "exchange",
        Exchange,
        Exchanged,
        exchanging.exchange,
        receipt=exchanging.exchange_receipt,
        replay=exchanging.replay_exchange,
        together=exchanging.TOGETHER,
    ),
    Operation("write", tuple[Note, ...], list[tuple[int, str]], write),
    Operation("edit", Edits, None, edit),
    Operation("configure", Configure, Configured, configure),
    Operation("tend", Tend, Tended, tend),
)


class SqliteStore:
    """The store contract over a shared file. Every process that opens the file may use it; one of them owns it."""

    def __init__(self, file: SharedFile) -> None:
        self.file = file

    @classmethod
    async def open(
        cls,
        path: Path,
        clock: Clock,
        entropy: Entropy,
        *,
        rank: Rank = Rank.CLIENT,
        probe: Probe = no_probe,
        telemetry: Telemetry = LOUD,
        vfs: str | None = None,
    ) -> "SqliteStore":
        load_all()
        file = await SharedFile.open(
            path,
            operations=OPERATIONS,
            migrations=load_migrations(__package__ or "", "migrations"),
            clock=clock,
            entropy=entropy,
            rank=rank,
            prepare=lambda session: prepare(session, clock, entropy),
            probe=probe,
            telemetry=telemetry,
            vfs=vfs,
            application=APPLICATION,
        )
        return cls(file)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, shared=True)

    async def close(self) -> None:
        await self.file.close()

    async def submit(self, request: Submission) -> Submitted:
        submitted: Submitted = await self.file.call("submit", request)
        return submitted

    def submit_now(self, request: Submission) -> Submitted:
        submitted: Submitted = self.file.call_blocking("submit", request)
        return submitted

    def post_now(self, request: Submission) -> Callable[[], Submitted]:
        return partial(self.file.post_blocking("submit", request).wait, None)

    async def exchange(self, request: Exchange) -> Exchanged:
        exchanged: Exchanged = await self.file.call("exchange", request)
        return exchanged

    async def exchange_each(
        self, requests: Sequence[Exchange], near: Callable[[], None] | None = None
    ) -> list[Exchanged | GangerError]:
        return await self.file.call_each("exchange", requests, near)

    def attend(
        self,
        request: Exchange,
        topics: Sequence[str],
        told: "Callable[[Exchanged | None], None]",
        eager: Eager | None = None,
    ) -> "Callable[[], bool]":
        haste = None if eager is None else Haste(eager)
        return self.file.stand("exchange", request, topics, lambda outcome: told(outcome.value), haste)

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        refused: list[tuple[int, str]] = await self.file.call("write", notes)
        return refused

    async def edit(self, request: Edits) -> None:
        await self.file.call("edit", request)

    async def configure(self, request: Configure) -> Configured:
        configured: Configured = await self.file.call("configure", request)
        return configured

    async def tend(self, step: Tend) -> Tended:
        tended: Tended = await self.file.call("tend", step)
        return tended

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return await self.file.read(lambda connection: reading.tasks(connection, ids))

    async def find(self, query: Query) -> Page:
        return await self.file.read(lambda connection: find(connection, query))

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return await self.file.read(lambda connection: reading.look(connection, task, most))

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        return await self.file.read(
            lambda connection: reading.value(connection, reading.Part(task, key, start, most, fence))
        )

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        return await self.file.read(lambda connection: reading.events(connection, after, most))

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return await self.file.read(reading.counts)

    async def directory(self) -> Directory:
        return await self.file.read(reading.directory)

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        return await self.file.read(lambda connection: reading.audit(connection, after, most))

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        return self.file.listen(topics, told)


def prepare(session: Session, clock: Clock, entropy: Entropy) -> Shelf:
    """What a new owner does first: know the file, and void the leases of another boot, whose moments mean nothing."""
    run = session.connection.execute
    if not list(run(Q.store_read)):
        tag = int.from_bytes(entropy.token(8)) >> 1
        run(Q.store_insert, (tag, clock.boot_id()))
    shelf = load(session)
    session.state = shelf
    if shelf.boot != clock.boot_id():
        run(Q.store_boot, (clock.boot_id(),))
        _void_leases(session, shelf)
    return shelf


def _void_leases(session: Session, shelf: Shelf) -> None:
    step = Step(session)
    for node in list(shelf.nodes.values()):
        lose(step, node)
    step.finish()
