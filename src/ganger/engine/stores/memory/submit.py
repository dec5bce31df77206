"""Submit: names are given, parents and groups found, and only then is anything born."""

from collections import Counter, defaultdict
from typing import NamedTuple

from ganger.core.errors import DuplicateKey, QueueNotFound, UnknownGroup, UnknownParent
from ganger.core.event import Entry, Fact
from ganger.core.graph import holds
from ganger.core.ids import QueueId, TaskId
from ganger.core.release import is_unhappy
from ganger.core.state import is_final
from ganger.core.task import SLOTLESS, Kind, NewTask, OnConflict
from ganger.engine.store import Past, Submission, Submitted
from ganger.engine.stores.memory import graph
from ganger.engine.stores.memory.birth import bear
from ganger.engine.stores.memory.notes import put_datum
from ganger.engine.stores.memory.row import Decided, Link, Row
from ganger.engine.stores.memory.step import NO_HOLDER, Step


class Names(NamedTuple):
    """The id of each task of a submission; `fresh` are those that are to be born, `pasts` how some of them ended."""

    ids: list[TaskId]
    fresh: dict[TaskId, NewTask]
    pasts: dict[TaskId, Past]


def submit(step: Step, request: Submission) -> Submitted:
    step.guard(request.under)
    names, existing = _name(step, request.tasks)
    names.pasts.update((names.ids[index], past) for index, past in request.pasts if index not in existing)
    links = {task: _links(step, names, task, new) for task, new in names.fresh.items()}
    rows = [_bear(step, names, task, links[task]) for task in names.fresh]
    _count(step, rows)
    _tell(step, rows)
    for row in rows:
        _refuse_group_cycle(step, row)
    _leave_groups(step, names, rows)
    for row in rows:
        _settle_birth(step, row, links[row.task.id])
    graph.follow(step)
    for index, datum in request.data:
        if index not in existing:
            put_datum(step, names.ids[index], datum)
            if datum.key == "spec":
                step.put(step.tables.rows[names.ids[index]].having(spec_size=datum.size))
    step.audit(request.act)
    return Submitted(names.ids, existing)


def _name(step: Step, tasks: tuple[NewTask, ...]) -> tuple[Names, list[int]]:
    names, existing = Names([], {}, {}), []
    taken: dict[str, TaskId] = {}
    for index, new in enumerate(tasks):
        owner = _owner(step, new, taken)
        names.ids.append(owner or TaskId(step.tables.draw("task")))
        if owner is not None:
            existing.append(index)
        elif new.queue in step.tables.queues:
            names.fresh[names.ids[-1]] = new
        else:
            raise QueueNotFound(f"there is no queue {new.queue}", queue=new.queue)
    return names, existing


def _owner(step: Step, new: NewTask, taken: dict[str, TaskId]) -> TaskId | None:
    """Who has the key already; it is refused if the task asks for that."""
    if new.key is None:
        return None
    owner = taken.get(new.key) or next(iter(step.tables.keys.bucket(new.key)), None)
    if owner is None:
        # The id that is drawn next is this task's own.
        taken[new.key] = TaskId(step.tables.last("task") + 1)
    elif new.on_conflict != OnConflict.RETURN:
        raise DuplicateKey(f"task {owner} has the key {new.key!r}; use another, or ask for that task", task=owner)
    return owner


def _links(step: Step, names: Names, task: TaskId, new: NewTask) -> list[Link]:
    """The edges of a new task in the order in which it names its parents, one for each."""
    links = {link.key: link for link in (_link(step, names, task, *edge) for edge in new.parents)}
    return list(links.values())


def _bear(step: Step, names: Names, task: TaskId, links: list[Link]) -> Row:
    new = names.fresh[task]
    group = _find_group(step, names, new.group) if new.group else None
    row = bear(step, task, new, group, links)
    return row if (past := names.pasts.get(task)) is None else step.put(_end(row, past))


def _end(row: Row, past: Past) -> Row:
    """The row of a task that ended elsewhere."""
    return row.having(
        status=past.status, created=past.created, started=past.started, ended=past.ended, modified=past.ended,
        reason=past.reason, branch=past.branch, attempts=past.attempts, crashes=past.crashes,
    )  # fmt: skip


def _leave_groups(step: Step, names: Names, rows: list[Row]) -> None:
    """A group that is open itself has those members behind it that ended elsewhere."""
    for row in rows:
        past, group = names.pasts.get(row.task.id), row.task.group
        if past is not None and group is not None and group not in names.pasts:
            graph.leave_group(step, group, is_unhappy(past.status, past.reason), {})


def _resolve(names: Names, reference: int) -> TaskId | None:
    """An id as it is; -n is the n-th task of the submission."""
    if reference >= 0:
        return TaskId(reference)
    return names.ids[-reference - 1] if -reference <= len(names.ids) else None


def _link(step: Step, names: Names, child: TaskId, reference: int, on: str) -> Link:
    parent = _resolve(names, reference)
    if parent is not None and parent in names.fresh and reference < 0:
        past = names.pasts.get(parent)
        return Link(child, parent, on, Decided.OPEN if past is None else _judge(on, past.status, past.branch))
    row = None if parent is None else step.tables.rows.get(parent)
    if parent is None or row is None:
        raise UnknownParent(f"there is no task {reference} to be a parent", parent=reference)
    if not is_final(row.task.status):
        return Link(child, parent, on)
    return Link(child, parent, on, _judge(on, row.task.status, row.task.branch))


def _judge(on: str, status: int, branch: bool) -> Decided:
    return Decided.HELD if holds(on, status, branch) else Decided.NEVER


def _find_group(step: Step, names: Names, reference: int) -> TaskId:
    group = _resolve(names, reference)
    if group is not None and group in names.fresh:
        sound = names.fresh[group].kind == Kind.GROUP
    else:
        row = None if group is None else step.tables.rows.get(group)
        sound = row is not None and row.task.kind == Kind.GROUP and not is_final(row.task.status)
    if group is None or not sound:
        raise UnknownGroup(f"task {reference} is no group that still waits for members", group=reference)
    return group


def _count(step: Step, rows: list[Row]) -> None:
    """Tell parents of their new children and groups of their new members."""
    kids = Counter(parent for row in rows for parent, _ in step.tables.parents.bucket(row.task.id))
    members = Counter(row.task.group for row in rows if row.task.group is not None)
    for parent, more in kids.items():
        old = step.tables.rows[parent]
        step.put(old.having(kids=old.task.kids + more))
    for group, more in members.items():
        step.put(step.tables.rows[group].waiting(members=more))


def _tell(step: Step, rows: list[Row]) -> None:
    by_queue: dict[QueueId, list[Entry]] = defaultdict(list)
    for row in rows:
        by_queue[row.task.queue].append(Entry(row.task.id, row.task.status))
    for queue, entries in by_queue.items():
        step.tell(Fact.SUBMITTED, queue, NO_HOLDER, *entries)


def _refuse_group_cycle(step: Step, row: Row) -> None:
    if row.task.group is not None and (row.task.kind == Kind.GROUP or step.tables.parents.bucket(row.task.id)):
        graph.refuse_cycle(step, row.task.group, row.task.id)


def _settle_birth(step: Step, row: Row, links: list[Link]) -> None:
    never = next((link for link in links if link.decided == Decided.NEVER), None)
    if never is not None or row.task.kind in SLOTLESS:
        graph.decide(step, row.task.id, never)
