"""How graphs are changed: tasks that have not started, their edges, and requests to kill what runs."""

from collections.abc import Iterable

from ganger.core.errors import CycleFound, TaskNotFound, UnknownParent, WrongStatus
from ganger.core.event import Fact
from ganger.core.graph import Closed, holds, lost_reason, refuse_leased
from ganger.core.ids import TaskId
from ganger.core.state import LEASED, RULES, WAITING, Status, is_final, move
from ganger.engine.store import INLINE_SPEC, Change, Edit, Edits
from ganger.engine.stores.postgres.cascade import Cascade, Ended
from ganger.engine.stores.postgres.dropping import drop, leaving, tell_children
from ganger.engine.stores.postgres.guard import check_under, read_rows
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.moving import apply
from ganger.engine.stores.postgres.noting import put_datum
from ganger.engine.stores.postgres.placing import enter, leave
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row, columns
from ganger.engine.stores.postgres.step import Step


async def edit(step: Step, request: Edits) -> None:
    await check_under(step, request.under)
    for one in request.edits:
        step.cut_facts()
        await _edit(step, one, request.under)
    await refill(step)
    await step.act(request.act)
    await step.finish()


async def _edit(step: Step, edit: Edit, under: tuple[int, int] | None) -> None:
    row = (await read_rows(step, [edit.task])).get(edit.task)
    if row is None:
        raise TaskNotFound(f"there is no task {edit.task}", task=edit.task)
    if under is not None:
        await _check_family(step, edit.task, under[0])
    if edit.change is not None:
        await _change(step, row, edit.change)
    if edit.kill:
        await _kill(step, row)
    if edit.remove:
        await _remove(step, row, edit.descendants)
    if edit.datum is not None:
        await put_datum(step, edit.task, edit.datum)
    await _edit_edges(step, row, edit)


async def _edit_edges(step: Step, row: Row, edit: Edit) -> None:
    if edit.link is not None:
        await _link(step, row, *edit.link)
    if edit.unlink is not None:
        await _unlink(step, row, edit.unlink)
    if edit.close_group:
        await _close_group(step, row)


async def _check_family(step: Step, task: int, of: int) -> None:
    """A holder may change its own task, its parents and its children; nothing else."""
    around = [*await step.run(Q.edges_to, of), *await step.run(Q.children_of, [of])]
    if task not in {of, *(row[0] for row in around)}:
        raise WrongStatus(f"task {task} is neither a parent nor a child of task {of}", task=task)


def _need_waiting(row: Row, what: str) -> None:
    if row.status not in WAITING:
        raise WrongStatus(
            f"task {row.id} cannot be {what}: it has started or ended (status {row.status})",
            task=row.id,
            status=row.status,
        )


async def _change(step: Step, row: Row, change: Change) -> None:
    _need_waiting(row, "changed")
    small = change.spec is not None and len(change.spec) <= INLINE_SPEC
    if change.spec is not None:
        await step.run(Q.data_drop, row.id, "spec")
    if change.spec is not None and not small:
        await step.run(Q.data_put_all, *columns([(row.id, "spec", change.spec, None, len(change.spec))], 5))
    await leave(step, [row.id])
    await step.run(
        Q.edit_change, change.spec is not None, change.spec if small else None, change.priority, change.due,
        change.description, change.retry, change.timeout, step.wall, row.id,
    )  # fmt: skip
    await enter(step, [row.id])
    if row.limit_key is not None:
        step.keys.add((row.queue, row.limit_key))
    step.woken.add(row.queue)
    _tell_edited(step, row, row.status)


def _tell_edited(step: Step, row: Row, status: int, fact: Fact = Fact.EDITED) -> None:
    step.tell(fact, row.queue, 0, ((row.id, status, row.fence, None),))


async def _kill(step: Step, row: Row) -> None:
    """Mark what is leased; cancel what waits; what is final is left as it is."""
    if row.status in LEASED:
        await step.run(Q.edit_kill, step.wall, row.id)
        _tell_edited(step, row, row.status, Fact.KILL_REQUESTED)
        step.session.wake(f"node:{row.holder}")
    elif row.status in WAITING:
        await apply(step, [move(TaskId(row.id), "cancel")._replace(reason="killed before it ran")])


async def _link(step: Step, row: Row, parent: int, on: str) -> None:
    _need_waiting(row, "given a parent")
    above = (await read_rows(step, [parent])).get(parent)
    if above is None:
        raise UnknownParent(f"there is no task {parent} to wait for", task=parent)
    if await step.one(Q.reaches, row.id, parent):
        raise CycleFound(f"task {parent} already waits for task {row.id}", tasks=[row.id, parent])
    if any(known == parent for known, _ in await step.run(Q.edges_to, row.id)):
        return
    await step.run(Q.edges_put, [parent], [row.id], [on])
    await step.run(Q.kids_add, [parent], [1])
    await _wait_for(step, row, above, on)


async def _wait_for(step: Step, row: Row, parent: Row, on: str) -> None:
    if not is_final(parent.status):
        if row.status in (Status.BLOCKED, Status.HELD) or not await _is_joined(step, row):
            await _block(step, row)
        return
    ((_, status, branch, reason),) = await step.run(Q.parents_read, [parent.id])
    if row.status in (Status.BLOCKED, Status.HELD):
        await _judge_again(step, row.id, -1, [(Ended(parent.id, status, branch, reason, 0, None), on)])
    elif not holds(on, status, branch) and not await _is_joined(step, row):
        await _block(step, row)
        cascade = Cascade(step)
        await cascade.lose([(row.id, lost_reason(on, parent.id, status, reason))])
        await cascade.run()


async def _is_joined(step: Step, row: Row) -> bool:
    """Is it free because one of several edges held, so that a new one cannot bind it?"""
    return await step.one(Q.join_read, row.id) and len(await step.run(Q.edges_to, row.id)) > 1


async def _block(step: Step, row: Row) -> None:
    """One more edge to wait for."""
    rule = RULES["block"]
    status = int(rule.target) if row.status in rule.sources else row.status
    await leave(step, [row.id])
    await step.run(Q.waits_add, status, step.wall, row.id)
    if status != row.status:
        step.count(row.queue, row.status, -1)
        step.count(row.queue, status, 1)
        _tell_edited(step, row, status)
    if row.limit_key is not None:
        step.keys.add((row.queue, row.limit_key))


async def _unlink(step: Step, row: Row, parent: int) -> None:
    _need_waiting(row, "freed of a parent")
    if not await step.run(Q.edge_drop, parent, row.id):
        return
    await step.run(Q.kids_add, [parent], [-1])
    above = (await read_rows(step, [parent])).get(parent)
    if above is not None and not is_final(above.status):
        await _judge_again(step, row.id, 1, ())


async def _judge_again(step: Step, child: int, gone: int, closed_by: Iterable[tuple[Ended, str]]) -> None:
    """A child lost `gone` open edges and got some that are decided already: what becomes of it?"""
    closed = Closed()
    for parent, on in closed_by:
        closed.add(parent, on)
    left = len(await step.run(Q.edges_to, child))
    cascade = Cascade(step)
    await cascade.decide_again(child, gone, closed, free=left == 0)
    await cascade.run()


async def _close_group(step: Step, row: Row) -> None:
    await step.run(Q.open_close, step.wall, row.id)
    cascade = Cascade(step)
    await cascade.end_groups([row.id])
    await cascade.run()


async def _remove(step: Step, row: Row, descendants: bool) -> None:
    await tell_children(step, [one.id for one in await _below(step, row)] if descendants else [row.id])
    doomed = await _below(step, row) if descendants else [row]
    refuse_leased([(one.id, one.status) for one in doomed if one.status in LEASED])
    children = [] if descendants or is_final(row.status) else await step.run(Q.children_of, [row.id])
    parents = [parent for parent, _ in await step.run(Q.edges_to, row.id)] if children else []
    await drop(step, [leaving(one) for one in doomed])
    for child, on in children:
        await _adopt(step, child, on, parents)


async def _below(step: Step, top: Row) -> list[Row]:
    """The task and everything below it."""
    found, frontier = {top.id: top}, [top.id]
    while frontier:
        below = {child for child, _ in await step.run(Q.children_of, frontier)} - found.keys()
        found |= await read_rows(step, below) if below else {}
        frontier = list(below)
    return list(found.values())


async def _adopt(step: Step, child: int, on: str, parents: list[int]) -> None:
    """The child of a removed task gets its parents."""
    known = {parent for parent, _ in await step.run(Q.edges_to, child)}
    fresh = [parent for parent in parents if parent not in known]
    if fresh:
        await step.run(Q.edges_put, fresh, [child] * len(fresh), [on] * len(fresh))
        await step.run(Q.kids_add, fresh, [1] * len(fresh))
    decided = [
        (Ended(number, status, branch, reason, 0, None), on)
        for number, status, branch, reason in await step.run(Q.parents_read, fresh)
        if is_final(status)
    ]
    await _judge_again(step, child, 1 - len(fresh), decided)
