"""How graphs are changed: tasks that have not started, their edges, and requests to kill what runs."""

from array import array
from collections.abc import Iterable

import apsw

from ganger.core.errors import CycleFound, TaskNotFound, UnknownParent, WrongStatus
from ganger.core.event import Fact
from ganger.core.graph import Closed, holds, lost_reason, refuse_leased
from ganger.core.ids import TaskId
from ganger.core.state import LEASED, RULES, WAITING, Status, is_final, move
from ganger.databases.sqlite import Session
from ganger.engine.store import INLINE_SPEC, Change, Edit, Edits
from ganger.engine.stores.sqlite.cascade import Cascade, Ended
from ganger.engine.stores.sqlite.dropping import drop, tell_children
from ganger.engine.stores.sqlite.guard import check_under
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.moving import Row, apply, read_rows
from ganger.engine.stores.sqlite.noting import put_datum
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step


def edit(session: Session, request: Edits) -> None:
    step = Step(session)
    check_under(step, request.under)
    for one in request.edits:
        step.cut_facts()
        _edit(step, one, request.under)
    refill(step)
    step.act(request.act)
    step.finish()


def _edit(step: Step, edit: Edit, under: tuple[int, int] | None) -> None:
    row = _row(step, edit.task)
    if under is not None:
        _check_family(step, edit.task, under[0])
    if edit.change is not None:
        _change(step, row, edit.change)
    if edit.kill:
        _kill(step, row)
    if edit.remove:
        _remove(step, row, edit.descendants)
    if edit.datum is not None:
        put_datum(step, edit.task, edit.datum)
    _edit_edges(step, row, edit)


def _edit_edges(step: Step, row: Row, edit: Edit) -> None:
    if edit.link is not None:
        _link(step, row, *edit.link)
    if edit.unlink is not None:
        _unlink(step, row, edit.unlink)
    if edit.close_group:
        _close_group(step, row)


def _row(step: Step, task: int) -> Row:
    for row in step.run(Q.edit_read, (task,)):
        return Row._make(row)
    raise TaskNotFound(f"there is no task {task}", task=task)


def _check_family(step: Step, task: int, of: int) -> None:
    """A holder may change its own task, its parents and its children; nothing else."""
    family = {of, *(row[0] for row in step.run(Q.edges_to, (of,))), *(row[0] for row in step.run(Q.children_of, (of,)))}
    if task not in family:
        raise WrongStatus(f"task {task} is neither a parent nor a child of task {of}", task=task)


def _need_waiting(row: Row, what: str) -> None:
    if row.status not in WAITING:
        raise WrongStatus(
            f"task {row.id} cannot be {what}: it has started or ended (status {row.status})",
            task=row.id,
            status=row.status,
        )


def _change(step: Step, row: Row, change: Change) -> None:
    _need_waiting(row, "changed")
    small = change.spec is not None and len(change.spec) <= INLINE_SPEC
    if change.spec is not None:
        step.run(Q.data_drop, (row.id, "spec"))
    if change.spec is not None and not small:
        step.run(Q.data_put, (row.id, "spec", change.spec, None, len(change.spec)))
    step.run(Q.edit_change, change._asdict() | {
        "spec": change.spec if small else None, "spec_given": change.spec is not None, "wall": step.wall, "id": row.id,
    })  # fmt: skip
    if row.limit_key is not None:
        step.keys.add((row.queue, row.limit_key))
    step.woken.add(row.queue)
    _tell_edited(step, row, row.status)


def _tell_edited(step: Step, row: Row, status: int, fact: Fact = Fact.EDITED) -> None:
    step.tell(fact, row.queue, 0, ((row.id, status, row.fence, None),))


def _kill(step: Step, row: Row) -> None:
    """Mark what is leased; cancel what waits; what is final is left as it is."""
    if row.status in LEASED:
        step.run(Q.edit_kill, (step.wall, row.id))
        _tell_edited(step, row, row.status, Fact.KILL_REQUESTED)
        step.session.wake(f"node:{row.holder}")
    elif row.status in WAITING:
        apply(step, [move(TaskId(row.id), "cancel")._replace(reason="killed before it ran")])


def _link(step: Step, row: Row, parent: int, on: str) -> None:
    _need_waiting(row, "given a parent")
    above = next((Row._make(found) for found in step.run(Q.edit_read, (parent,))), None)
    if above is None:
        raise UnknownParent(f"there is no task {parent} to wait for", task=parent)
    ((closes,),) = step.run(Q.reaches, (row.id, parent))
    if closes:
        raise CycleFound(f"task {parent} already waits for task {row.id}", tasks=[row.id, parent])
    if any(known == parent for known, _ in step.run(Q.edges_to, (row.id,))):
        return
    step.run(Q.edge_put, (parent, row.id, on))
    step.run(Q.kids_add, (1, parent))
    _wait_for(step, row, above, on)


def _wait_for(step: Step, row: Row, parent: Row, on: str) -> None:
    if not is_final(parent.status):
        if row.status in (Status.BLOCKED, Status.HELD) or not _is_joined(step, row):
            _block(step, row)
        return
    ((_, status, branch, reason),) = step.run(Q.parents_read, (apsw.carray(array("q", [parent.id])),))
    if row.status in (Status.BLOCKED, Status.HELD):
        _judge_again(step, row.id, -1, [(Ended(parent.id, status, bool(branch), reason, 0, None), on)])
    elif not holds(on, status, bool(branch)) and not _is_joined(step, row):
        _block(step, row)
        cascade = Cascade(step)
        cascade.lose([(row.id, lost_reason(on, parent.id, status, reason))])
        cascade.run()


def _is_joined(step: Step, row: Row) -> bool:
    """Is it free because one of several edges held, so that a new one cannot bind it?"""
    ((any_join,),) = step.run(Q.join_read, (row.id,))
    return bool(any_join) and len(list(step.run(Q.edges_to, (row.id,)))) > 1


def _block(step: Step, row: Row) -> None:
    """One more edge to wait for."""
    rule = RULES["block"]
    status = rule.target if row.status in rule.sources else row.status
    step.run(Q.waits_add, (1, status, step.wall, row.id))
    if status != row.status:
        step.count(row.queue, row.status, -1)
        step.count(row.queue, status, 1)
        _tell_edited(step, row, status)
    if row.limit_key is not None:
        step.keys.add((row.queue, row.limit_key))


def _unlink(step: Step, row: Row, parent: int) -> None:
    _need_waiting(row, "freed of a parent")
    if not list(step.run(Q.edge_drop, (parent, row.id))):
        return
    step.run(Q.kids_add, (-1, parent))
    above = next((Row._make(found) for found in step.run(Q.edit_read, (parent,))), None)
    if above is not None and not is_final(above.status):
        _judge_again(step, row.id, 1, ())


def _judge_again(step: Step, child: int, gone: int, closed_by: Iterable[tuple[Ended, str]]) -> None:
    """A child lost `gone` open edges and got some that are decided already: what becomes of it?"""
    closed = Closed()
    for parent, on in closed_by:
        closed.add(parent, on)
    left = len(list(step.run(Q.edges_to, (child,))))
    cascade = Cascade(step)
    cascade.decide_again(child, gone, closed, free=left == 0)
    cascade.run()


def _close_group(step: Step, row: Row) -> None:
    step.run(Q.open_close, (step.wall, row.id))
    cascade = Cascade(step)
    cascade.end_groups([row.id])
    cascade.run()


def _remove(step: Step, row: Row, descendants: bool) -> None:
    tell_children(step, [one.id for one in _below(step, row)] if descendants else [row.id])
    doomed = _below(step, row) if descendants else [row]
    refuse_leased([(one.id, one.status) for one in doomed if one.status in LEASED])
    children = [] if descendants or is_final(row.status) else list(step.run(Q.children_of, (row.id,)))
    parents = list(step.run(Q.edges_to, (row.id,))) if children else []
    drop(step, doomed)
    for child, on in children:
        _adopt(step, child, on, [parent for parent, _ in parents])


def _below(step: Step, top: Row) -> list[Row]:
    """The task and everything below it."""
    found, frontier = {top.id: top}, [top.id]
    while frontier:
        below = {child for task in frontier for child, _ in step.run(Q.children_of, (task,))} - found.keys()
        found |= read_rows(step, list(below)) if below else {}
        frontier = list(below)
    return list(found.values())


def _adopt(step: Step, child: int, on: str, parents: list[int]) -> None:
    """The child of a removed task gets its parents."""
    known = {parent for parent, _ in step.run(Q.edges_to, (child,))}
    fresh = [parent for parent in parents if parent not in known]
    decided = []
    for parent in fresh:
        step.run(Q.edge_put, (parent, child, on))
        step.run(Q.kids_add, (1, parent))
    for number, status, branch, reason in step.run(Q.parents_read, (apsw.carray(array("q", fresh)),)) if fresh else ():
        if is_final(status):
            decided.append((Ended(number, status, bool(branch), reason, 0, None), on))
    _judge_again(step, child, 1 - len(fresh), decided)
