"""Edits of a graph: each is checked against what is there, and what it means for others is decided at once."""

from ganger.core.errors import BadInput, TaskNotFound, UnknownParent, WrongStatus
from ganger.core.event import Entry, Fact
from ganger.core.graph import Fate, refuse_leased
from ganger.core.ids import Fence, TaskId
from ganger.core.state import WAITING, Status, is_final, move
from ganger.core.task import Task
from ganger.engine.store import Change, Datum, Edit, Edits
from ganger.engine.stores.memory import graph
from ganger.engine.stores.memory.moves import apply
from ganger.engine.stores.memory.notes import put_datum
from ganger.engine.stores.memory.removal import forget
from ganger.engine.stores.memory.row import Link, Row, is_group
from ganger.engine.stores.memory.step import NO_HOLDER, Step


def edit(step: Step, request: Edits) -> None:
    step.guard(request.under)
    for each in request.edits:
        _refuse_strangers(step, request.under, each.task)
        _edit_one(step, each)
        graph.follow(step)
    step.audit(request.act)


def _refuse_strangers(step: Step, under: tuple[TaskId, Fence] | None, task: TaskId) -> None:
    """Whoever acts under a lease may touch that task, its parents and its children."""
    if under is None or task == under[0]:
        return
    family = {parent for parent, _ in step.tables.parents.bucket(under[0])}
    family |= {child for child, _ in step.tables.children.bucket(under[0])}
    if task not in family:
        raise WrongStatus(f"task {task} is neither a parent nor a child of task {under[0]}", task=task)


def _edit_one(step: Step, each: Edit) -> None:
    row = step.tables.rows.get(each.task)
    if row is None:
        raise TaskNotFound(f"there is no task {each.task}", task=each.task)
    match each:
        case Edit(change=Change() as change):
            _change(step, row, change)
        case Edit(kill=True):
            _kill(step, row)
        case Edit(remove=True):
            _remove(step, row, each.descendants)
        case Edit(datum=Datum() as datum):
            put_datum(step, row.task.id, datum)
        case _:
            _edit_edges(step, row, each)


def _edit_edges(step: Step, row: Row, each: Edit) -> None:
    match each:
        case Edit(link=(parent, on)):
            _link(step, row, parent, on)
        case Edit(unlink=int(parent)):
            _unlink(step, row, TaskId(parent))
        case Edit(close_group=True):
            _close_group(step, row)
        case _:
            raise BadInput("an edit is one of change, kill, remove, link, unlink, close_group and datum")


def _need_waiting(row: Row) -> None:
    if row.task.status not in WAITING:
        raise WrongStatus(f"task {row.task.id} does not wait any more", task=row.task.id, status=row.task.status)


def _tell(step: Step, fact: Fact, task: Task) -> None:
    step.tell(fact, task.queue, NO_HOLDER, Entry(task.id, task.status, task.fence))


def _change(step: Step, row: Row, change: Change) -> None:
    _need_waiting(row)
    if change.due is not None and change.due > step.wall and row.task.status == Status.QUEUED:
        raise WrongStatus(f"task {row.task.id} is queued already: hold it instead of delaying it", task=row.task.id)
    fields = {name: value for name, value in change._asdict().items() if value is not None and name != "spec"}
    if change.spec is not None:
        fields["spec_size"] = len(change.spec)
        step.tables.data.drop((row.task.id, "spec"))
        row = row._replace(spec=change.spec)
    step.put(row.having(modified=step.wall, **fields))
    _tell(step, Fact.EDITED, row.task)


def _kill(step: Step, row: Row) -> None:
    """Mark what is leased, cancel what waits; what has ended already is as dead as it gets."""
    if row.task.status in WAITING:
        apply(step, move(row.task.id, "cancel")._replace(reason="killed before it ran"))
    elif row.task.holder is not None:
        step.put(row.having(kill=True, modified=step.wall))
        _tell(step, Fact.KILL_REQUESTED, row.task)


def _link(step: Step, row: Row, parent: TaskId, on: str) -> None:
    _need_waiting(row)
    if parent not in step.tables.rows:
        raise UnknownParent(f"there is no task {parent} to be a parent", parent=parent)
    graph.refuse_cycle(step, row.task.id, parent)
    touched: graph.Touched = {}
    graph.settle_new_edge(step, Link(row.task.id, parent, on), touched)
    _note_edit(step, row.task.id)
    _reconsider(step, touched)


def _unlink(step: Step, row: Row, parent: TaskId) -> None:
    _need_waiting(row)
    links = [link for link in graph.links_above(step, row.task.id) if link.parent == parent]
    for link in links:
        graph.drop_edge(step, link)
    _note_edit(step, row.task.id)
    _reconsider(step, {row.task.id: None})


def _note_edit(step: Step, task: TaskId) -> None:
    row = step.put(step.tables.rows[task].having(modified=step.wall))
    _tell(step, Fact.EDITED, row.task)


def _reconsider(step: Step, touched: graph.Touched) -> None:
    """Edges came or went: a task that waits for them no more is released, one that was ready waits again."""
    for task, never in touched.items():
        row = step.tables.rows[task]
        if row.task.status in (Status.QUEUED, Status.DELAYED):
            _reconsider_ready(step, row, never)
        else:
            graph.decide(step, task, never)


def _reconsider_ready(step: Step, row: Row, never: Link | None) -> None:
    match graph.fate_of(step, row, never):
        case Fate.WAITS:
            apply(step, move(row.task.id, "block"))
        case Fate.LOST:
            graph.skip(step, row, never)


def _remove(step: Step, row: Row, with_descendants: bool) -> None:
    gone = graph.all_below(step, row.task.id) if with_descendants else [row.task.id]
    tasks = [step.tables.rows[task].task for task in gone]
    refuse_leased([(task.id, task.status) for task in tasks if task.holder is not None])
    touched: graph.Touched = {}
    for task in gone:
        _remove_one(step, task, touched, bridge=not with_descendants)
    _reconsider(step, {task: never for task, never in touched.items() if task in step.tables.rows})


def _remove_one(step: Step, task: TaskId, touched: graph.Touched, bridge: bool) -> None:
    row = step.tables.rows[task]
    if bridge and not is_final(row.task.status):
        _bridge(step, task, touched)
    if row.task.group is not None and not is_final(row.task.status):
        graph.leave_group(step, row.task.group, False, touched)
    forget(step, row)
    _tell(step, Fact.REMOVED, row.task)


def _bridge(step: Step, task: TaskId, touched: graph.Touched) -> None:
    """The children get the parents of the task that goes, and ask of them what they asked of it."""
    for below in graph.links_below(step, task):
        touched.setdefault(below.child, None)
        for above in graph.links_above(step, task):
            graph.settle_new_edge(step, Link(below.child, above.parent, below.on), touched)


def _close_group(step: Step, row: Row) -> None:
    if not is_group(row.task):
        raise WrongStatus(f"task {row.task.id} is no group", task=row.task.id)
    if row.open:
        step.put(row._replace(open=False).counting())
        _note_edit(step, row.task.id)
        graph.decide(step, row.task.id, None)
