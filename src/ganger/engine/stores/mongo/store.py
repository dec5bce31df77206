"""The MongoDB store: any number of processes on one database, and Disbatch's own beside them."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ganger.core.audit import Act, AuditLine
from ganger.core.clock import Clock, Entropy, Moment, Wall
from ganger.core.errors import BadInput, StoreNewerVersion
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.node import Node
from ganger.core.queue import Counts
from ganger.core.task import Claimed, Task
from ganger.databases.mongo import PATIENCE, Database, Doc, Session, Table, Wording, read_option
from ganger.databases.timekeeping import ServerTime, Timekeeper
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
    Odd,
    Page,
    Query,
    Submission,
    Submitted,
    Tend,
    Tended,
    Value,
)
from ganger.engine.stores.mongo import choices, neighbours, orphaning, reading, recalling
from ganger.engine.stores.mongo.codec import shift
from ganger.engine.stores.mongo.dialect import Dialect, choose_dialect, read_dialect
from ganger.engine.stores.mongo.editing import edit
from ganger.engine.stores.mongo.exchanging import exchange
from ganger.engine.stores.mongo.finding import find
from ganger.engine.stores.mongo.joining import configure_node, lose
from ganger.engine.stores.mongo.looking import look, written_in
from ganger.engine.stores.mongo.noting import write
from ganger.engine.stores.mongo.queueing import configure_queue
from ganger.engine.stores.mongo.reconciling import reconcile
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.strange import STRANGE
from ganger.engine.stores.mongo.submitting import submit
from ganger.engine.stores.mongo.tables import INDEXES, QUEUES
from ganger.engine.stores.mongo.tending import tend
from ganger.engine.stores.mongo.watch import Watch
from ganger.engine.stores.mongo.wording import word
from ganger.runtime.telemetry import SILENT, Telemetry

R = TypeVar("R")
T = TypeVar("T")
FORMATS: Final = {Dialect.PLAIN: 1, Dialect.LATER: 2}
"""What knows one dialect only must not open a database of the other."""
_ABOUT: Final[Table[Doc]] = Table(reading.STORE, lambda row: row, lambda row: row, lambda row: row["_id"])


class MongoStore:
    """The store contract over a database."""

    def __init__(
        self, database: Database, timekeeper: Timekeeper, clock: Clock, dialect: Dialect, telemetry: Telemetry = SILENT
    ) -> None:
        self._database = database
        self.dialect = dialect
        self._time = timekeeper
        self._watch = Watch(clock, telemetry)

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Clock,
        entropy: Entropy,
        *,
        timekeeper: Timekeeper | None = None,
        telemetry: Telemetry = SILENT,
        patience: float = PATIENCE,
        dialect: str | None = None,
    ) -> "MongoStore":
        """Open the store that the URL names, made first if need be.

        Leases end by the server's clock, unless another keeper of the time is handed in. For `patience` seconds a
        server that is gone is waited for. The dialect of Disbatch that is named, or that the URL names, counts when the
        store is made; Conflict if the database has another one, or both.
        """
        wanted = dialect or read_option(url, "dialect")
        chosen = _Chosen(None if wanted is None else read_dialect(wanted))
        database = await Database.open(url, entropy, INDEXES, telemetry=telemetry, patience=patience, look=chosen.look)
        store = cls(database, timekeeper or ServerTime(clock), clock, chosen.dialect, telemetry)
        try:
            tag = int.from_bytes(entropy.token(8)) >> 1
            await store._step(store._prepare, tag, "opening the store")
        except BaseException:
            await database.close()
            raise
        return store

    async def _prepare(self, step: Step, tag: int) -> None:
        """Know the store, and void the leases of another boot, whose moments mean nothing."""
        known = await step.draft.get(_ABOUT, "store")
        newest = max(FORMATS.values())
        if known is not None and known["format"] > newest:
            raise StoreNewerVersion(f"the store has format {known['format']}; this Ganger knows {newest}: upgrade it")
        # Two processes may make the store at once, each with another dialect.
        choose_dialect(None if known is None else written_in(known), None, self.dialect)
        about = {"_id": "store", "tag": tag, "format": FORMATS[self.dialect], "boot": step.boot}
        about["dialect"] = str(self.dialect)
        if known is None or known["boot"] != step.boot:
            step.draft.put(_ABOUT, about | ({} if known is None else {"tag": known["tag"]}))
            for row in await step.draft.select(choices.here()):
                lose(step, row)
        await reconcile(step, 1_000)

    @property
    def capabilities(self) -> Capabilities:
        unique = self.dialect is Dialect.LATER
        return Capabilities(durable=True, shared=True, foreign_writers=True, unique_names=unique, distant=True)

    async def close(self) -> None:
        await self._database.close()

    async def _step(self, work: Callable[[Step, R], Awaitable[T]], request: R, doing: str = "") -> T:
        async def run(session: Session) -> T:
            step = Step(session, self._time.read(session.head.at), self._time.boot, self._watch, self.dialect)
            step.indexed = self._database.is_indexed
            reply = await work(step, request)
            await step.finish()
            return reply

        return await self._database.step(run, doing or type(request).__name__)

    async def submit(self, request: Submission) -> Submitted:
        return await self._step(submit, request)

    async def exchange(self, request: Exchange) -> Exchanged:
        done = await self._step(exchange, request)
        if not self._time.offset:
            return done
        due = None if done.next_due is None else Wall(done.next_due + self._time.wall_offset)
        return done._replace(claimed=[self._shift(one) for one in done.claimed], next_due=due)

    def _shift(self, claimed: Claimed) -> Claimed:
        """Its end as a moment of this machine."""
        until = claimed.until
        return claimed if until is None else claimed._replace(until=Moment(until + self._time.offset))

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        return await self._step(write, notes)

    async def edit(self, request: Edits) -> None:
        await self._step(edit, request)

    async def configure(self, request: Configure) -> Configured:
        done = await self._step(_configure, request)
        return done if done.node is None else done._replace(node=shift(done.node, self._time.offset))

    async def tend(self, step: Tend) -> Tended:
        if step.release and await self._is_calm():
            return Tended(0, False, [])
        done = await self._step(tend, step)
        if done.next_at is None:
            return done
        # Of leases it is a moment, of tasks a time of day.
        offset = self._time.offset if step.lapse else self._time.wall_offset
        return done._replace(next_at=done.next_at + offset)

    async def _is_calm(self) -> bool:
        """Would a look at what strangers did find nothing? Asked in place of a step, which costs four times as much."""
        if not self._watch.is_calm(self._database.newest_step()):
            return False
        if not self._watch.is_asking_due():
            return True
        return await self._read(lambda database: database[QUEUES.name].find_one(STRANGE, {"_id": 1})) is None

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return await self._read(lambda database: reading.tasks(database, self._sight, ids))

    async def find(self, query: Query) -> Page:
        return await self._read(lambda database: find(database, query, self._sight))

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return await self._read(lambda database: reading.look(database, self._sight, task, most))

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        part = reading.Part(task, key, start, most, fence)
        return await self._read(lambda database: reading.value(database, self.dialect, part))

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        return await self._read(lambda database: reading.events(database, after, most))

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return await self._read(lambda database: reading.counts(database, self.dialect))

    async def directory(self) -> Directory:
        last = (await self._database.sequences()).get("event", 0)
        return await self._read(lambda database: reading.directory(database, self._sight, last))

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        return await self._read(lambda database: reading.audit(database, after, most))

    @property
    def _sight(self) -> reading.Sight:
        return reading.Sight(self.dialect, self._time.offset)

    @property
    def database(self) -> Database:
        return self._database

    async def orphan_of(self, node: str, act: Act) -> list[TaskId] | None:
        if not await self._read(lambda base: orphaning.knows(base, node)):
            return None
        await self._step(Step.audit, act)
        # The same write again changes nothing more, so it may be tried like a read.
        return await self._read(lambda _: orphaning.orphan(self._database.handle, node))

    async def strangers(self) -> list[Node]:
        return await self._read(neighbours.list_all)

    async def limit_stranger(self, node: str, slots: int | None, act: Act) -> Node | None:
        if not await self._read(lambda base: neighbours.list_all(base, node)):
            return None
        await self._step(Step.audit, act)
        await self._read(lambda _: neighbours.limit(self._database.handle, node, slots))
        return next(iter(await self._read(lambda base: neighbours.list_all(base, node))), None)

    async def list_odd(self, most: int) -> list[Odd]:
        return await self._read(lambda base: recalling.list_odd(base, self.dialect, most))

    async def find_odd(self, id: str) -> Odd | None:
        return await self._read(lambda base: recalling.find_odd(base, self.dialect, id))

    async def holder_of(self, task: TaskId) -> str | None:
        return await self._read(lambda base: neighbours.name_holder(base, task))

    async def _read(self, work: Callable[[Any], Awaitable[T]]) -> T:
        return await self._database.read(work, "reading")

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        return self._database.listen(topics, told)


class _Chosen:
    """Which dialect a database has turned out to have."""

    def __init__(self, wanted: Dialect | None) -> None:
        self._wanted = wanted
        self.dialect = Dialect.PLAIN

    async def look(self, base: Any) -> Wording:
        self.dialect = await look(base, self._wanted)
        return word(self.dialect)


async def _configure(step: Step, request: Configure) -> Configured:
    if request.queue is not None:
        configured = await configure_queue(step, request.queue)
    elif request.node is not None:
        configured = await configure_node(step, request.node, operator=request.act is not None)
    else:
        raise BadInput("name a queue or a node to configure")
    await step.audit(request.act)
    return configured
