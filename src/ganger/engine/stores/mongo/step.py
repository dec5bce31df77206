"""One atomic step: the instant at which it happens, what it writes, and what it will tell.

Everything inside a step happens at one instant, read once. What it tells is collected and becomes events when the step
ends; which tasks of a concurrency key are parked is settled then too, for every key of which a row was written, so that
whoever wrote it cannot forget that.
"""

from collections.abc import Iterable
from typing import Final

from ganger.core.audit import START, Act, AuditLine, chain
from ganger.core.clock import Moment
from ganger.core.errors import StaleLease
from ganger.core.event import Entry, Event, Fact
from ganger.core.ids import Fence, Position, QueueId, TaskId, to_object_id
from ganger.core.lease import valid
from ganger.core.queue import Queue
from ganger.core.state import LEASED, Status
from ganger.databases.mongo import ObjectId, Session, object_id
from ganger.databases.timekeeping import Reading
from ganger.engine.store import EVENTS_TOPIC, QUEUE_TOPIC
from ganger.engine.stores.mongo import choices, strange
from ganger.engine.stores.mongo.dialect import Dialect
from ganger.engine.stores.mongo.row import NodeRow, QueueRow, Row, Tally
from ganger.engine.stores.mongo.tables import AUDIT, EVENTS, NODES, QUEUES, TALLIES, TASKS, tally_key
from ganger.engine.stores.mongo.watch import Watch

NO_QUEUE: Final = QueueId(0)
NO_HOLDER: Final = 0
EVENT_ENTRIES: Final = 10_000
"""A larger batch is told in several events, each of which a document can hold."""


class Step:
    def __init__(self, session: Session, reading: Reading, boot: str, watch: Watch, dialect: Dialect) -> None:
        """`watch` has what this process knows of strangers."""
        self.session = session
        self.draft = session.draft
        self.now, self.wall, self.steady = reading
        self.boot = boot
        self.watch = watch
        self.dialect = dialect
        self.indexed = True
        """False while the indexes of a large database are being made: only strangers' tasks are found quickly then."""
        self.ended: list[TaskId] = []
        """Tasks that became final and whose edges and groups were not followed yet."""
        self.followed: dict[TaskId, Moment] | None = None
        """Who is followed and until when, once that was asked."""
        self._limits: set[tuple[QueueId, str]] = set()
        self._told: list[tuple[Fact, QueueId, int, str | None, list[Entry]]] = []

    async def row(self, task: TaskId) -> Row | None:
        if self.draft.at_hand(TASKS, task) is None:
            await self.load([task])
        return self.draft.at_hand(TASKS, task)

    async def known(self, task: TaskId) -> Row:
        """A row that must be there: another row names it."""
        row = await self.row(task)
        assert row is not None, f"task {task} is named by another and is not there"
        return row

    async def load(self, tasks: Iterable[TaskId]) -> None:
        """Have these rows at hand: one question instead of many, and another for what strangers made."""
        wanted = [task for task in dict.fromkeys(tasks) if not self.draft.is_known(TASKS, task)]
        await self.draft.load(TASKS, wanted)
        missing = [task for task in wanted if self.draft.at_hand(TASKS, task) is None]
        if missing:
            await strange.load_tasks(self.session, self.dialect, missing)

    def put(self, row: Row) -> Row:
        """Store a row, and remember what follows from that."""
        row = self.draft.put(TASKS, row._replace(known=row.task.status))
        if row.limit is not None:
            self._limits.add(row.limit)
        if row.task.status in (Status.QUEUED, Status.DELAYED):
            self.wake_queue(row.task.queue)
        return row

    def drop(self, row: Row) -> None:
        self.draft.drop(TASKS, row.task.id)
        if row.limit is not None:
            self._limits.add(row.limit)

    async def queue_row(self, queue: QueueId) -> QueueRow | None:
        if self.draft.at_hand(QUEUES, queue) is None:
            await self.load_queues([queue])
        return self.draft.at_hand(QUEUES, queue)

    async def load_queues(self, queues: Iterable[QueueId]) -> None:
        """Have these at hand, ours and those of strangers that were met."""
        wanted = [queue for queue in dict.fromkeys(queues) if not self.draft.is_known(QUEUES, queue)]
        await self.draft.load(QUEUES, wanted)
        missing = [queue for queue in wanted if self.draft.at_hand(QUEUES, queue) is None]
        if missing:
            await strange.load_queues(self.session, self.dialect, missing)

    async def queues(self) -> list[QueueRow]:
        """All queues, in the order of their ids: ours, and those of strangers that were met."""
        rows = await self.draft.select(choices.all_queues())
        known = {row.queue.id for row in rows}
        met = [one.queue for one in await self.draft.select(choices.met()) if one.queue not in known]
        await self.load_queues(met)
        others = [self.draft.at_hand(QUEUES, queue) for queue in met]
        return sorted([*rows, *(row for row in others if row is not None)], key=lambda row: row.queue.id)

    async def queue(self, queue: QueueId) -> Queue:
        row = await self.queue_row(queue)
        assert row is not None, f"queue {queue} is named by a task and is not there"
        return row.queue

    async def node(self, node: int | None) -> NodeRow | None:
        if node is None:
            return None
        return await self.draft.get(NODES, node)

    def draw(self, sequence: str) -> int:
        return self.session.draw(sequence)

    def face(self, number: int, made: int | None = None) -> ObjectId:
        """The object id of something that was made then, or now, and has this number."""
        return object_id(to_object_id((self.wall if made is None else made) // 1000, TaskId(number)))

    def tell(self, fact: Fact, queue: QueueId, holder: int, *entries: Entry, subject: str | None = None) -> None:
        """One fact. What follows the same fact of the same queue and holder becomes one event with it."""
        if entries and self._told and self._told[-1][:3] == (fact, queue, holder):
            self._told[-1][4].extend(entries)
        else:
            self._told.append((fact, queue, holder, subject, list(entries)))

    def wake(self, topic: str) -> None:
        self.session.topics[topic] = None

    def wake_queue(self, queue: QueueId) -> None:
        self.wake(QUEUE_TOPIC.format(queue))

    def is_over(self, until: int, term: int) -> bool:
        """Has a lease of that length ended? Only a clock that has gone evenly for as long can say so."""
        return not valid(None, Moment(until), self.now) and self.steady >= term

    def is_live(self, row: NodeRow) -> bool:
        return row.boot == self.boot and row.node.here and not self.is_over(row.node.until, row.term)

    async def lease_valid(self, row: Row) -> bool:
        """Is the lease of this task good at this instant?"""
        task = row.task
        node = await self.node(task.holder) if task.status in LEASED else None
        if node is None or not self.is_live(node):
            return False
        return task.until is None or not self.is_over(task.until, row.term)

    async def guard(self, under: tuple[TaskId, Fence] | None) -> None:
        """Refuse whoever says to hold a lease and does not."""
        if under is None:
            return
        row = await self.row(under[0])
        if row is None or row.task.fence != under[1] or not await self.lease_valid(row):
            raise StaleLease(
                f"the lease of task {under[0]} with fence {under[1]} has ended; stop working on it", task=under[0]
            )

    async def recheck_limits(self, queue: QueueId) -> None:
        """A policy changed: every concurrency key of the queue is settled anew."""
        keys = await self.draft.distinct(choices.any_limited(queue), "ganger.limit_key", lambda row: row.task.limit_key)
        self._limits.update((queue, key) for key in keys)

    async def settle_limits(self) -> None:
        """Park the queued tasks of each touched key that its limit leaves no place for, and let out the best others."""
        for limit in sorted(self._limits):
            await self._settle_limit(*limit)
        self._limits.clear()

    async def _settle_limit(self, queue: QueueId, key: str) -> None:
        row = await self.queue_row(queue)
        most = None if row is None else row.queue.policy.max_per_key
        if most is None:
            chosen = await self.draft.select(choices.limited(queue, key, parked=True))
        else:
            places = max(0, most - await self.draft.count(choices.active_of_key(queue, key)))
            chosen = await self.draft.select(choices.limited(queue, key), places)
            await self._park_others(queue, key, {one.task.id for one in chosen})
        for one in chosen:
            if one.task.parked:
                self.put(one.having(parked=False))

    async def _park_others(self, queue: QueueId, key: str, chosen: set[TaskId]) -> None:
        for row in await self.draft.select(choices.limited(queue, key, parked=False)):
            if row.task.id not in chosen:
                self.put(row.having(parked=True))

    async def audit(self, act: Act | None) -> None:
        if act is None:
            return
        last = Position(self.session.last("audit"))
        line = await self.draft.get(AUDIT, last)
        before = START if line is None else line.hash
        position = Position(self.draw("audit"))
        self.draft.put(AUDIT, AuditLine(position, self.wall, *act, chain(before, position, self.wall, act)))

    async def finish(self) -> None:
        """The end of the step: limits settled, events written, tallies counted."""
        await self.settle_limits()
        await self.draft.load(TALLIES, [tally_key(queue, fact) for fact, queue, *_ in self._told])
        for fact, queue, holder, subject, entries in self._told:
            for start in range(0, max(1, len(entries)), EVENT_ENTRIES):
                self._write_event(fact, queue, holder, subject, entries[start : start + EVENT_ENTRIES])
        if self._told:
            self.wake(EVENTS_TOPIC)

    def _write_event(self, fact: Fact, queue: QueueId, holder: int, subject: str | None, entries: list[Entry]) -> None:
        position = Position(self.draw("event"))
        self.draft.put(EVENTS, Event(position, self.wall, fact, queue, holder, tuple(entries), subject))
        tally = self.draft.at_hand(TALLIES, tally_key(queue, fact)) or Tally(queue, str(fact), 0)
        self.draft.put(TALLIES, tally._replace(n=tally.n + max(1, len(entries))))
