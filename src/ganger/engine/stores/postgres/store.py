"""The PostgreSQL store: any number of processes on one database, each step one transaction."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from ganger.core.audit import START, AuditLine
from ganger.core.clock import Clock, Entropy, Moment, Wall
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.task import Claimed, Task
from ganger.databases.postgres import Database, ServerTime, Session, Timekeeper, load_migrations
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
from ganger.engine.stores.postgres import reading
from ganger.engine.stores.postgres.editing import edit
from ganger.engine.stores.postgres.exchanging import exchange
from ganger.engine.stores.postgres.finding import find
from ganger.engine.stores.postgres.gathering import Gathering
from ganger.engine.stores.postgres.inbox import open_inbox
from ganger.engine.stores.postgres.joining import configure, is_beat, lose
from ganger.engine.stores.postgres.leases import Leases
from ganger.engine.stores.postgres.noting import write
from ganger.engine.stores.postgres.presuming import Presuming
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Known
from ganger.engine.stores.postgres.shelf import Shelves
from ganger.engine.stores.postgres.step import Step, open_step
from ganger.engine.stores.postgres.submitting import is_woven, submit
from ganger.engine.stores.postgres.tending import tend
from ganger.runtime.telemetry import SILENT, Telemetry

R = TypeVar("R")
T = TypeVar("T")


class PostgresStore:
    """The store contract over a schema of a database."""

    def __init__(self, database: Database, timekeeper: Timekeeper) -> None:
        self._database = database
        self._time = timekeeper
        self._shelves = Shelves()
        self._leases = Leases()
        self._presuming = Presuming(self._shelves, self._leases, timekeeper)
        self._gathering = Gathering(self._exchange)
        self._letters = False
        """Has a step seen letters that nobody has opened since?"""

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Clock,
        entropy: Entropy,
        *,
        timekeeper: Timekeeper | None = None,
        telemetry: Telemetry = SILENT,
        read_url: str | None = None,
    ) -> "PostgresStore":
        """Open the store that the URL names, made or brought up to date first if need be.

        Leases end by the server's clock, unless another keeper of the time is handed in. `read_url` is a standby from
        which lists, counts and the audit log are read: it may lag, and is done without when it is gone.
        """
        migrations = load_migrations(__package__ or "", "migrations")
        database = await Database.open(
            url, migrations, clock, entropy, pulse=_pulse, telemetry=telemetry, read_url=read_url
        )
        store = cls(database, timekeeper or ServerTime(clock))
        try:
            tag = int.from_bytes(entropy.token(8)) >> 1
            await database.transact(lambda session: store._prepare(session, tag), "opening the store", alone=True)
        except BaseException:
            await database.close()
            raise
        return store

    async def _prepare(self, session: Session, tag: int) -> None:
        """Know the store, and void the leases of another boot, whose moments mean nothing."""
        boot = self._time.boot
        await session.connection.execute(Q.store_insert, tag, boot, START)
        ((_, known, _, _),) = await session.connection.fetch(Q.store_read)
        # Also where nothing is to be voided: the watch over the server's clock begins here.
        step = await open_step(session, self._shelves, self._time)
        if known == boot:
            return
        await step.run(Q.store_boot, boot)
        for node in await step.here():
            await lose(step, node.node)
        await step.finish()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, shared=True, distant=True)

    async def close(self) -> None:
        await self._database.close()

    async def _step(
        self, work: Callable[[Step, R], Awaitable[T]], request: R, *, alone: bool = False, holder: int = 0
    ) -> T:
        async def run(session: Session) -> T:
            step = await open_step(session, self._shelves, self._time, holder)
            self._letters = self._letters or step.sight.letters
            return await work(step, request)

        return await self._database.transact(run, type(request).__name__, alone)

    async def submit(self, request: Submission) -> Submitted:
        return await self._step(submit, request, alone=is_woven(request))

    async def exchange(self, request: Exchange) -> Exchanged:
        done = await self._gathering.exchange(request)
        # Only where nothing was done that a failure of this would hide: whoever is busy leaves the letters to upkeep.
        if request == Exchange(claim=request.claim) and not done.claimed and await self._open_inbox():
            done = await self._exchange(request)
        if not self._time.offset:
            return done
        due = None if done.next_due is None else Wall(done.next_due + self._time.wall_offset)
        return done._replace(claimed=[self._shift(one) for one in done.claimed], next_due=due)

    async def _exchange(self, request: Exchange) -> Exchanged:
        """In one round trip, if nothing is unusual about it."""
        holder = self._leases.holder(request)
        if (presumed := self._presuming.presume(request)) is not None:
            done = await self._database.transact_at_once(presumed.run, presumed.recall, Exchange.__name__)
            self._letters = self._letters or presumed.letters
            if done is not None:
                return done

        async def work(step: Step, asked: Exchange) -> Exchanged:
            self._presuming.see(holder, step.sight.node)
            return await exchange(step, asked, self._leases)

        return await self._step(work, request, holder=holder)

    async def _open_inbox(self) -> int:
        """Make tasks of what applications have written, if a step has seen any; how many letters there were."""
        if not self._letters:
            return 0
        opened = await open_inbox(self._step)
        self._letters = False
        return opened

    def _shift(self, claimed: Claimed) -> Claimed:
        """Its end as a moment of this machine."""
        until = claimed.until
        return claimed if until is None else claimed._replace(until=Moment(until + self._time.offset))

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        return await self._step(write, notes)

    async def edit(self, request: Edits) -> None:
        await self._step(edit, request, alone=True)

    async def configure(self, request: Configure) -> Configured:
        holder = 0 if request.node is None else request.node.id
        done = await self._step(configure, request, alone=not is_beat(request), holder=holder)
        if done.node is None:
            return done
        self._presuming.see(done.node.id, Known(done.node, done.node.lease))
        return done._replace(node=done.node._replace(until=Moment(done.node.until + self._time.offset)))

    async def tend(self, step: Tend) -> Tended:
        done = await self._step(tend, step)
        if step.promote and await self._open_inbox():
            # What came out of it may be due at some time.
            return done._replace(more=True)
        if done.next_at is None:
            return done
        # Of leases it is a moment, of tasks a time of day.
        offset = self._time.offset if step.lapse else self._time.wall_offset
        return done._replace(next_at=done.next_at + offset)

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return await self._read(lambda connection: reading.tasks(connection, ids, self._time.offset))

    async def find(self, query: Query) -> Page:
        return await self._list(lambda connection: find(connection, query, self._time.offset))

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return await self._read(lambda connection: reading.look(connection, task, most, self._time.offset))

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        part = reading.Part(task, key, start, most, fence)
        return await self._read(lambda connection: reading.value(connection, part))

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        return await self._read(lambda connection: reading.events(connection, after, most))

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return await self._list(reading.counts)

    async def directory(self) -> Directory:
        return await self._read(lambda connection: reading.directory(connection, self._time.offset))

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        return await self._list(lambda connection: reading.audit(connection, after, most))

    async def _read(self, work: Callable[[Any], Awaitable[T]]) -> T:
        return await self._database.read(work, "reading")

    async def _list(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Read what may be much: elsewhere, if there is a place for that."""
        return await self._database.read_aside(work, "listing")

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        return self._database.listen(topics, told)


async def _pulse(connection: Any) -> tuple[object, bool]:
    """How far the events are, the edition of the shelf, who is followed; and is there a letter?"""
    *far, letters = await connection.fetchrow(Q.pulse)
    return far, bool(letters)
