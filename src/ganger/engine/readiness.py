"""Is work being taken? Asked of the nodes, each by what it told with its last beat, and of what waits.

A node may beat and yet take nothing: its claims fail, or nobody asks any more. The first it tells itself. The second is
seen from outside: a task that nothing hinders is taken in milliseconds while a node has a free slot, so one that has
been ready for long is a sign that nobody asks.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ganger.core.clock import Clock
from ganger.core.node import Node, NodeState
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.engine.explain import explain
from ganger.engine.store import Query, Store

LONG: Final = 10_000
"""Milliseconds that a task may lie ready while a slot is free."""

LINE: Final = "(waiting tasks)"
_LOOKED_AT: Final = 5


class Readiness(NamedTuple):
    """A node by its name, or LINE for those that wait: ready, or why not."""

    what: str
    is_ready: bool
    why: str = ""


async def check_ready(store: Store, clock: Clock, name: str | None) -> list[Readiness]:
    """Each node that is here, or the one of that name, and then the tasks that wait."""
    here = [node for node in (await store.directory()).nodes if node.here and name in (None, node.name)]
    judged = [judge_node(node, clock) for node in here]
    free = any(one.is_ready and _has_room(node) for one, node in zip(judged, here, strict=True))
    return [*judged, *(await _find_stuck(store, clock) if free else ())]


def judge_node(node: Node, clock: Clock) -> Readiness:
    """What a node is, by its registration and its last beat."""
    if not node.live(clock.now()):
        return Readiness(node.name, False, "its beats have stopped")
    if node.state == NodeState.DRAINING:
        return Readiness(node.name, False, "it drains")
    trouble = "" if node.vitals is None else node.vitals.trouble
    return Readiness(node.name, not trouble, trouble)


def _has_room(node: Node) -> bool:
    return node.vitals is not None and node.vitals.used < node.vitals.slots


async def _find_stuck(store: Store, clock: Clock) -> list[Readiness]:
    page = await store.find(Query(statuses=(int(Status.QUEUED),), most=_LOOKED_AT))
    old = [task for task in page.tasks if clock.wall() - task.modified > LONG]
    stuck = [task for task in old if await _is_next(store, clock, task)]
    return [_tell(stuck, clock)] if stuck else []


async def _is_next(store: Store, clock: Clock, task: Task) -> bool:
    return [reason.code for reason in (await explain(store, clock, task.id)).reasons] in (["next"], ["not_taken"])


def _tell(stuck: Sequence[Task], clock: Clock) -> Readiness:
    seconds = (clock.wall() - stuck[0].modified) // 1000
    why = f"task {stuck[0].id} has been ready for {seconds} s, a slot is free, and nobody takes it"
    return Readiness(LINE, False, why)
