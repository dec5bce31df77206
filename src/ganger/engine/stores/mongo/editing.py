"""Edits of a graph: each is checked against what is there, and what it means for others is decided at once."""

from ganger.core.errors import BadInput, TaskNotFound, UnknownParent, WrongStatus
from ganger.core.event import Entry, Fact
from ganger.core.graph import Fate, refuse_leased
from ganger.core.ids import Fence, TaskId
from ganger.core.state import WAITING, Status, is_final, move
from ganger.core.task import Task
from ganger.engine.store import Change, Datum, Edit, Edits
from ganger.engine.stores.mongo import cascade
from ganger.engine.stores.mongo.moving import apply
from ganger.engine.stores.mongo.noting import put_datum
from ganger.engine.stores.mongo.removing import forget
from ganger.engine.stores.mongo.row import Link, Row, is_group
from ganger.engine.stores.mongo.spec import from_bytes
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.tables import DATA, datum_key


async def edit(step: Step, request: Edits) -> None:
    await step.guard(request.under)
    for each in request.edits:
        await _refuse_strangers(step, request.under, each.task)
        await _edit_one(step, each)
        await cascade.follow(step)
    await step.audit(request.act)


async def _refuse_strangers(step: Step, under: tuple[TaskId, Fence] | None, task: TaskId) -> None:
    """Whoever acts under a lease may touch that task, its parents and its children."""
    if under is None or task == under[0]:
        return
    family = {link.parent for link in await cascade.links_above(step, under[0])}
    family |= {link.child for link in await cascade.links_below(step, under[0])}
    if task not in family:
        raise WrongStatus(f"task {task} is neither a parent nor a child of task {under[0]}", task=task)


async def _edit_one(step: Step, each: Edit) -> None:
    row = await step.row(each.task)
    if row is None:
        raise TaskNotFound(f"there is no task {each.task}", task=each.task)
    match each:
        case Edit(change=Change() as change):
            await _change(step, row, change)
        case Edit(kill=True):
            await _kill(step, row)
        case Edit(remove=True):
            await _remove(step, row, each.descendants)
        case Edit(datum=Datum() as datum):
            await put_datum(step, row.task.id, datum)
        case _:
            await _edit_edges(step, row, each)


async def _edit_edges(step: Step, row: Row, each: Edit) -> None:
    match each:
        case Edit(link=(parent, on)):
            await _link(step, row, parent, on)
        case Edit(unlink=int(parent)):
            await _unlink(step, row, TaskId(parent))
        case Edit(close_group=True):
            await _close_group(step, row)
        case _:
            raise BadInput("an edit is one of change, kill, remove, link, unlink, close_group and datum")


def _need_waiting(row: Row) -> None:
    if row.task.status not in WAITING:
        raise WrongStatus(f"task {row.task.id} does not wait any more", task=row.task.id, status=row.task.status)


def _tell(step: Step, fact: Fact, task: Task) -> None:
    step.tell(fact, task.queue, NO_HOLDER, Entry(task.id, task.status, task.fence))


async def _change(step: Step, row: Row, change: Change) -> None:
    _need_waiting(row)
    if change.due is not None and change.due > step.wall and row.task.status == Status.QUEUED:
        raise WrongStatus(f"task {row.task.id} is queued already: hold it instead of delaying it", task=row.task.id)
    fields = {name: value for name, value in change._asdict().items() if value is not None and name != "spec"}
    if change.spec is not None:
        fields["spec_size"] = len(change.spec)
        key = datum_key(row.task.id, "spec")
        if await step.draft.get(DATA, key) is not None:
            step.draft.drop(DATA, key)
        row = row._replace(spec=from_bytes(row.task.kind, change.spec))
    step.put(row.having(modified=step.wall, **fields))
    _tell(step, Fact.EDITED, row.task)


async def _kill(step: Step, row: Row) -> None:
    """Mark what is leased, cancel what waits; what has ended already is as dead as it gets."""
    if row.task.status in WAITING:
        await apply(step, move(row.task.id, "cancel")._replace(reason="killed before it ran"))
    elif row.task.holder is not None:
        step.put(row.having(kill=True, modified=step.wall))
        _tell(step, Fact.KILL_REQUESTED, row.task)


async def _link(step: Step, row: Row, parent: TaskId, on: str) -> None:
    _need_waiting(row)
    if await step.row(parent) is None:
        raise UnknownParent(f"there is no task {parent} to be a parent", parent=parent)
    await cascade.refuse_cycle(step, row.task.id, parent)
    touched: cascade.Touched = {}
    await cascade.settle_new_edge(step, Link(row.task.id, parent, str(on)), touched)
    await _note_edit(step, row.task.id)
    await _reconsider(step, touched)


async def _unlink(step: Step, row: Row, parent: TaskId) -> None:
    _need_waiting(row)
    links = [link for link in await cascade.links_above(step, row.task.id) if link.parent == parent]
    for link in links:
        await cascade.drop_edge(step, link)
    await _note_edit(step, row.task.id)
    await _reconsider(step, {row.task.id: None})


async def _note_edit(step: Step, task: TaskId) -> None:
    row = step.put((await step.known(task)).having(modified=step.wall))
    _tell(step, Fact.EDITED, row.task)


async def _reconsider(step: Step, touched: cascade.Touched) -> None:
    """Edges came or went: a task that waits for them no more is released, one that was ready waits again."""
    for task, never in touched.items():
        row = await step.known(task)
        if row.task.status in (Status.QUEUED, Status.DELAYED):
            await _reconsider_ready(step, row, never)
        else:
            await cascade.decide(step, task, never)


async def _reconsider_ready(step: Step, row: Row, never: Link | None) -> None:
    match await cascade.fate_of(step, row, never):
        case Fate.WAITS:
            await apply(step, move(row.task.id, "block"))
        case Fate.LOST:
            await cascade.skip(step, row, never)


async def _remove(step: Step, row: Row, with_descendants: bool) -> None:
    gone = await cascade.all_below(step, row.task.id) if with_descendants else [row.task.id]
    tasks = [(await step.known(task)).task for task in gone]
    refuse_leased([(task.id, task.status) for task in tasks if task.holder is not None])
    touched: cascade.Touched = {}
    for task in gone:
        await _remove_one(step, task, touched, bridge=not with_descendants)
    await _reconsider(step, {task: never for task, never in touched.items() if await step.row(task) is not None})


async def _remove_one(step: Step, task: TaskId, touched: cascade.Touched, bridge: bool) -> None:
    row = await step.known(task)
    if bridge and not is_final(row.task.status):
        await _bridge(step, task, touched)
    if row.task.group is not None and not is_final(row.task.status):
        await cascade.leave_group(step, row.task.group, False, touched)
    await forget(step, row)
    _tell(step, Fact.REMOVED, row.task)


async def _bridge(step: Step, task: TaskId, touched: cascade.Touched) -> None:
    """The children get the parents of the task that goes, and ask of them what they asked of it."""
    for below in await cascade.links_below(step, task):
        touched.setdefault(below.child, None)
        for above in await cascade.links_above(step, task):
            await cascade.settle_new_edge(step, Link(below.child, above.parent, below.on), touched)


async def _close_group(step: Step, row: Row) -> None:
    if not is_group(row.task):
        raise WrongStatus(f"task {row.task.id} is no group", task=row.task.id)
    if row.open:
        step.put(row._replace(open=False).counting())
        await _note_edit(step, row.task.id)
        await cascade.decide(step, row.task.id, None)
