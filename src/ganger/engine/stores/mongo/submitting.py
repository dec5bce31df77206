"""Submit: names are given, parents and groups found, and only then is anything born."""

from collections import Counter, defaultdict
from typing import NamedTuple

from ganger.core.errors import DuplicateKey, QueueNotFound, UnknownGroup, UnknownParent
from ganger.core.event import Entry, Fact
from ganger.core.graph import holds
from ganger.core.ids import QueueId, TaskId
from ganger.core.release import is_unhappy
from ganger.core.state import is_final
from ganger.core.task import EXIT, SLOTLESS, Kind, NewTask, OnConflict
from ganger.engine.store import Datum, Past, Submission, Submitted
from ganger.engine.stores.mongo import cascade, choices
from ganger.engine.stores.mongo.birth import bear
from ganger.engine.stores.mongo.exits import show_exit
from ganger.engine.stores.mongo.foreign import read_theirs
from ganger.engine.stores.mongo.noting import put_datum
from ganger.engine.stores.mongo.row import Decided, Link, Row
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.tables import QUEUES


class Names(NamedTuple):
    """The id of each task of a submission; `fresh` are those that are to be born, `pasts` how some of them ended."""

    ids: list[TaskId]
    fresh: dict[TaskId, NewTask]
    pasts: dict[TaskId, Past]


async def submit(step: Step, request: Submission) -> Submitted:
    await step.guard(request.under)
    names, existing = await _name(step, request.tasks)
    names.pasts.update((names.ids[index], past) for index, past in request.pasts if index not in existing)
    await step.load(TaskId(edge.parent) for new in request.tasks for edge in new.parents if edge.parent >= 0)
    links = {task: await _links(step, names, task, new) for task, new in names.fresh.items()}
    rows = [await _bear(step, names, task, links[task]) for task in names.fresh]
    await _count(step, rows, links)
    _tell(step, rows)
    for row in rows:
        await _refuse_group_cycle(step, row, links[row.task.id])
    await _leave_groups(step, names, rows)
    for row in rows:
        await _settle_birth(step, row, links[row.task.id])
    await cascade.follow(step)
    await _put_data(step, request, names, existing)
    await step.audit(request.act)
    return Submitted(names.ids, existing)


async def _put_data(step: Step, request: Submission, names: Names, existing: list[int]) -> None:
    for index, datum in request.data:
        if index not in existing:
            await _put_datum(step, await step.known(names.ids[index]), datum)


async def _put_datum(step: Step, row: Row, datum: Datum) -> None:
    theirs = read_theirs(datum)
    if theirs is not None:
        step.put(row._replace(theirs=theirs))
        return
    await put_datum(step, row.task.id, datum)
    if datum.key == "spec":
        step.put(row.having(spec_size=datum.size))
    if datum.key == EXIT:
        step.put(await show_exit(step, row))


async def _name(step: Step, tasks: tuple[NewTask, ...]) -> tuple[Names, list[int]]:
    names, existing = Names([], {}, {}), []
    taken = await _owners(step, [new.key for new in tasks if new.key is not None])
    await step.draft.load(QUEUES, (new.queue for new in tasks))
    for index, new in enumerate(tasks):
        owner = _owner(step, new, taken)
        names.ids.append(owner or TaskId(step.draw("task")))
        if owner is not None:
            existing.append(index)
        elif await step.queue_row(new.queue) is not None:
            names.fresh[names.ids[-1]] = new
        else:
            raise QueueNotFound(f"there is no queue {new.queue}", queue=new.queue)
    return names, existing


def _owner(step: Step, new: NewTask, taken: dict[str, TaskId]) -> TaskId | None:
    """Who has the key already; it is refused if the task asks for that."""
    if new.key is None:
        return None
    owner = taken.get(new.key)
    if owner is None:
        # The id that is drawn next is this task's own.
        taken[new.key] = TaskId(step.session.last("task") + 1)
    elif new.on_conflict != OnConflict.RETURN:
        raise DuplicateKey(f"task {owner} has the key {new.key!r}; use another, or ask for that task", task=owner)
    return owner


async def _owners(step: Step, keys: list[str]) -> dict[str, TaskId]:
    """Who has these keys now, of several the oldest."""
    found = await step.draft.select(choices.with_keys(keys)) if keys else []
    return {row.task.key: row.task.id for row in reversed(found) if row.task.key is not None}


async def _links(step: Step, names: Names, task: TaskId, new: NewTask) -> list[Link]:
    """The edges of a new task in the order in which it names its parents, one for each."""
    links = {}
    for edge in new.parents:
        link = await _link(step, names, task, *edge)
        links[link.key] = link
    return list(links.values())


async def _bear(step: Step, names: Names, task: TaskId, links: list[Link]) -> Row:
    new = names.fresh[task]
    group = await _find_group(step, names, new.group) if new.group else None
    row = await bear(step, task, new, group, links)
    return row if (past := names.pasts.get(task)) is None else step.put(_end(step, row, past))


def _end(step: Step, row: Row, past: Past) -> Row:
    """The row of a task that ended elsewhere."""
    return row._replace(id=step.face(row.task.id, past.created)).having(
        status=int(past.status), created=past.created, started=past.started, ended=past.ended, modified=past.ended,
        reason=past.reason, branch=past.branch, attempts=past.attempts, crashes=past.crashes,
    )  # fmt: skip


async def _leave_groups(step: Step, names: Names, rows: list[Row]) -> None:
    """A group that is open itself has those members behind it that ended elsewhere."""
    for row in rows:
        past, group = names.pasts.get(row.task.id), row.task.group
        if past is not None and group is not None and group not in names.pasts:
            await cascade.leave_group(step, group, is_unhappy(past.status, past.reason), {})


def _resolve(names: Names, reference: int) -> TaskId | None:
    """An id as it is; -n is the n-th task of the submission."""
    if reference >= 0:
        return TaskId(reference)
    return names.ids[-reference - 1] if -reference <= len(names.ids) else None


async def _link(step: Step, names: Names, child: TaskId, reference: int, on: str) -> Link:
    parent = _resolve(names, reference)
    if parent is not None and parent in names.fresh and reference < 0:
        past = names.pasts.get(parent)
        return Link(child, parent, str(on), Decided.OPEN if past is None else _judge(on, past.status, past.branch))
    row = None if parent is None else await step.row(parent)
    if parent is None or row is None:
        raise UnknownParent(f"there is no task {reference} to be a parent", parent=reference)
    if not is_final(row.task.status):
        return Link(child, parent, str(on))
    return Link(child, parent, str(on), _judge(on, row.task.status, row.task.branch))


def _judge(on: str, status: int, branch: bool) -> Decided:
    return Decided.HELD if holds(on, status, branch) else Decided.NEVER


async def _find_group(step: Step, names: Names, reference: int) -> TaskId:
    group = _resolve(names, reference)
    if group is not None and group in names.fresh:
        sound = names.fresh[group].kind == Kind.GROUP
    else:
        row = None if group is None else await step.row(group)
        sound = row is not None and row.task.kind == Kind.GROUP and not is_final(row.task.status)
    if group is None or not sound:
        raise UnknownGroup(f"task {reference} is no group that still waits for members", group=reference)
    return group


async def _count(step: Step, rows: list[Row], links: dict[TaskId, list[Link]]) -> None:
    """Tell parents of their new children and groups of their new members."""
    kids = Counter(link.parent for row in rows for link in links[row.task.id])
    members = Counter(row.task.group for row in rows if row.task.group is not None)
    for parent, more in kids.items():
        old = await step.known(parent)
        step.put(old.having(kids=old.task.kids + more))
    for group, more in members.items():
        step.put((await step.known(group)).waiting(members=more))


def _tell(step: Step, rows: list[Row]) -> None:
    by_queue: dict[QueueId, list[Entry]] = defaultdict(list)
    for row in rows:
        by_queue[row.task.queue].append(Entry(row.task.id, row.task.status))
    for queue, entries in by_queue.items():
        step.tell(Fact.SUBMITTED, queue, NO_HOLDER, *entries)


async def _refuse_group_cycle(step: Step, row: Row, links: list[Link]) -> None:
    if row.task.group is not None and (row.task.kind == Kind.GROUP or links):
        await cascade.refuse_cycle(step, row.task.group, row.task.id)


async def _settle_birth(step: Step, row: Row, links: list[Link]) -> None:
    never = next((link for link in links if link.decided == Decided.NEVER), None)
    if never is not None or row.task.kind in SLOTLESS:
        await cascade.decide(step, row.task.id, never)
