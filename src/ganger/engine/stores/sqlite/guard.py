"""Does the writer still hold what it says it holds? Asked of every write of a holder, inside its transaction."""

from ganger.core.errors import NodeGone, StaleLease
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import valid
from ganger.core.node import Node, NodeState
from ganger.core.state import LEASED
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step


def lease_valid(step: Step, holder: int | None, until: int | None) -> bool:
    node = step.node(holder)
    return node is not None and valid(until, node.until, step.now)  # type: ignore[arg-type]


def check_under(step: Step, under: tuple[TaskId, Fence] | None) -> None:
    """Refuse a write under a lease that is not valid any more."""
    if under is None:
        return
    task, fence = under
    for status, newest, holder, until in step.run(Q.lease_read, (task,)):
        if newest == fence and status in LEASED and lease_valid(step, holder, until):
            return
    raise stale(task, fence)


def stale(task: int, fence: int) -> StaleLease:
    return StaleLease(
        f"lease {fence} of task {task} has ended: another holder may have it, so nothing of this was stored",
        task=task,
        fence=fence,
    )


def claiming_node(step: Step, holder: int) -> Node:
    node = step.node(holder)
    if node is None or not node.live(step.now) or node.state != NodeState.ACTIVE:
        raise NodeGone(
            f"node {holder} is not registered, its lease has ended, or it drains; register it anew to claim",
            node=holder,
        )
    return node
