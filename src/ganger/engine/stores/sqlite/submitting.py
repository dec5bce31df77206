"""How a submission becomes rows: ids first, then births, then what the new tasks mean for others."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from ganger.core.errors import CycleFound, DuplicateKey, QueueNotFound, UnknownGroup
from ganger.core.event import Fact
from ganger.core.graph import Edge, Fate, Join, fate
from ganger.core.ids import QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.lease import Renewal
from ganger.core.queue import Sort
from ganger.core.release import is_unhappy
from ganger.core.state import Status
from ganger.core.task import SLOTLESS, Kind, NewTask, OnConflict
from ganger.databases.sqlite import Session, Together
from ganger.engine.store import INLINE_SPEC, Past, Submission, Submitted
from ganger.engine.stores.sqlite.bulk import Runs
from ganger.engine.stores.sqlite.cascade import Cascade
from ganger.engine.stores.sqlite.guard import check_under
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.linking import Links, count_each
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.rows import Shelved
from ganger.engine.stores.sqlite.step import EntryRow, Step

_LINKED: Final = NewTask(QueueId(0), "")[6:]
"""The end of a task that has a place in a queue, perhaps a description and edges, and nothing else."""

_LIFO: Final = -1
_NO_PASTS: Final[Mapping[TaskId, Past]] = MappingProxyType({})


def submit(session: Session, request: Submission) -> Submitted:
    step = Step(session)
    check_under(step, request.under)
    ids, existing = take_ids(step, request.tasks)
    pasts = {ids[index]: past for index, past in request.pasts if index not in existing}
    Births(step, request.tasks, ids, set(existing), pasts).store()
    if request.data:
        _keep_data(step, request, ids, set(existing))
    step.act(request.act)
    step.finish()
    return Submitted(ids, existing)


def _keep_data(step: Step, request: Submission, ids: list[TaskId], existing: set[int]) -> None:
    for index, datum in request.data:
        if index not in existing:
            size = datum.size if datum.value is None else len(datum.value)
            step.run(Q.data_put, (ids[index], datum.key, datum.value, datum.blob, size))
            if datum.key == "spec":
                step.run(Q.spec_away, (ids[index],))


def _is_one(request: Submission) -> bool:
    """One task that refers to no other: such submissions can be stored as one, and nobody sees a difference."""
    if len(request.tasks) != 1 or request.under is not None or request.act is not None or request.data or request.pasts:
        return False
    (task,) = request.tasks
    return not task.parents and not task.group


def _submit_ones(session: Session, requests: Sequence[Submission]) -> list[Submitted]:
    ids, existing = submit(session, Submission(tuple(request.tasks[0] for request in requests)))
    found = set(existing)
    return [Submitted([number], [0] if index in found else []) for index, number in enumerate(ids)]


TOGETHER: Final = Together(_is_one, _submit_ones)


def take_ids(step: Step, tasks: tuple[NewTask, ...]) -> tuple[list[TaskId], list[int]]:
    """An id for each task, and the indexes of those whose key gave one that is already there."""
    first = step.shelf.next_task
    keyed = [(index, task) for index, task in enumerate(tasks) if task.key is not None]
    step.shelf.next_task = first + len(tasks)
    ids = cast(list[TaskId], list(range(first, first + len(tasks))))
    seen: dict[str, TaskId] = {}
    existing = []
    for index, task in keyed:
        holder = _key_holder(step, task, seen)
        if holder is not None:
            ids[index] = holder
            existing.append(index)
        else:
            seen[str(task.key)] = ids[index]
    return ids, existing


def _key_holder(step: Step, task: NewTask, seen: dict[str, TaskId]) -> TaskId | None:
    key = str(task.key)
    holder = seen.get(key) or next((row[0] for row in step.run(Q.key_holder, (key,))), None)
    if holder is not None and task.on_conflict != OnConflict.RETURN:
        raise DuplicateKey(
            f"the key {key!r} belongs to task {holder}; use another key, or ask for the existing task",
            key=key,
            task=holder,
        )
    return holder


class Path(NamedTuple):
    """Where plain tasks of one queue and kind go: lane, sign of the rank, and the entries of their event."""

    queue: int
    kind: str
    lane: int
    sign: int
    entries: list[EntryRow]


_NOWHERE: Final = Path(0, "", 0, 1, [])


class Births:
    """The new tasks of one submission on their way into the table."""

    def __init__(
        self,
        step: Step,
        tasks: tuple[NewTask, ...],
        ids: list[TaskId],
        existing: set[int],
        pasts: Mapping[TaskId, Past] = _NO_PASTS,
    ) -> None:
        self.step = step
        self.pasts = pasts
        self.tasks = tasks
        self.ids = ids
        self.existing = existing
        self.first = step.shelf.next_task - len(tasks)
        self.entries: dict[int, list[EntryRow]] = {}
        self.doomed: list[tuple[TaskId, str]] = []
        self.groups: list[TaskId] = []
        self.related = [
            task for index, task in enumerate(tasks) if (task.parents or task.group) and index not in existing
        ]
        self.members = self._count_members() if self.related else {}
        self.orders: dict[tuple[int, str, tuple[str, ...]], tuple[int, int, bool]] = {}

    @cached_property
    def links(self) -> Links:
        """Made for those that are related, or have more to them: most submissions need none."""
        families = [task.parents for task in self.related if task.parents]
        return Links(self.step, self.ids, self.existing, families, self.pasts)

    def store(self) -> None:
        step = self.step
        self._store_tasks()
        if self.related:
            self.links.store(self.first)
        if self.members:
            self._tell_elders()
            self._refuse_rings()
        for queue, entries in self.entries.items():
            self._tell(queue, entries)
        refill(step)
        if self.doomed or self.groups or self.pasts:
            cascade = Cascade(step)
            self._store_pasts(cascade)
            cascade.lose(self.doomed)
            cascade.end_groups(self.groups)
            cascade.run()

    def _store_pasts(self, cascade: Cascade) -> None:
        """The ends of those that ended elsewhere; an open group has them behind it."""
        for index, number in enumerate(self.ids):
            if (past := self.pasts.get(number)) is not None and index not in self.existing:
                self.step.run(Q.past_put, past._asdict() | {"id": number})
                if (group := self._open_group(self.tasks[index])) is not None:
                    cascade.leave_group(group, 1, is_unhappy(past.status, past.reason))

    def _store_tasks(self) -> None:
        """The tasks that are plain but for edges in runs, the others on the way. Spelt out for its heat."""
        kids: Mapping[int, int] = self.links.kids if self.related else {}
        pasts, path, runs = self.pasts, _NOWHERE, Runs(self.step)
        for index, task in enumerate(self.tasks):
            number = self.ids[index]
            aim, kind, spec, priority, description, parents = task[:6]
            if task[6:] != _LINKED or len(spec) > INLINE_SPEC or number in pasts:
                self._special(index, task)
                continue
            if aim != path.queue or kind != path.kind:
                if (found := self._path(task)) is None:
                    self._special(index, task)
                    continue
                path = found
            queue, _, lane, sign, entries = path
            status, waits, below = -2, 0, 0
            if parents or number in kids:
                (status, waits), below = self._link(number, parents), kids.get(number, 0)
            entries.append((number, status, 0, None))
            runs.add(number, (queue, lane, status, priority, sign, waits, below, description), spec)
        runs.finish()

    def _path(self, task: NewTask) -> "Path | None":
        """Where tasks of this queue and kind go that have nothing but edges; None if there is more to them."""
        lane, sign, batched = self._order(task)
        if batched or task.kind in SLOTLESS:
            return None
        return Path(task.queue, task.kind, lane, sign, self.entries.setdefault(task.queue, []))

    def _link(self, number: TaskId, parents: tuple[Edge, ...]) -> tuple[int, int]:
        """Store the edges of a task that is plain but for them, as most tasks of a large graph are."""
        _, _, waits, _, dead = self.links.tie(number, parents)
        if dead is not None:
            self.doomed.append((number, dead))
        return Status.BLOCKED if waits or dead is not None else Status.QUEUED, waits

    def _order(self, task: NewTask) -> tuple[int, int, bool]:
        """Lane, sign of the rank, and whether its queue makes batches: looked up once per queue, kind and labels."""
        key = (task.queue, task.kind, task.requires)
        if (order := self.orders.get(key)) is None:
            policy = self._queue(task.queue).queue.policy
            sign = _LIFO if policy.sort == Sort.LIFO else 1
            order = self.step.lane(Lane(task.kind, task.requires)), sign, policy.batch_size is not None
            self.orders[key] = order
            self.step.readied(task.queue, order[0])
        return order

    def _queue(self, number: int) -> Shelved:
        shelved = self.step.shelf.queues.get(number)
        if shelved is None:
            raise QueueNotFound(f"there is no queue {number}; create it first", queue=number)
        return shelved

    def _special(self, index: int, task: NewTask) -> None:
        """A task with more to it than what runs have."""
        if index in self.existing:
            return
        step, number = self.step, self.ids[index]
        lane, sign, _ = self._order(task)
        waits, dead = self._join(number, task)
        due = _due(task, step.wall, waits)
        status: int = _born(task, waits, dead is not None, due, step.wall)
        if (past := self.pasts.get(number)) is not None:
            waits, dead, status = 0, None, past.status
        elif task.kind == Kind.GROUP:
            waits += self.members.get(number, 0) + task.open_group
            self.groups += [number] * (waits == 0)
        step.run(Q.task_insert, (
            number, task.queue, lane, status, task.priority, number * sign, self._spec(number, task.spec),
            step.wall, step.wall, task.limit_key is not None, due, waits, self.links.kids.get(number, 0),
            self._group(task), self._batch(task.queue), task.key, task.limit_key, task.join == Join.ANY, task.delay,
            task.retry, task.timeout, task.renewal == Renewal.TOUCH, task.ttr, task.description, task.retry_of,
            task.open_group,
        ))  # fmt: skip
        self._enter(task.queue, number, status)
        if dead is not None:
            self.doomed.append((number, dead))
        if task.limit_key is not None:
            step.keys.add((task.queue, task.limit_key))

    def _join(self, number: TaskId, task: NewTask) -> tuple[int, str | None]:
        """Store the task's edges; for how many it waits, and why it can never run, if so."""
        _, _, waits, held, dead = self.links.tie(number, task.parents)
        if task.join == Join.ALL:
            return waits, dead
        end = fate(Join.ANY, waits, held)
        return (0 if end == Fate.READY else waits), (dead if end == Fate.LOST else None)

    def _group(self, task: NewTask) -> TaskId | None:
        return self.links.resolve(task.group) if task.group else None

    def _spec(self, number: TaskId, spec: bytes) -> bytes | None:
        if len(spec) <= INLINE_SPEC:
            return spec
        self.step.run(Q.data_put, (number, "spec", spec, None, len(spec)))
        return None

    def _batch(self, queue: int) -> int | None:
        """The batch that the next task of the queue falls into."""
        shelved, step = self._queue(queue), self.step
        size = shelved.queue.policy.batch_size
        if size is None:
            return None
        if shelved.batch == 0 or shelved.fill >= size:
            shelved = shelved._replace(batch=step.shelf.next_batch, fill=0)
            step.shelf.next_batch += 1
        shelved = shelved._replace(fill=shelved.fill + 1)
        step.shelf.put_queue(step.session, shelved, queue)
        step.run(Q.queue_batch, (shelved.batch, shelved.fill, queue))
        return shelved.batch

    def _enter(self, queue: int, number: int, status: int) -> None:
        self.entries.setdefault(queue, []).append((number, status, 0, None))

    def _tell(self, queue: int, entries: list[EntryRow]) -> None:
        step = self.step
        for status, n in count_each([entry[1] for entry in entries]).items():
            step.count(queue, status, n)
        step.woken.add(queue)
        step.tell(Fact.SUBMITTED, queue, 0, entries)

    def _count_members(self) -> dict[TaskId, int]:
        members = [self._open_group(task) for task in self.related if task.group]
        return count_each([group for group in members if group is not None])

    def _open_group(self, task: NewTask) -> TaskId | None:
        """The group that counts the task, if it has one that has not ended itself."""
        group = self._group(task)
        return None if group is None or group in self.pasts else group

    def _tell_elders(self) -> None:
        """Groups that were there before get their new members counted."""
        for group, n in self.members.items():
            if not self._is_born_group(group) and not list(self.step.run(Q.members_add, (n, group))):
                raise UnknownGroup(f"task {group} is not a group that still takes members", task=group)

    def _refuse_rings(self) -> None:
        """A new member of a group that is already there must not wait, in whatever way, for that group."""
        for index, task in enumerate(self.tasks):
            if task.group > 0 and (task.parents or task.kind == Kind.GROUP) and index not in self.existing:
                ((waits,),) = self.step.run(Q.reaches, (task.group, self.ids[index]))
                if waits:
                    raise CycleFound(
                        f"task {index} of the submission waits for group {task.group}, which would wait for it",
                        tasks=[index],
                    )

    def _is_born_group(self, number: int) -> bool:
        """Is it a group of this submission? Then it was born with its members counted."""
        index = number - self.first
        born = 0 <= index < len(self.tasks) and index not in self.existing
        return born and self.tasks[index].kind == Kind.GROUP


def _due(task: NewTask, wall: int, waits: int) -> int | None:
    if task.due is not None:
        return task.due
    return wall + task.delay if task.delay and not waits else None


def _born(task: NewTask, waits: int, doomed: bool, due: int | None, wall: int) -> Status:
    if waits or doomed or task.kind in SLOTLESS:
        return Status.BLOCKED
    return Status.DELAYED if due is not None and due > wall else Status.QUEUED
