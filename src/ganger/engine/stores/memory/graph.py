"""What a task's end means for others: its edges are decided, its group has one member less to wait for.

The work goes in waves. All tasks that ended are one wave: every edge below them is closed, once, and only then is each
child that was touched decided, by its counts. Those that end by that are the next wave. So a child with several parents
in a wave is decided once, whatever their order, and a chain of any depth needs no recursion.
"""

from collections.abc import Iterable, Iterator

from ganger.core.errors import CycleFound
from ganger.core.graph import SKIPPED, Fate, Join, fate, holds, lost_reason
from ganger.core.ids import TaskId
from ganger.core.state import Move, Status, is_final, move
from ganger.core.task import SLOTLESS, Task
from ganger.engine.stores.memory.moves import apply
from ganger.engine.stores.memory.row import Decided, Link, Row, is_group
from ganger.engine.stores.memory.step import Step

Touched = dict[TaskId, Link | None]
"""The tasks to be decided, each with the first of its edges that never holds, if one was found."""


def follow(step: Step) -> None:
    """Follow all that ended in this step, down to the last task that ends by it."""
    while step.ended:
        wave, step.ended = step.ended, []
        touched: Touched = {}
        for task in wave:
            _leave(step, task, touched)
        for child, never in touched.items():
            decide(step, child, never)


def _leave(step: Step, task: TaskId, touched: Touched) -> None:
    row = step.tables.rows.get(task)
    if row is None:
        return
    for link in links_below(step, task):
        if link.decided == Decided.OPEN:
            close(step, link, row.task, touched)
    if row.task.group is not None:
        leave_group(step, row.task.group, not _is_happy(row.task), touched)


def close(step: Step, link: Link, parent: Task, touched: Touched) -> None:
    """Decide one edge, now that its parent is final."""
    held = holds(link.on, parent.status, parent.branch)
    closed = link._replace(decided=Decided.HELD if held else Decided.NEVER)
    step.tables.links.put(link.key, closed)
    step.put(step.tables.rows[link.child].waiting(edges=-1, held=int(held)))
    touched.setdefault(link.child, None)
    if not held and touched[link.child] is None:
        touched[link.child] = closed


def leave_group(step: Step, group: TaskId, failed: bool, touched: Touched) -> None:
    """One member less to wait for."""
    row = step.tables.rows.get(group)
    if row is not None:
        step.put(row.waiting(members=-1, failures=int(failed)))
        touched.setdefault(group, None)


def decide(step: Step, task: TaskId, never: Link | None) -> None:
    """Make the move that the counts of a waiting task ask for, if they ask for one."""
    row = step.tables.rows.get(task)
    if row is None or row.task.status not in (Status.BLOCKED, Status.HELD):
        return
    match fate_of(step, row, never):
        case Fate.LOST:
            skip(step, row, never or _find_never(step, task))
        case Fate.READY if row.task.status == Status.BLOCKED:
            ready(step, row)


def fate_of(step: Step, row: Row, never: Link | None) -> Fate:
    if row.task.join == Join.ANY and not step.tables.parents.bucket(row.task.id):
        return Fate.READY
    lost = row.task.join == Join.ALL and never is not None
    return fate(row.task.join, row.edges, -1 if lost else row.held)


def _find_never(step: Step, task: TaskId) -> Link | None:
    return next((link for link in links_above(step, task) if link.decided == Decided.NEVER), None)


def skip(step: Step, row: Row, never: Link | None) -> None:
    """Cancel a task one of whose edges can never hold."""
    rule = "skip" if row.task.status in (Status.BLOCKED, Status.HELD) else "cancel"
    apply(step, move(row.task.id, rule)._replace(reason=_why(step, never)))


def _why(step: Step, never: Link | None) -> str:
    parent = None if never is None else step.tables.rows.get(never.parent)
    if never is None or parent is None:
        return "none of its parents can end as its edges ask"
    return lost_reason(never.on, never.parent, parent.task.status, parent.task.reason)


def ready(step: Step, row: Row) -> None:
    """Nothing above holds the task back any more: queue it, delay it, or end it if it is a group."""
    if row.task.kind not in SLOTLESS:
        apply(step, _unblock(step, row.task))
    elif is_group(row.task):
        conclude(step, row)
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


def conclude(step: Step, group: Row) -> None:
    """End a group that waits for nothing more: it succeeds if every member succeeded or was skipped."""
    if group.task.waits:
        return
    if group.failures:
        reason = f"{group.failures} of its members did not succeed"
        apply(step, move(group.task.id, "conclude_failed")._replace(reason=reason))
    else:
        apply(step, move(group.task.id, "conclude"))


def _is_happy(task: Task) -> bool:
    return task.status == Status.SUCCEEDED or (task.status == Status.CANCELLED and task.reason == SKIPPED)


def links_below(step: Step, parent: TaskId) -> list[Link]:
    keys = step.tables.children.bucket(parent)
    return [step.tables.links[child, parent] for child, _ in keys]


def links_above(step: Step, child: TaskId) -> list[Link]:
    keys = step.tables.parents.bucket(child)
    return [step.tables.links[child, parent] for parent, _ in keys]


def refuse_cycle(step: Step, start: TaskId, goal: TaskId) -> None:
    """Refuse if `goal` waits, over any number of edges and groups, for `start`."""
    if goal == start or goal in _all_below(step, start):
        raise CycleFound(f"task {goal} would wait for itself by way of task {start}", tasks=[int(start), int(goal)])


def _all_below(step: Step, start: TaskId) -> Iterator[TaskId]:
    """Whatever waits for a task: its children, the group that it is in, and so on down."""
    seen = {start}
    front = [start]
    while front:
        below = [task for task in _just_below(step, front.pop()) if task not in seen]
        seen.update(below)
        front.extend(below)
        yield from below


def _just_below(step: Step, task: TaskId) -> Iterable[TaskId]:
    yield from (child for child, _ in step.tables.children.bucket(task))
    row = step.tables.rows.get(task)
    if row is not None and row.task.group is not None:
        yield row.task.group


def all_below(step: Step, start: TaskId) -> list[TaskId]:
    """A task and all below it by edges, each once."""
    found = {start: None}
    front = [start]
    while front:
        below = [child for child, _ in step.tables.children.bucket(front.pop()) if child not in found]
        found |= dict.fromkeys(below)
        front.extend(below)
    return list(found)


def settle_new_edge(step: Step, link: Link, touched: Touched) -> None:
    """Store an edge that was not there; one whose parent is final is decided at once."""
    if link.key in step.tables.links:
        return
    parent = step.tables.rows[link.parent]
    step.tables.links.put(link.key, link)
    step.put(parent.having(kids=parent.task.kids + 1))
    step.put(step.tables.rows[link.child].waiting(edges=1))
    touched.setdefault(link.child, None)
    if is_final(parent.task.status):
        close(step, link, parent.task, touched)


def drop_edge(step: Step, link: Link) -> None:
    """Take an edge away. One that was decided has had its effect and keeps it; the asker decides what follows."""
    step.tables.links.drop(link.key)
    parent = step.tables.rows.get(link.parent)
    if parent is not None:
        step.put(parent.having(kids=parent.task.kids - 1))
    child = step.tables.rows.get(link.child)
    if child is not None and link.decided == Decided.OPEN:
        step.put(child.waiting(edges=-1))
