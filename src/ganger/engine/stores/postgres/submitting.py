"""How a submission becomes rows: ids first, then births, then what the new tasks mean for others.

Ids are positions, so they are drawn behind the turnstile, and the rows are stored behind it: no task can come to light
with a smaller id than one that was seen before. What must be looked at under locks of its own is looked at first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ganger.core.errors import CycleFound, DuplicateKey, QueueNotFound, UnknownGroup
from ganger.core.event import Fact
from ganger.core.graph import Fate, Join, fate
from ganger.core.ids import QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.lease import Renewal
from ganger.core.queue import Queue, Sort
from ganger.core.release import is_unhappy
from ganger.core.state import Status
from ganger.core.task import SLOTLESS, Kind, NewTask, OnConflict
from ganger.engine.store import INLINE_SPEC, Datum, Past, Submission, Submitted
from ganger.engine.stores.postgres.batching import Batches, read_batches
from ganger.engine.stores.postgres.cascade import Cascade
from ganger.engine.stores.postgres.guard import check_under
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.linking import Links
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import columns
from ganger.engine.stores.postgres.step import EntryRow, Step

_PLAIN: Final = NewTask(QueueId(0), "")[4:]
"""The end of a task that has a place in a queue and nothing else."""

_LIFO: Final = -1
_NO_PASTS: Final[Mapping[TaskId, Past]] = MappingProxyType({})
_WIDTH: Final = 24


def is_woven(request: Submission) -> bool:
    """Does it tie tasks to others, or to a limit that they share?"""
    return any(task.parents or task.group or task.limit_key is not None for task in request.tasks)


async def submit(step: Step, request: Submission) -> Submitted:
    await check_under(step, request.under)
    if is_woven(request):
        step.run_alone()
    orders = await find_orders(step, request.tasks)
    ids, existing = await take_ids(step, request.tasks)
    pasts = {ids[index]: past for index, past in request.pasts if index not in existing}
    await Births(step, request.tasks, ids, set(existing), orders, pasts=pasts).store()
    await _keep_data(step, [(ids[index], datum) for index, datum in request.data if index not in existing])
    await step.act(request.act)
    await step.finish()
    return Submitted(ids, existing)


async def _keep_data(step: Step, data: list[tuple[TaskId, Datum]]) -> None:
    rows = [
        (task, datum.key, datum.value, datum.blob, datum.size if datum.value is None else len(datum.value))
        for task, datum in data
    ]
    if rows:
        await step.run(Q.data_put_all, *columns(rows, 5))
    if away := [task for task, datum in data if datum.key == "spec"]:
        await step.run(Q.spec_away, away)


Order = tuple[int, int, Queue]
"""Where tasks of one queue, kind and labels go: their lane, the sign of their rank, and the queue."""
Orders = dict[tuple[int, str, tuple[str, ...]], Order]


async def find_orders(step: Step, tasks: Sequence[NewTask]) -> Orders:
    """Looked up once per queue, kind and labels. A lane that is new is made here, before the turnstile."""
    orders: Orders = {}
    for number, kind, requires in dict.fromkeys((task.queue, task.kind, task.requires) for task in tasks):
        queue = step.shelf.queues.get(number)
        if queue is None:
            # Refused when a task is born into it: one whose key gives an older task is not.
            continue
        sign = _LIFO if queue.policy.sort == Sort.LIFO else 1
        orders[number, kind, requires] = await step.lane(Lane(kind, requires)), sign, queue
    return orders


async def take_ids(step: Step, tasks: Sequence[NewTask]) -> tuple[list[TaskId], list[int]]:
    """Pass the turnstile: an id for each task, and the indexes of those whose key gave one that is already there."""
    ((first, _, _, _),) = await step.run(Q.turnstile, len(tasks), 0)
    ids = [TaskId(number) for number in range(first, first + len(tasks))]
    keyed = [(index, task.key, task) for index, task in enumerate(tasks) if task.key is not None]
    if not keyed:
        return ids, []
    owners = dict(await step.run(Q.keys_taken, [key for _, key, _ in keyed]))
    existing, fresh = [], []
    for index, key, task in keyed:
        if key in owners:
            _refuse_owned(task, owners[key])
            ids[index] = TaskId(owners[key])
            existing.append(index)
        else:
            owners[key] = ids[index]
            fresh.append((key, ids[index]))
    await step.run(Q.keys_put, *columns(fresh, 2))
    return ids, existing


def _refuse_owned(task: NewTask, owner: int) -> None:
    if task.on_conflict != OnConflict.RETURN:
        raise DuplicateKey(
            f"the key {task.key!r} belongs to task {owner}; use another key, or ask for the existing task",
            key=task.key,
            task=owner,
        )


class Births:
    """The new tasks of one submission on their way into the table."""

    def __init__(
        self,
        step: Step,
        tasks: Sequence[NewTask],
        ids: list[TaskId],
        existing: set[int],
        orders: Orders,
        *,
        pasts: Mapping[TaskId, Past] = _NO_PASTS,
    ) -> None:
        self.step = step
        self.born = [(ids[index], task) for index, task in enumerate(tasks) if index not in existing]
        self.orders = orders
        self.entries: dict[int, list[EntryRow]] = {}
        self.doomed: list[tuple[int, str]] = []
        self.groups: list[int] = []
        self.links = Links(step, ids, existing)
        self.members: Counter[TaskId] = Counter()
        self.batches = Batches({}, {}, iter(()))
        self.specs: list[tuple[int, bytes]] = []
        self.pasts = pasts

    async def store(self) -> None:
        for _, task in self.born:
            if task.queue not in self.step.shelf.queues:
                raise QueueNotFound(f"there is no queue {task.queue}; create it first", queue=task.queue)
        related = [task for _, task in self.born if task.parents or task.group]
        if related:
            await self.links.learn([task.parents for task in related if task.parents], self.pasts)
            self.members = Counter(group for task in related if task.group and (group := self._open_group(task)))
        await self._store_rows()
        await self.links.store()
        await self._tell_elders()
        await self._store_pasts()
        await self._refuse_rings()
        for queue, entries in self.entries.items():
            self._tell(queue, entries)
        await refill(self.step)
        cascade = Cascade(self.step)
        await cascade.lose(self.doomed)
        await cascade.end_groups(self.groups)
        await cascade.run()

    async def _store_rows(self) -> None:
        self.batches = await read_batches(self.step, [task.queue for _, task in self.born])
        plain: list[tuple[Any, ...]] = []
        special: list[tuple[Any, ...]] = []
        for number, task in self.born:
            lane, sign, queue = self.orders[task.queue, task.kind, task.requires]
            if task[4:] == _PLAIN and number not in self.pasts and self._is_plain(number, task, queue):
                plain.append((number, queue.id, lane, task[3], number * sign, task[2]))
                self._enter(queue.id, number, Status.QUEUED)
            else:
                special.append(self._special(number, task, lane, sign))
        if plain:
            await self.step.run(Q.task_insert_plain, self.step.wall, *columns(plain, 6))
        if special:
            await self.step.run(Q.task_insert, self.step.wall, *columns(special, _WIDTH))
        await self._store_rest()

    def _is_plain(self, number: TaskId, task: NewTask, queue: Queue) -> bool:
        small = len(task.spec) <= INLINE_SPEC and number not in self.links.kids
        return small and task.kind not in SLOTLESS and queue.policy.batch_size is None

    async def _store_rest(self) -> None:
        if self.specs:
            rows = [(number, "spec", spec, None, len(spec)) for number, spec in self.specs]
            await self.step.run(Q.data_put_all, *columns(rows, 5))
        await self.batches.store(self.step)

    def _special(self, number: TaskId, task: NewTask, lane: int, sign: int) -> tuple[Any, ...]:
        """A task with more to it than a queue, a kind, a spec and a priority."""
        waits, dead = self._join(number, task)
        due = _due(task, self.step.wall, waits)
        status: int = _born(task, waits, dead is not None, due, self.step.wall)
        if (past := self.pasts.get(number)) is not None:
            waits, dead, status = 0, None, past.status
        elif task.kind == Kind.GROUP:
            waits += self.members.get(number, 0) + task.open_group
            self.groups += [number] * (waits == 0)
        if dead is not None:
            self.doomed.append((number, dead))
        if task.limit_key is not None:
            self.step.keys.add((task.queue, task.limit_key))
        self._enter(task.queue, number, status)
        return (
            number, task.queue, lane, int(status), task.priority, number * sign, self._spec(number, task.spec),
            task.limit_key is not None, due, waits, self.links.kids[number], self._group(task),
            self.batches.next(task.queue), task.key, task.limit_key, task.join == Join.ANY, task.delay, task.retry,
            task.timeout, task.renewal == Renewal.TOUCH, task.ttr, task.description, task.retry_of, task.open_group,
        )  # fmt: skip

    def _join(self, number: TaskId, task: NewTask) -> tuple[int, str | None]:
        """Keep the task's edges; for how many it waits, and why it can never run, if so."""
        waits, held, dead = self.links.tie(number, task.parents)
        if task.join == Join.ALL or not task.parents:
            return waits, dead
        end = fate(Join.ANY, waits, held)
        return (0 if end == Fate.READY else waits), (dead if end == Fate.LOST else None)

    def _open_group(self, task: NewTask) -> TaskId | None:
        """The group that counts the task: not one that has ended itself."""
        group = self.links.resolve(task.group)
        return None if group in self.pasts else group

    async def _store_pasts(self) -> None:
        """The ends of those that ended elsewhere; an open group has them behind it."""
        if not self.pasts:
            return
        rows = [
            (number, past.created, past.ended, past.started, past.reason, past.branch, past.attempts, past.crashes)
            for number, past in self.pasts.items()
        ]
        await self.step.run(Q.past_put, *columns(rows, 8))
        over = [
            (group, self.pasts[number])
            for number, task in self.born
            if number in self.pasts and task.group and (group := self._open_group(task)) is not None
        ]
        gone, bad = (
            Counter(group for group, _ in over),
            Counter(group for group, past in over if is_unhappy(past.status, past.reason)),
        )
        if gone:
            await self.step.run(
                Q.members_ended, self.step.wall, *columns([(*row, bad[row[0]]) for row in gone.items()], 3)
            )
            self.groups += gone

    def _group(self, task: NewTask) -> TaskId | None:
        return self.links.resolve(task.group) if task.group else None

    def _spec(self, number: TaskId, spec: bytes) -> bytes | None:
        if len(spec) <= INLINE_SPEC:
            return spec
        self.specs.append((number, spec))
        return None

    def _enter(self, queue: int, number: int, status: int) -> None:
        self.entries.setdefault(queue, []).append((number, int(status), 0, None))

    def _tell(self, queue: int, entries: list[EntryRow]) -> None:
        step = self.step
        for status, n in Counter(entry[1] for entry in entries).items():
            step.count(queue, status, n)
        step.woken.add(queue)
        step.tell(Fact.SUBMITTED, queue, 0, entries)

    async def _tell_elders(self) -> None:
        """Groups that were there before get their new members counted."""
        born = {number for number, task in self.born if task.kind == Kind.GROUP}
        for group, n in self.members.items():
            if group not in born and not await self.step.run(Q.members_add, n, group):
                raise UnknownGroup(f"task {group} is not a group that still takes members", task=group)

    async def _refuse_rings(self) -> None:
        """A new member of a group that is already there must not wait, in whatever way, for that group."""
        bound = [(number, task) for number, task in self.born if task.group > 0]
        for number, task in bound:
            waits = task.parents or task.kind == Kind.GROUP
            if waits and await self.step.one(Q.reaches, task.group, number):
                raise CycleFound(f"task {number} would wait for group {task.group}, which waits for it")


def _due(task: NewTask, wall: int, waits: int) -> int | None:
    if task.due is not None:
        return task.due
    return wall + task.delay if task.delay and not waits else None


def _born(task: NewTask, waits: int, doomed: bool, due: int | None, wall: int) -> Status:
    if waits or doomed or task.kind in SLOTLESS:
        return Status.BLOCKED
    return Status.DELAYED if due is not None and due > wall else Status.QUEUED
