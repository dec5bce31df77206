"""What operators do to tasks: hold, kick, cancel and kill.

Large requests are cut into steps of a thousand. Each is stored with the line of the audit log that names its tasks.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from ganger.core import names
from ganger.core.errors import Conflict, NodeNotFound
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import LEASED, Move, Status, Verdict, is_final, move
from ganger.core.task import Kind, Task
from ganger.engine.audit import act
from ganger.engine.checks import check_whole, tidy
from ganger.engine.descent import Descent
from ganger.engine.inspect import walk
from ganger.engine.limits import Limits
from ganger.engine.store import Edit, Edits, Exchange, Query, Store, Strangers

_STEP = 1_000
T = TypeVar("T")


class Moved(NamedTuple):
    """Those that were moved, and the others with the store's verdict."""

    done: list[TaskId]
    refused: list[tuple[TaskId, str]]


async def hold(store: Store, ids: Sequence[TaskId], reason: str | None, by: str, limits: Limits) -> Moved:
    """Set waiting tasks aside until somebody kicks them."""
    why = None if reason is None else tidy(reason, limits.reason)
    return await _move(store, [move(task, "hold")._replace(reason=why) for task in ids], by)


async def cancel(store: Store, ids: Sequence[TaskId], by: str) -> Moved:
    """End waiting tasks. With a group all its members end: those that wait now, those that run are killed.

    The group goes first, so that it ends cancelled and not by the end of its members. Whoever repeats a cancel that was
    cut off in between reaches the members that are left.
    """
    groups = await _groups(store, ids)
    moved = await _move(store, [move(task, "cancel") for task in ids], by)
    await _kill_members(store, groups, by)
    return moved


async def kill(store: Store, ids: Sequence[TaskId], by: str) -> Moved:
    """Ask the holders of these to kill them; those that wait are cancelled at once. A group goes as in a cancel."""
    groups = await _groups(store, ids)
    moved = await _kill(store, ids, by)
    await _kill_members(store, groups, by)
    return moved


async def _groups(store: Store, ids: Sequence[TaskId]) -> list[TaskId]:
    return [task.id for task in await store.tasks(ids) if task is not None and task.kind == Kind.GROUP]


async def _kill_members(store: Store, groups: Sequence[TaskId], by: str) -> None:
    for group in groups:
        await _kill(store, [member.id async for member in _members(store, group)], by)


async def _members(store: Store, group: TaskId) -> AsyncIterator[Task]:
    """The members that have not ended and those of groups within it, each group before its own members."""
    async for member in walk(store, Query(group=group, most=_STEP), Limits()):
        if not is_final(member.status):
            yield member
        if member.kind == Kind.GROUP:
            async for deeper in _members(store, member.id):
                yield deeper


async def kill_to_remove(store: Store, task: TaskId, by: str, *, descendants: bool) -> list[TaskId]:
    """Have those end that stand in the way of a removal: the task if it runs, or it and all below. Whoever is to end.

    With descendants those that wait are cancelled too, so that the end of one does not let the next begin.
    """
    if not descendants:
        running = [found.id for found in await store.tasks([task]) if found is not None and found.status in LEASED]
        return (await _kill(store, running, by)).done
    descent = Descent(store, task)
    await descent.open()
    return (await _kill(store, sorted(descent.members), by)).done


async def _kill(store: Store, ids: Sequence[TaskId], by: str) -> Moved:
    moved = Moved([], [])
    for some in _steps(ids):
        verdicts = [_killable(task) for task in await store.tasks(some)]
        chosen = [number for number, verdict in zip(some, verdicts, strict=True) if verdict is Verdict.APPLIED]
        await _request_kills(store, chosen, by)
        moved.done.extend(chosen)
        moved.refused.extend((number, v) for number, v in zip(some, verdicts, strict=True) if v is not Verdict.APPLIED)
    return moved


def _killable(task: Task | None) -> Verdict:
    if task is None:
        return Verdict.GONE
    return Verdict.WRONG_STATUS if is_final(task.status) else Verdict.APPLIED


async def _request_kills(store: Store, ids: Sequence[TaskId], by: str) -> None:
    if ids:
        edits = tuple(Edit(task, kill=True) for task in ids)
        await store.edit(Edits(edits, act=act(by, "task.kill", tasks=[int(task) for task in ids])))


async def orphan(store: Store, node: str, by: str, *, force: bool = False) -> Moved:
    """End the tasks that a node which is no more had in hand, whatever their queues say of lost ones."""
    bearers = [one for one in (await store.directory()).nodes if one.name == node]
    strangers = await store.strangers() if isinstance(store, Strangers) and not force else []
    if any(one.here for one in strangers if one.name == node):
        raise Conflict(f"the node {node!r} was heard of within a minute: stop it first, or say --force", name=node)
    if not bearers and isinstance(store, Strangers) and (found := await _orphan_of(store, node, by)) is not None:
        return Moved(found, [])
    if not bearers:
        raise NodeNotFound(f"no node called {node!r:.80} is known; see `ganger nodes`", name=node[:200])
    if any(one.here for one in bearers) and not force:
        raise Conflict(
            f"the node {node!r} is here: drain it, stop it and wait until it is lost, or say --force", name=node
        )
    held = [task for one in bearers async for task in walk(store, _held_by(one.id), Limits())]
    return await _move(store, [move(task.id, "lose_to_orphan", task.fence) for task in held], by)


async def _orphan_of(store: Strangers, node: str, by: str) -> list[TaskId] | None:
    return await store.orphan_of(node, act(by, "node.orphan", name=names.check("node", node)))


def _held_by(node: NodeId) -> Query:
    return Query(statuses=tuple(map(int, LEASED)), holder=node, most=_STEP)


async def kick(store: Store, ids: Sequence[TaskId], by: str) -> Moved:
    """Make held or delayed tasks ready; the store lets one that still waits for others go on waiting for them."""
    return await _move(store, [move(task, "kick") for task in ids], by)


async def kick_queue(store: Store, queue: QueueId, most: int, by: str, limits: Limits) -> Moved:
    """Kick at most so many of a queue: held ones, or delayed ones if none is held."""
    check_whole("most", most, 1, limits.items_per_step)
    for status in (Status.HELD, Status.DELAYED):
        if tasks := await _some(store, Query(queue, (int(status),), most=min(most, _STEP)), most, limits):
            return await kick(store, [task.id for task in tasks], by)
    return Moved([], [])


async def _some(store: Store, query: Query, most: int, limits: Limits) -> list[Task]:
    found: list[Task] = []
    async for task in walk(store, query, limits):
        found.append(task)
        if len(found) == most:
            break
    return found


async def _move(store: Store, moves: Sequence[Move], by: str) -> Moved:
    done: list[TaskId] = []
    refused: list[tuple[TaskId, str]] = []
    for some in _steps(moves):
        told = act(by, f"task.{some[0].rule}", tasks=[int(one.task) for one in some])
        verdicts = dict((await store.exchange(Exchange(tuple(some), act=told))).refused)
        done += [one.task for index, one in enumerate(some) if index not in verdicts]
        refused += [(some[index].task, verdict) for index, verdict in verdicts.items()]
    return Moved(done, refused)


def _steps(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _STEP] for start in range(0, len(items), _STEP))
