"""What an attempt may make and change, whatever the door by which it comes.

What can go wrong, and why this is right:

- *It fills a queue that is not its own*, so that another node runs what it wrote. What it makes or changes is of its
  own queue, or of one that its node may fill.
- *It has something run that it is not.* A function that adds a script would have every node of its queue for a shell.
  So what it makes is of its own kind; commands and scripts count as one, since each can do what the other does. Groups
  run nowhere. A condition that asks about a place does what a command does.
- *It puts something elsewhere in the graph.* What it makes is behind itself or behind a child of its own, and what it
  changes is a parent, a child or itself. Whom its child may wait for is of its family as well.
- *It learns of others by their keys.* A key that belongs to a task which is not below it is refused as taken.
- *It has the results of others handed to a function* that it adds, as an argument: those of its family alone may be.
- *Its schedule submits what it may not.* Schedules are made by operators.

Whether the lease still holds is not asked here but by the store, in the step that writes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ganger.core.errors import DuplicateKey, NotAllowed
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.schedule import QUEUE as SCHEDULES
from ganger.core.task import Kind, NewTask, Task
from ganger.core.token import Attempt
from ganger.engine.descent import Descent
from ganger.engine.family import Relatives, read_family
from ganger.engine.queues import Queues
from ganger.engine.store import Edit, Query, Store
from ganger.wire.references import list_references
from ganger.wire.specs import AfterDelay, AtTime, ConditionSpec, Expression, decode

MOST: Final = 10_000
"""So many relatives of each side are known."""

_PROGRAMS: Final = frozenset({Kind.COMMAND, Kind.SHELL})
_PLACELESS: Final = (AtTime, AfterDelay, Expression)


class Judges(Protocol):
    """Says of what attempts ask for whether it may be."""

    async def check_new(self, attempt: Attempt, tasks: Sequence[NewTask]) -> None: ...

    async def check_edits(self, attempt: Attempt, edits: Sequence[Edit]) -> None: ...


class Elsewhere:
    """The engine behind the server judges."""

    async def check_new(self, attempt: Attempt, tasks: Sequence[NewTask]) -> None:
        return

    async def check_edits(self, attempt: Attempt, edits: Sequence[Edit]) -> None:
        return


class Walls:
    """Judges what attempts ask for. NotAllowed names the wall; StaleLease: the attempt is over."""

    def __init__(self, store: Store, queues: Queues) -> None:
        self._store = store
        self._queues = queues

    async def check_new(self, attempt: Attempt, tasks: Sequence[NewTask]) -> None:
        """May it submit these? Uses: look, tasks, directory, find (with keys alone)."""
        family = await read_family(self._store, attempt.lease, MOST)
        below = {family.itself.id, *(child.task.id for child in family.children)}
        for index, task in enumerate(tasks):
            what = f"task {index} of the submission"
            _check_place(what, task, family.itself.id, below)
            await self._check_queue(what, task.queue, attempt, family.itself)
            _check_kind(what, task.kind, task.spec, family.itself)
            _check_arguments(what, task.kind, task.spec, family)
        await self._check_keys(tasks, below)

    async def check_edits(self, attempt: Attempt, edits: Sequence[Edit]) -> None:
        """May it make these edits? Uses: look, tasks, directory, find (with descendants alone)."""
        family = await read_family(self._store, attempt.lease, MOST)
        known = {task.id: task for task in _list_all(family)}
        for edit in edits:
            _check_kin(edit.task, known, attempt.lease)
            if edit.datum is None:
                await self._check_edit(edit, attempt, family, known)

    async def _check_edit(self, edit: Edit, attempt: Attempt, family: Relatives, known: dict[TaskId, Task]) -> None:
        own, changed = family.itself, [known[edit.task]]
        if edit.link is not None:
            _check_kin(edit.link[0], known, attempt.lease)
        if edit.descendants:
            changed = await self._list_below(edit.task)
        spec = None if edit.change is None else edit.change.spec
        for task in changed:
            await self._check_queue(f"task {task.id}", task.queue, attempt, own)
            _check_kind(f"task {task.id}", task.kind, spec, own)
            _check_arguments(f"task {task.id}", task.kind, spec or b"", family)

    async def _list_below(self, task: TaskId) -> list[Task]:
        descent = Descent(self._store, task)
        await descent.open()
        return [found for found in await self._store.tasks(sorted(descent.members)) if found is not None]

    async def _check_queue(self, what: str, queue: int, attempt: Attempt, own: Task) -> None:
        name = (await self._queues.get(QueueId(queue))).name
        may_fill = queue == own.queue or attempt.queues is None or name in attempt.queues
        if name == SCHEDULES or not may_fill:
            raise NotAllowed(
                f"{what} is of the queue {name!r}: task {own.id} may fill its own queue, and those that the token of "
                "its node may submit to",
                task=own.id,
                queue=queue,
            )

    async def _check_keys(self, tasks: Sequence[NewTask], below: set[TaskId]) -> None:
        """A key that is taken is taken by a task that an attempt before this one added, or by this one itself."""
        known = set(below)
        for index, task in enumerate(tasks):
            for found in (await self._store.find(Query(key=task.key, most=1))).tasks if task.key else ():
                parents = (await self._store.look(found.id, MOST)).family.parents
                if known.isdisjoint(parent for parent, _ in parents):
                    raise DuplicateKey(f"task {index} of the submission: its key is taken", index=index, key=task.key)
                known.add(found.id)


def _list_all(family: Relatives) -> list[Task]:
    return [family.itself, *(one.task for one in (*family.parents, *family.children))]


def _check_kin(task: TaskId, known: Iterable[TaskId], lease: Lease) -> None:
    if task not in known:
        raise NotAllowed(f"task {task} is neither a parent nor a child of task {lease.task}", task=task)


def _check_place(what: str, task: NewTask, own: TaskId, below: set[TaskId]) -> None:
    """It waits for something, and all that it waits for and is not new is the attempt or a child of it."""
    parents = {edge.parent for edge in task.parents}
    if not parents or any(parent > 0 and parent not in below for parent in parents):
        raise NotAllowed(f"{what} is not below task {own}: an attempt adds behind itself and its children", task=own)
    if task.group > 0 or task.retry_of is not None:
        raise NotAllowed(f"{what} names a task that is not below task {own}", task=own)


def _check_kind(what: str, kind: str, spec: bytes | None, own: Task) -> None:
    """`spec` None: it stays what it is."""
    if kind in (own.kind, Kind.GROUP) or (kind in _PROGRAMS and own.kind in _PROGRAMS):
        return
    if kind == Kind.CONDITION and (spec is None or own.kind in _PROGRAMS or _is_placeless(spec)):
        return
    sort = "condition that asks about a place" if kind == Kind.CONDITION else kind
    raise NotAllowed(f"{what} is a {sort}: task {own.id} is a {own.kind}, and makes and changes its like", task=own.id)


def _check_arguments(what: str, kind: str, spec: bytes, family: Relatives) -> None:
    """Results that are its arguments are of the family: those it may read anyway."""
    if strange := list_references(kind, spec) - {task.id for task in _list_all(family)}:
        raise NotAllowed(
            f"{what} asks for the result of task {min(strange)}, which is neither parent nor child of task "
            f"{family.itself.id}",
            task=min(strange),
        )


def _is_placeless(spec: bytes) -> bool:
    probe: object = decode(spec, ConditionSpec).probe
    return isinstance(probe, _PLACELESS)
