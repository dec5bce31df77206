"""Claim: the best tasks of several queues, from the lanes that are open to the holder, as far as every limit allows."""

from collections import defaultdict
from typing import Any, NamedTuple

from ganger.core.clock import Moment, Wall
from ganger.core.errors import NodeGone
from ganger.core.event import Entry, Fact
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lane import Lane, avoids, open_to
from ganger.core.lease import Renewal
from ganger.core.node import Node, NodeState
from ganger.core.queue import Queue
from ganger.core.state import Status, move
from ganger.core.task import Claimed
from ganger.engine.store import CLAIMED_SPEC, Claim, Exchanged
from ganger.engine.stores.memory.follows import tell_holder
from ganger.engine.stores.memory.moves import advance, apply
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.step import Step


class Claimant(NamedTuple):
    """A claim with the node that makes it and the queues of it that exist."""

    request: Claim
    node: Node
    queues: dict[QueueId, Queue]


def claim(step: Step, request: Claim) -> Exchanged:
    node = _claiming_node(step, request.holder)
    queues = {queue: step.queue(queue) for queue in request.queues if queue in step.tables.queues}
    if not request.ids:
        promote(step, list(queues), None)
        step.settle_limits()
    claimant = Claimant(request, node, queues)
    rows = _take_named(step, claimant) if request.ids else _take_best(step, claimant)
    _tell(step, rows, node)
    tell_holder(step, [row.task.id for row in rows])
    claimed = [_hand_over(step, row) for row in rows]
    if request.ids or len(rows) >= request.most:
        return Exchanged([], claimed)
    return Exchanged([], claimed, _next_due(step, claimant), _find_waiting(step, claimant))


def _claiming_node(step: Step, holder: NodeId) -> Node:
    row = step.tables.nodes.get(holder)
    if row is None or not row.live(step.now, step.boot):
        raise NodeGone(f"the registration {holder} has ended; register the node anew", node=holder)
    if row.node.state == NodeState.DRAINING:
        raise NodeGone(f"the node {row.node.name} is draining and takes nothing more", node=holder)
    return row.node


def promote(step: Step, queues: list[QueueId], most: int | None) -> int:
    """Queue the delayed tasks of these queues that are due, the earliest first; returns how many."""
    due = sorted(key for queue in queues for key in step.tables.delayed.bucket(queue) if key[0] <= step.wall)
    for _, task in due[:most]:
        apply(step, move(task, "promote"))
    return len(due[:most])


def _take_best(step: Step, claimant: Claimant) -> list[Row]:
    taken: list[Row] = []
    lines = _open_lines(step, claimant)
    while len(taken) < claimant.request.most:
        heads = [head for line in lines if (head := _head(step, line, claimant)) is not None]
        if not heads:
            break
        taken.append(_lease(step, step.tables.rows[min(heads)[-1]], claimant))
    return taken


def _open_lines(step: Step, claimant: Claimant) -> list[tuple[QueueId, Lane]]:
    return [
        (queue.id, lane)
        for queue in claimant.queues.values()
        if gives(step, queue, claimant.node)
        for lane in _lanes(step, queue.id)
        if open_to(lane, claimant.node, step.wall, is_alone(step, queue, claimant.node))
    ]


def _lanes(step: Step, queue: QueueId) -> list[Lane]:
    return [lane for owner, lane in step.tables.ready.names() if owner == queue]


def _head(step: Step, line: tuple[QueueId, Lane], claimant: Claimant) -> Any | None:
    """The first task of a lane, in an order that compares over all queues; None if it is empty or a limit forbids."""
    keys = step.tables.ready.bucket(line)
    if not keys or not _has_room(step, step.queue(line[0]), claimant.node):
        return None
    priority, rank, task = keys[0]
    return priority, rank, line[0], task


def _take_named(step: Step, claimant: Claimant) -> list[Row]:
    taken = []
    for task in dict.fromkeys(claimant.request.ids):
        row = step.tables.rows.get(task)
        if row is not None and _may_take(step, row, claimant.node):
            taken.append(_lease(step, row, claimant))
    return taken


def _may_take(step: Step, row: Row, node: Node) -> bool:
    if row.task.status != Status.QUEUED or row.task.parked:
        return False
    queue = step.queue(row.task.queue)
    # Who names a task and a holder wants them together: it is taken as if nobody else were there.
    is_open = open_to(row.lane, node, step.wall, alone=True)
    return is_open and gives(step, queue, node) and _has_room(step, queue, node)


def gives(step: Step, queue: Queue, node: Node) -> bool:
    """Does the queue give tasks to this node now, limits apart?"""
    return not queue.paused(step.wall) and queue.takes_node(node.name) and node.takes_queue(queue.name)


def is_alone(step: Step, queue: Queue, node: Node) -> bool:
    """Is there no other live node that takes the queue?"""
    live = [row.node for row in step.tables.nodes.values() if row.live(step.now, step.boot)]
    others = [other for other in live if other.identity != node.identity]
    return not any(queue.takes_node(other.name) and other.takes_queue(queue.name) for other in others)


def _has_room(step: Step, queue: Queue, node: Node) -> bool:
    tables, policy = step.tables, queue.policy
    counts = (
        (policy.max_active, tables.active_of_queue.bucket(queue.id)),
        (policy.max_per_node, tables.active_of_both.bucket((queue.id, node.id))),
        (node.slots, tables.active_of_node.bucket(node.id)),
    )
    return all(most is None or len(active) < most for most, active in counts)


def _lease(step: Step, row: Row, claimant: Claimant) -> Row:
    """Give the task to the node: a new fence, a lease, and the lane of nobody avoided."""
    request = claimant.request
    started = row.having(started=None, fence=row.task.fence + 1, holder=claimant.node.id, avoid=None)
    moved = advance(step, started, move(row.task.id, "take" if request.start else "claim"))
    length = row.task.ttr or request.length
    until = Moment(step.now + length) if row.task.renewal == Renewal.TOUCH else None
    lane = Lane(row.task.kind, row.task.requires)
    return step.put(moved._replace(claimed=step.wall, lane=lane).having(until=until))


def _tell(step: Step, rows: list[Row], node: Node) -> None:
    by_queue: dict[QueueId, list[Entry]] = defaultdict(list)
    for row in rows:
        by_queue[row.task.queue].append(Entry(row.task.id, row.task.status, row.task.fence))
    for queue, entries in by_queue.items():
        step.tell(Fact.CLAIMED, queue, node.id, *entries)


def _hand_over(step: Step, row: Row) -> Claimed:
    task = row.task
    return Claimed(
        id=task.id,
        queue=task.queue,
        kind=task.kind,
        spec=row.spec if task.spec_size <= CLAIMED_SPEC and not _is_blob(step, task.id) else None,
        fence=task.fence,
        holder=NodeId(task.holder or 0),
        until=task.until,
        priority=task.priority,
        attempts=task.attempts,
        crashes=task.crashes,
        retry=task.retry if task.retry is not None else step.queue(task.queue).policy.retry,
        timeout=task.timeout,
        status=task.status,
    )


def _is_blob(step: Step, task: TaskId) -> bool:
    return step.tables.datum(task, "spec") is not None


def _next_due(step: Step, claimant: Claimant) -> Wall | None:
    """When it is worth asking again: a task is due, a pause ends, or a lane that avoids this node opens to it."""
    times = [time for queue in claimant.queues.values() for time in _times(step, queue, claimant.node)]
    return Wall(min(times)) if times else None


def _times(step: Step, queue: Queue, node: Node) -> list[int]:
    first = [due for due, _ in step.tables.delayed.bucket(queue.id)[:1]]
    pause = [] if (end := queue.pause_ends(step.wall)) is None else [end]
    avoided = [
        lane.avoid_until
        for lane in _lanes(step, queue.id)
        if avoids(lane, node, step.wall) and not is_alone(step, queue, node)
    ]
    return [*first, *pause, *avoided]


def _find_waiting(step: Step, claimant: Claimant) -> bool:
    """Does a limit alone keep a ready task from this claim?"""
    return any(step.tables.ready.bucket(line) for line in _open_lines(step, claimant))
