"""What a task's end means for others: its edges are decided, its group has one member less to wait for.

The work goes in waves. All tasks that ended are one wave: every edge below them is closed, once, and only then is each
child that was touched decided, by its counts. Those that end by that are the next wave. So a child with several parents
in a wave is decided once, whatever their order, and a chain of any depth needs no recursion. What a wave needs is read
in two questions, however wide it is.
"""

from collections import defaultdict
from collections.abc import Iterable

from ganger.core.errors import CycleFound
from ganger.core.graph import Fate, Join, fate, holds, lost_reason
from ganger.core.ids import TaskId
from ganger.core.release import is_unhappy
from ganger.core.state import Move, Status, is_final, move
from ganger.core.task import SLOTLESS, Task
from ganger.engine.stores.mongo import choices
from ganger.engine.stores.mongo.moving import apply
from ganger.engine.stores.mongo.row import Decided, Link, Row, is_group
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import LINKS

Touched = dict[TaskId, Link | None]
"""The tasks to be decided, each with the first of its edges that never holds, if one was found."""


async def follow(step: Step) -> None:
    """Follow all that ended in this step, down to the last task that ends by it."""
    while step.ended:
        wave, step.ended = step.ended, []
        below = await _read_wave(step, wave)
        touched: Touched = {}
        for task in wave:
            await _leave(step, task, below[task], touched)
        for child, never in touched.items():
            await decide(step, child, never)


async def _read_wave(step: Step, wave: list[TaskId]) -> dict[TaskId, list[Link]]:
    below: dict[TaskId, list[Link]] = defaultdict(list)
    await step.load(wave)
    if await _is_bare(step, wave):
        return below
    for link in await step.draft.select(choices.below(wave)):
        below[link.parent].append(link)
    await step.load(link.child for links in below.values() for link in links)
    return below


async def _is_bare(step: Step, wave: list[TaskId]) -> bool:
    """Has none of them a child? Each counts its own."""
    rows = [await step.row(task) for task in wave]
    await step.load(row.task.group for row in rows if row is not None and row.task.group is not None)
    return not any(row.task.kids for row in rows if row is not None)


async def _leave(step: Step, task: TaskId, links: list[Link], touched: Touched) -> None:
    row = await step.row(task)
    if row is None:
        return
    for link in links:
        if link.decided == Decided.OPEN:
            await close(step, link, row.task, touched)
    if row.task.group is not None:
        await leave_group(step, row.task.group, is_unhappy(row.task.status, row.task.reason), touched)


async def close(step: Step, link: Link, parent: Task, touched: Touched) -> None:
    """Decide one edge, now that its parent is final."""
    held = holds(link.on, parent.status, parent.branch)
    closed = link._replace(decided=Decided.HELD if held else Decided.NEVER)
    step.draft.put(LINKS, closed)
    step.put((await step.known(link.child)).waiting(edges=-1, held=int(held)))
    touched.setdefault(link.child, None)
    if not held and touched[link.child] is None:
        touched[link.child] = closed


async def leave_group(step: Step, group: TaskId, failed: bool, touched: Touched) -> None:
    """One member less to wait for."""
    row = await step.row(group)
    if row is not None:
        step.put(row.waiting(members=-1, failures=int(failed)))
        touched.setdefault(group, None)


async def decide(step: Step, task: TaskId, never: Link | None) -> None:
    """Make the move that the counts of a waiting task ask for, if they ask for one."""
    row = await step.row(task)
    if row is None or row.task.status not in (Status.BLOCKED, Status.HELD):
        return
    match await fate_of(step, row, never):
        case Fate.LOST:
            await skip(step, row, never or await _find_never(step, task))
        case Fate.READY if row.task.status == Status.BLOCKED:
            await ready(step, row)


async def fate_of(step: Step, row: Row, never: Link | None) -> Fate:
    if row.task.join == Join.ANY and not await links_above(step, row.task.id):
        return Fate.READY
    lost = row.task.join == Join.ALL and never is not None
    return fate(row.task.join, row.edges, -1 if lost else row.held)


async def _find_never(step: Step, task: TaskId) -> Link | None:
    return next((link for link in await links_above(step, task) if link.decided == Decided.NEVER), None)


async def skip(step: Step, row: Row, never: Link | None) -> None:
    """Cancel a task one of whose edges can never hold."""
    rule = "skip" if row.task.status in (Status.BLOCKED, Status.HELD) else "cancel"
    await apply(step, move(row.task.id, rule)._replace(reason=await _why(step, never)))


async def _why(step: Step, never: Link | None) -> str:
    parent = None if never is None else await step.row(never.parent)
    if never is None or parent is None:
        return "none of its parents can end as its edges ask"
    return lost_reason(never.on, never.parent, parent.task.status, parent.task.reason)


async def ready(step: Step, row: Row) -> None:
    """Nothing above holds the task back any more: queue it, delay it, or end it if it is a group."""
    if row.task.kind not in SLOTLESS:
        await apply(step, _unblock(step, row.task))
    elif is_group(row.task):
        await conclude(step, row)
    else:
        step.wake_queue(row.task.queue)


def _unblock(step: Step, task: Task) -> Move:
    due = due_when_ready(step, task)
    if due is None or due <= step.wall:
        return move(task.id, "unblock")
    return move(task.id, "unblock_later")._replace(due=due)


def due_when_ready(step: Step, task: Task) -> int | None:
    """An absolute time wins; a delay begins when the task is ready."""
    if task.due is not None:
        return task.due
    return step.wall + task.delay if task.delay else None


async def conclude(step: Step, group: Row) -> None:
    """End a group that waits for nothing more: it succeeds if every member succeeded or was skipped."""
    if group.task.waits:
        return
    if group.failures:
        reason = f"{group.failures} of its members did not succeed"
        await apply(step, move(group.task.id, "conclude_failed")._replace(reason=reason))
    else:
        await apply(step, move(group.task.id, "conclude"))


async def links_below(step: Step, parent: TaskId) -> list[Link]:
    return await step.draft.select(choices.below([parent]))


async def links_above(step: Step, child: TaskId) -> list[Link]:
    return await step.draft.select(choices.above([child]))


async def refuse_cycle(step: Step, start: TaskId, goal: TaskId) -> None:
    """Refuse if `goal` waits, over any number of edges and groups, for `start`."""
    if goal == start or await _is_below(step, start, goal):
        raise CycleFound(f"task {goal} would wait for itself by way of task {start}", tasks=[int(start), int(goal)])


async def _is_below(step: Step, start: TaskId, goal: TaskId) -> bool:
    """Does the task wait for another: as its child, as the group that it is in, and so on down?"""
    seen = {start}
    front: set[TaskId] = {start}
    while front:
        front = await _just_below(step, front) - seen
        if goal in front:
            return True
        seen |= front
    return False


async def _just_below(step: Step, tasks: Iterable[TaskId]) -> set[TaskId]:
    tasks = list(tasks)
    below = {link.child for link in await step.draft.select(choices.below(tasks))}
    await step.load(tasks)
    rows = [await step.row(task) for task in tasks]
    return below | {row.task.group for row in rows if row is not None and row.task.group is not None}


async def all_below(step: Step, start: TaskId) -> list[TaskId]:
    """A task and all below it by edges, each once."""
    found = {start: None}
    front = [start]
    while front:
        below = [link.child for link in await links_below(step, front.pop()) if link.child not in found]
        found |= dict.fromkeys(below)
        front.extend(below)
    await step.load(list(found))
    return list(found)


async def settle_new_edge(step: Step, link: Link, touched: Touched) -> None:
    """Store an edge that was not there; one whose parent is final is decided at once."""
    if await step.draft.get(LINKS, link.key) is not None:
        return
    parent = await step.known(link.parent)
    step.draft.put(LINKS, link)
    step.put(parent.having(kids=parent.task.kids + 1))
    step.put((await step.known(link.child)).waiting(edges=1))
    touched.setdefault(link.child, None)
    if is_final(parent.task.status):
        await close(step, link, parent.task, touched)


async def drop_edge(step: Step, link: Link) -> None:
    """Take an edge away. One that was decided has had its effect and keeps it; the asker decides what follows."""
    step.draft.drop(LINKS, link.key)
    parent = await step.row(link.parent)
    if parent is not None:
        step.put(parent.having(kids=parent.task.kids - 1))
    child = await step.row(link.child)
    if child is not None and link.decided == Decided.OPEN:
        step.put(child.waiting(edges=-1))
