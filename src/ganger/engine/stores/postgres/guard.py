"""Does the writer still hold what it says it holds? Asked of every write of a holder, inside its transaction."""

from collections.abc import Iterable

from ganger.core.errors import NodeGone, StaleLease
from ganger.core.ids import Fence, TaskId
from ganger.core.node import Node, NodeState
from ganger.core.state import LEASED
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row
from ganger.engine.stores.postgres.step import Step


async def read_rows(step: Step, ids: Iterable[int]) -> dict[int, Row]:
    """The tasks with these ids, locked until the end of the step, always in the order of their ids."""
    return {row[0]: Row._make(row) for row in await step.run(Q.rows_read, list(dict.fromkeys(ids)))}


def lease_valid(step: Step, row: Row) -> bool:
    known = step.sight.node
    if known is not None and known.node.id == row.holder:
        row = row._replace(here=known.node.here, node_until=known.node.until, node_term=known.term)
    if not row.here or row.node_until is None or step.is_over(row.node_until, row.node_term or 0):
        return False
    return row.until is None or not step.is_over(row.until, row.term or 0)


async def check_under(step: Step, under: tuple[TaskId, Fence] | None) -> None:
    """Refuse a write under a lease that is not valid any more."""
    if under is None:
        return
    task, fence = under
    row = (await read_rows(step, [task])).get(task)
    if row is None or row.fence != fence or row.status not in LEASED or not lease_valid(step, row):
        raise stale(task, fence)


def stale(task: int, fence: int) -> StaleLease:
    return StaleLease(
        f"lease {fence} of task {task} has ended: another holder may have it, so nothing of this was stored",
        task=task,
        fence=fence,
    )


def claiming_node(step: Step, holder: int) -> Node:
    """The node that claims, if it may. It cannot be lost meanwhile: who loses a node runs alone."""
    known = step.sight.node
    if known is None or not step.is_live(known) or known.node.state != NodeState.ACTIVE:
        raise NodeGone(
            f"node {holder} is not registered, its lease has ended, or it drains; register it anew to claim",
            node=holder,
        )
    return known.node
