"""One atomic step: the instant at which it happens, what it writes, and what it will tell.

Everything inside a step happens at one instant, read once. What it tells is collected and becomes events when the step
ends; which tasks of a concurrency key are parked is settled then too, for every key of which a row was written, so that
whoever wrote it cannot forget that.
"""

from collections.abc import Sequence
from typing import Final

from ganger.core.audit import START, Act, AuditLine, chain
from ganger.core.clock import Moment, Wall
from ganger.core.errors import StaleLease
from ganger.core.event import Entry, Event, Fact
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.lease import valid
from ganger.core.queue import Queue
from ganger.core.state import LEASED, Status
from ganger.core.task import Task
from ganger.engine.store import EVENTS_TOPIC, QUEUE_TOPIC
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.tables import Tables

NO_QUEUE: Final = QueueId(0)
NO_HOLDER: Final = 0


class Step:
    def __init__(self, tables: Tables, now: Moment, wall: Wall, boot: str) -> None:
        self.tables = tables
        self.now = now
        self.wall = wall
        self.boot = boot
        self.topics: dict[str, None] = {}
        self.ended: list[TaskId] = []
        """Tasks that became final and whose edges and groups were not followed yet."""
        self._limits: set[tuple[QueueId, str]] = set()
        self._told: list[tuple[Fact, QueueId, int, str | None, list[Entry]]] = []

    def put(self, row: Row) -> Row:
        """Store a row, and remember what follows from that."""
        self.tables.rows.put(row.task.id, row)
        if row.limit is not None:
            self._limits.add(row.limit)
        if row.task.status in (Status.QUEUED, Status.DELAYED):
            self.wake_queue(row.task.queue)
        return row

    def drop(self, row: Row) -> None:
        self.tables.rows.drop(row.task.id)
        if row.limit is not None:
            self._limits.add(row.limit)

    def queue(self, queue: QueueId) -> Queue:
        return self.tables.queues[queue].queue

    def tell(self, fact: Fact, queue: QueueId, holder: int, *entries: Entry, subject: str | None = None) -> None:
        """One fact. What follows the same fact of the same queue and holder becomes one event with it."""
        if entries and self._told and self._told[-1][:3] == (fact, queue, holder):
            self._told[-1][4].extend(entries)
        else:
            self._told.append((fact, queue, holder, subject, list(entries)))

    def wake(self, topic: str) -> None:
        self.topics[topic] = None

    def wake_queue(self, queue: QueueId) -> None:
        self.wake(QUEUE_TOPIC.format(queue))

    def lease_valid(self, task: Task) -> bool:
        """Is the lease of this task good at this instant?"""
        row = None if task.holder is None else self.tables.nodes.get(task.holder)
        if row is None or task.status not in LEASED or row.boot != self.boot or not row.node.here:
            return False
        return valid(task.until, row.node.until, self.now)

    def guard(self, under: tuple[TaskId, Fence] | None) -> None:
        """Refuse whoever says to hold a lease and does not."""
        if under is None:
            return
        row = self.tables.rows.get(under[0])
        if row is None or row.task.fence != under[1] or not self.lease_valid(row.task):
            raise StaleLease(
                f"the lease of task {under[0]} with fence {under[1]} has ended; stop working on it", task=under[0]
            )

    def recheck_limits(self, queue: QueueId) -> None:
        """A policy changed: every concurrency key of the queue is settled anew."""
        self._limits.update(name for name in self.tables.limited.names() if name[0] == queue)

    def settle_limits(self) -> None:
        """Park the queued tasks of each touched key that its limit leaves no place for, and let out the best others."""
        for limit in sorted(self._limits):
            self._settle_limit(*limit)
        self._limits.clear()

    def _settle_limit(self, queue: QueueId, key: str) -> None:
        queued = self.tables.limited.bucket((queue, key))
        best = queued[: self._places(queue, key, len(queued))]
        chosen = {task for _, _, task in best}
        out = [task for _, _, task in self.tables.unparked.bucket((queue, key)) if task not in chosen]
        for task in out:
            self.put(self.tables.rows[task].having(parked=True))
        for task in chosen:
            if self.tables.rows[task].task.parked:
                self.put(self.tables.rows[task].having(parked=False))

    def _places(self, queue: QueueId, key: str, queued: int) -> int:
        row = self.tables.queues.get(queue)
        most = None if row is None else row.queue.policy.max_per_key
        return queued if most is None else max(0, most - len(self.tables.active_of_key.bucket((queue, key))))

    def audit(self, act: Act | None) -> None:
        if act is None:
            return
        last = Position(self.tables.last("audit"))
        before = self.tables.audit[last].hash if last else START
        position = Position(self.tables.draw("audit"))
        line = AuditLine(position, self.wall, *act, chain(before, position, self.wall, act))
        self.tables.audit.put(position, line)

    def finish(self) -> None:
        """The end of the step: limits settled, events written, tallies counted."""
        self.settle_limits()
        for fact, queue, holder, subject, entries in self._told:
            self._write_event(fact, queue, holder, subject, entries)
        if self._told:
            self.wake(EVENTS_TOPIC)

    def _write_event(
        self, fact: Fact, queue: QueueId, holder: int, subject: str | None, entries: Sequence[Entry]
    ) -> None:
        position = Position(self.tables.draw("event"))
        self.tables.events.put(position, Event(position, self.wall, fact, queue, holder, tuple(entries), subject))
        tally = self.tables.tallies.get((queue, fact)) or 0
        self.tables.tallies.put((queue, fact), tally + max(1, len(entries)))
