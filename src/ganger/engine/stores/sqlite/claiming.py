"""How tasks are taken: the heads of the open lanes, merged, as far as the limits allow."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from ganger.core.clock import Moment, Wall
from ganger.core.event import Fact
from ganger.core.ids import NodeId, TaskId
from ganger.core.lane import avoids, open_to
from ganger.core.node import Node
from ganger.core.queue import Queue
from ganger.core.state import RULES, Status
from ganger.core.task import Claimed
from ganger.engine.store import CLAIMED_SPEC, Claim
from ganger.engine.stores.sqlite.following import tell_holder
from ganger.engine.stores.sqlite.guard import claiming_node
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

PROMOTED_AT_ONCE = 1_000
Head = tuple[Any, ...]
"""A ready task as it is read: priority, rank, queue and id first, so that heads compare in the order of claiming."""


class Taken(NamedTuple):
    claimed: list[Claimed]
    next_due: Wall | None = None
    waiting: bool = False


def claim(step: Step, request: Claim) -> Taken:
    node = claiming_node(step, request.holder)
    queues = [step.shelf.queues[queue].queue for queue in request.queues if queue in step.shelf.queues]
    most = _node_room(step, node, request.most if not request.ids else len(request.ids))
    if request.ids:
        return Taken(_take(step, request, _named(step, node, request.ids, most)))
    for queue in queues:
        promote(step, queue.id, PROMOTED_AT_ONCE)
    refill(step)
    heads, waiting = _heads(step, node, queues, most)
    claimed = _take(step, request, heads)
    short = len(claimed) < request.most
    next_due = _next_due(step, node, queues) if short else None
    return Taken(claimed, next_due, waiting or (short and most < request.most))


def _node_room(step: Step, node: Node, most: int) -> int:
    if node.slots is None:
        return most
    ((leased,),) = step.run(Q.leased_by_node, (node.id,))
    return max(0, min(most, node.slots - int(leased)))


def promote(step: Step, queue: int, most: int) -> int:
    """Move due tasks of a queue to queued; how many."""
    if not step.has_delayed(queue):
        return 0
    rule = RULES["promote"]
    rows = list(step.run(Q.promote_queue, (step.wall, queue, most)))
    for number, lane, limit_key, fence in rows:
        step.readied(queue, lane)
        step.tell(rule.fact, queue, 0, ((number, rule.target, fence, None),))
        if limit_key is not None:
            step.keys.add((queue, limit_key))
    step.count(queue, Status.DELAYED, -len(rows))
    step.count(queue, rule.target, len(rows))
    return len(rows)


def _heads(step: Step, node: Node, queues: Sequence[Queue], most: int) -> tuple[list[Head], bool]:
    """The best tasks over all queues, at most `most`, and whether a limit kept others back."""
    heads: list[Head] = []
    limited = False
    for queue in queues:
        room = _room(step, node, queue)
        limited = limited or room < most
        if min(most, room) > 0:
            heads += _queue_heads(step, node, queue, min(most, room))
    return _best(heads, most, len(queues)), limited


def _room(step: Step, node: Node, queue: Queue) -> int:
    """How many tasks of the queue this node may be given now."""
    if queue.paused(Wall(step.wall)) or not node.takes_queue(queue.name) or not queue.takes_node(node.name):
        return 0
    room, policy = 1 << 30, queue.policy
    if policy.max_active is not None:
        room = policy.max_active - step.leased(queue.id)
    if policy.max_per_node is not None:
        ((here,),) = step.run(Q.leased_by_node_queue, (node.id, queue.id))
        room = min(room, policy.max_per_node - here)
    return room


def _queue_heads(step: Step, node: Node, queue: Queue, most: int) -> list[Head]:
    heads: list[Head] = []
    lanes = list(_open_lanes(step, node, queue))
    for lane in lanes:
        found = list(step.run(Q.ready_head, (queue.id, lane, most)))
        if not found:
            step.shelf.line_empty(step.session, queue.id, lane)
        heads += found
    return _best(heads, most, len(lanes))


def _best(heads: list[Head], most: int, sources: int) -> list[Head]:
    """The first of them in the order of claiming; those of one source are in it already."""
    if sources > 1:
        heads.sort()
    return heads[:most]


def _open_lanes(step: Step, node: Node, queue: Queue) -> Iterator[int]:
    shelf = step.shelf
    lined = shelf.lined.get(queue.id, set())
    alone = _is_alone(step, node, queue) if len(lined) > 1 else None
    for lane in sorted(lined):
        known = shelf.lanes[lane]
        if alone is None and known.avoid == node.identity:
            alone = _is_alone(step, node, queue)
        if open_to(known, node, step.wall, bool(alone)):
            yield lane


def _is_alone(step: Step, node: Node, queue: Queue) -> bool:
    return not any(_rival(step, other, node, queue) for other in step.shelf.nodes.values())


def _rival(step: Step, other: Node, node: Node, queue: Queue) -> bool:
    """Another node that is here and takes the queue."""
    return (
        other.identity != node.identity
        and other.live(step.now)
        and other.takes_queue(queue.name)
        and queue.takes_node(other.name)
    )


def _named(step: Step, node: Node, ids: Sequence[TaskId], most: int) -> list[Head]:
    """Those of the named tasks that are ready and allowed, within the limits of their queues."""
    heads: list[Head] = []
    given: dict[int, int] = {}
    for head in sorted(step.run(Q.ready_named, (apsw.carray(array("q", ids)),))):
        queue = step.shelf.queues[head[2]].queue
        room = _room(step, node, queue) - given.get(queue.id, 0)
        if room > 0 and len(heads) < most and open_to(step.shelf.lanes[head[4]], node, step.wall, True):
            heads.append(head)
            given[queue.id] = given.get(queue.id, 0) + 1
    return heads


def _take(step: Step, request: Claim, heads: list[Head]) -> list[Claimed]:
    if not heads:
        return []
    rule = RULES["take" if request.start else "claim"]
    _leave_avoiding(step, heads)
    ids = apsw.carray(array("q", [head[3] for head in heads]))
    step.run(Q.claim_take, (rule.target, request.holder, step.wall, ids))
    # An end of their own is written only for those that have one: it has an index, which the others need not touch.
    if touched := array("q", [head[3] for head in heads if head[11]]):
        step.run(Q.claim_until, (step.now, request.length, apsw.carray(touched)))
    _tell(step, rule.target, request.holder, heads)
    if step.shelf.followed:
        tell_holder(step, [head[3] for head in heads])
    return _claimed(step, heads, request, rule.target)


def _tell(step: Step, status: int, holder: int, heads: list[Head]) -> None:
    for queue in {head[2] for head in heads}:
        told = [(head[3], status, head[6] + 1, None) for head in heads if head[2] == queue]
        step.count(queue, Status.QUEUED, -len(told))
        step.count(queue, status, len(told))
        step.tell(Fact.CLAIMED, queue, holder, told)


def _leave_avoiding(step: Step, heads: list[Head]) -> None:
    """Whoever takes a task that avoided another ends that: the lane is for those who wait."""
    for head in heads:
        if head[4] < 0:
            step.run(Q.lane_set, (step.shelf.plain_lane(step.session, head[4]), head[3]))


def _claimed(step: Step, heads: list[Head], request: Claim, status: int) -> list[Claimed]:
    """The heads as their holder gets them. Spelt out for its heat: a call for each of them would cost as much again."""
    lanes, queues, holder = step.shelf.lanes, step.shelf.queues, request.holder
    claimed = []
    for priority, _, queue, number, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr in heads:
        until = Moment(step.now + (ttr or request.length)) if touch else None
        claimed.append(Claimed._make((
            number, queue, lanes[lane].kind, spec if spec is not None else _large_spec(step, number), fence + 1,
            holder, until, priority, attempts, crashes,
            retry or queues[queue].queue.policy.retry, timeout, status,
        )))  # fmt: skip
    return claimed


def claimed_again(step: Step, head: Head, leased: tuple[int, int, Moment | None, int]) -> Claimed:
    """A head as its holder got it, with the lease that it has: fence, holder, end, status."""
    fence, holder, until, status = leased
    request = Claim(NodeId(holder))
    (claimed,) = _claimed(step, [(*head[:6], fence - 1, *head[7:11], False, None)], request, status)
    return claimed._replace(until=until)


def _large_spec(step: Step, number: int) -> bytes | None:
    for value, size in step.run(Q.spec_read, (number,)):
        return value if size <= CLAIMED_SPEC else None
    return None


def _next_due(step: Step, node: Node, queues: Sequence[Queue]) -> Wall | None:
    """When to look again: the first delayed task, the end of a pause, a lane that avoids this node opening to it."""
    times = [end for queue in queues if (end := queue.pause_ends(Wall(step.wall))) is not None]
    for queue in queues:
        if step.has_delayed(queue.id):
            times += [row[0] for row in step.run(Q.next_due, (queue.id,)) if row[0] is not None]
        times += _openings(step, node, queue)
    return min(times, default=None)


def _openings(step: Step, node: Node, queue: Queue) -> list[Wall]:
    """When lanes with tasks that keep clear of this node open to it, while there are others to take them."""
    lanes = [(lane, step.shelf.lanes[lane]) for lane in step.shelf.lined.get(queue.id, ())]
    avoiding = [(lane, known) for lane, known in lanes if avoids(known, node, step.wall)]
    if not avoiding or _is_alone(step, node, queue):
        return []
    return [Wall(known.avoid_until) for lane, known in avoiding if _has_ready(step, queue.id, lane)]


def _has_ready(step: Step, queue: int, lane: int) -> bool:
    return bool(list(step.run(Q.ready_head, (queue, lane, 1))))
