"""How tasks are taken: the heads of the open lanes, merged, as far as the limits allow.

Heads are taken with their locks, and what another claim has locked is stepped over: claims do not wait for each other.
That one may not take it after all, and tells nobody so: whoever gets less than it asked for while something is left in
its lines looks again soon.
Only a limited queue has a row that its claims lock. Who has it counts the leases that were committed and those of this
step, and since every claim of the queue comes by here, none can be missing. A queue that is full in the books is left
alone without waiting for its row: whoever ends a lease there wakes those who went away.
"""

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.clock import Moment, Wall
from ganger.core.event import Fact
from ganger.core.ids import TaskId
from ganger.core.lane import avoids, open_to
from ganger.core.node import Node, NodeState
from ganger.core.queue import Queue
from ganger.core.state import RULES, Status
from ganger.core.task import Claimed
from ganger.engine.store import CLAIMED_SPEC, Claim
from ganger.engine.stores.postgres.following import tell_holder
from ganger.engine.stores.postgres.guard import claiming_node
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row, columns
from ganger.engine.stores.postgres.shelf import Shelf
from ganger.engine.stores.postgres.step import LEASED_NAMES, Step

PROMOTED_AT_ONCE: Final = 1_000
SOON: Final = 50
"""Milliseconds after which whoever stepped over something looks again; `exchange` has the same."""
_NO_LIMIT: Final = 1 << 30
_DELAYED: Final = str(int(Status.DELAYED))
_USUAL: Final = (0, 0, None, None, False, None, 0, None, None)
"""The end of a head about which nothing is unusual, from `attempts` on."""
Head = tuple[Any, ...]
"""A ready task as it is read: priority, rank, queue and id first, so that heads compare in the order of claiming."""


class Taken(NamedTuple):
    claimed: list[Claimed]
    next_due: Wall | None = None
    waiting: bool = False


async def claim(step: Step, request: Claim) -> Taken:
    node = claiming_node(step, request.holder)
    queues = [step.shelf.queues[queue] for queue in request.queues if queue in step.shelf.queues]
    most = await _node_room(step, node, request.most if not request.ids else len(request.ids))
    if request.ids:
        return Taken(await _take(step, request, await _named(step, node, request.ids, most)))
    if step.sight.delays or any(step.tally.get((queue.id, _DELAYED)) for queue in queues):
        await promote(step, [queue.id for queue in queues], PROMOTED_AT_ONCE)
        await refill(step)
    rooms = await _rooms(step, node, queues)
    claimed = await _claim_best(step, node, request, rooms, most)
    if len(claimed) >= request.most:
        return Taken(claimed)
    limited = most < request.most or any(room < most for _, room in rooms)
    times = [await _next_due(step, node, queues)]
    if len(claimed) < most and await _is_left(step, node, rooms, claimed):
        times.append(Wall(step.wall + SOON))
    return Taken(claimed, min((time for time in times if time is not None), default=None), limited)


async def _is_left(step: Step, node: Node, rooms: Sequence[tuple[Queue, int]], claimed: Sequence[Claimed]) -> bool:
    """Did it step over something, where no limit kept it from taking more?"""
    taken = Tally(one.queue for one in claimed)
    spacious = [queue for queue, room in rooms if taken[queue.id] < room]
    lines = [(queue.id, lane) for queue in spacious for lane in await _open_lanes(step, node, queue)]
    return bool(lines) and bool(await step.one(Q.lines_left, *columns(lines, 2)))


async def _node_room(step: Step, node: Node, most: int) -> int:
    if node.slots is None:
        return most
    # Of its claims that count against its slots one waits for the other.
    await step.run(Q.node_lock, node.id)
    leased = await step.one(Q.leased_by_node, node.id)
    return max(0, min(most, node.slots - int(leased)))


async def promote(step: Step, queues: Sequence[int], most: int) -> int:
    """Move due tasks of these queues to queued, the earliest first; how many."""
    rule = RULES["promote"]
    rows = await step.run(Q.promote, step.wall, queues, most) if queues else []
    for number, queue, _, limit_key, fence, _ in sorted(rows, key=lambda row: (row[5], row[0])):
        step.woken.add(queue)
        step.tell(rule.fact, queue, 0, ((number, rule.target, fence, None),))
        step.count(queue, Status.DELAYED, -1)
        step.count(queue, rule.target, 1)
        if limit_key is not None:
            step.keys.add((queue, limit_key))
    return len(rows)


async def _rooms(step: Step, node: Node, queues: Sequence[Queue]) -> list[tuple[Queue, int]]:
    """How many tasks of each queue this node may be given now. Limited queues are locked before they are counted."""
    limited = [queue for queue in queues if _gives(step, node, queue) and queue.policy.is_limited]
    leased: dict[int, int] = {}
    here: dict[int, int] = {}
    full: set[int] = set()
    if limited:
        ids = await _lock(step, limited)
        full = {int(queue.id) for queue in limited} - set(ids)
        leased = await _count_leased(step, ids)
        here = await _count_here(step, node, limited)
    return [(queue, 0 if queue.id in full else _room(step, node, queue, leased, here)) for queue in queues]


async def _count_here(step: Step, node: Node, queues: Sequence[Queue]) -> dict[int, int]:
    """How many tasks the node has of each queue that limits that."""
    ids = [queue.id for queue in queues if queue.policy.max_per_node is not None]
    return dict(await step.run(Q.leased_by_node_queue, node.id, ids)) if ids else {}


async def _lock(step: Step, queues: Sequence[Queue]) -> list[int]:
    """Those that have room, locked. One that is full is not waited for: whoever makes room there tells all who wait."""
    asked = [(queue.id, _most_leased(step, queue)) for queue in queues]
    return [number for (number,) in await step.run(Q.queue_lock, *columns(asked, 2), LEASED_NAMES)]


def _most_leased(step: Step, queue: Queue) -> int | None:
    """With how many leases in the books the queue is full, those that this step ends or gives being counted."""
    if queue.policy.max_active is None:
        return None
    return queue.policy.max_active - sum(step.tally.get((queue.id, status), 0) for status in LEASED_NAMES)


async def _count_leased(step: Step, queues: Sequence[int]) -> dict[int, int]:
    leased = {queue: sum(step.tally.get((queue, status), 0) for status in LEASED_NAMES) for queue in queues}
    for queue, _, n in await step.run(Q.tally_of, queues, LEASED_NAMES):
        leased[queue] += n
    return leased


def _gives(step: Step, node: Node, queue: Queue) -> bool:
    return not queue.paused(Wall(step.wall)) and _takes(node, queue)


def _takes(node: Node, queue: Queue) -> bool:
    return node.takes_queue(queue.name) and queue.takes_node(node.name)


def _room(step: Step, node: Node, queue: Queue, leased: dict[int, int], here: dict[int, int]) -> int:
    if not _gives(step, node, queue):
        return 0
    room, policy = _NO_LIMIT, queue.policy
    if policy.max_active is not None:
        room = policy.max_active - leased.get(queue.id, 0)
    if policy.max_per_node is not None:
        room = min(room, policy.max_per_node - here.get(queue.id, 0))
    return room


async def _claim_best(
    step: Step, node: Node, request: Claim, rooms: Sequence[tuple[Queue, int]], most: int
) -> list[Claimed]:
    """The best tasks over all queues, at most `most`, and no more of a queue than there is room for."""
    spacious = [(queue, min(most, room)) for queue, room in rooms if min(most, room) > 0]
    if len(spacious) == 1:
        most = spacious[0][1]
    lines = [(queue.id, lane, room) for queue, room in spacious for lane in await _open_lanes(step, node, queue)]
    if not lines:
        return []
    if all(room >= most for _, _, room in lines):
        return await _take_best(step, request, [line[:2] for line in lines], most)
    heads = [tuple(row) for row in await step.run(Q.ready_heads, *columns(lines, 3))]
    return await _take(step, request, _choose(heads, {queue.id: room for queue, room in rooms}, most))


def _choose(heads: list[Head], rooms: dict[int, int], most: int) -> list[Head]:
    chosen: list[Head] = []
    for head in sorted(heads, key=order):
        if len(chosen) < most and rooms[head[2]] > 0:
            rooms[head[2]] -= 1
            chosen.append(head)
    return chosen


def order(head: Head) -> Head:
    """What heads are compared by."""
    return head[:4]


async def _take_best(step: Step, request: Claim, lines: list[tuple[int, ...]], most: int) -> list[Claimed]:
    """Find and take in one statement, where no limit asks for a choice between the two."""
    rule = RULES["take" if request.start else "claim"]
    (lists,) = await step.run(
        Q.claim_heads, *columns(lines, 2), most, int(rule.target), request.holder, step.wall, request.length, step.now,
        CLAIMED_SPEC,
    )  # fmt: skip
    return await _hand_over(step, request, heads_from(lists))


def heads_from(lists: Sequence[Any]) -> list[Head]:
    """Heads that come as columns, each of which is null if there is none; they are in order, and their rank is lost."""
    if lists[0] is None:
        return []
    return [
        (priority, 0, queue, task, lane, spec, fence, *(_USUAL if rest is None else msgspec.json.decode(rest)))
        for task, fence, queue, lane, priority, spec, rest in zip(*lists, strict=True)
    ]


def foresee(shelf: Shelf, node: Node, request: Claim) -> list[tuple[int, int]] | None:
    """The lines from which the node will be given tasks, if nothing but what is ready can decide that; else None."""
    queues = [shelf.queues[queue] for queue in request.queues if queue in shelf.queues]
    if node.state != NodeState.ACTIVE or request.ids or any(number < 0 for number in shelf.lanes):
        return None
    for queue in queues:
        if queue.paused_until or queue.policy.is_limited or not _takes(node, queue):
            return None
    lanes = [number for number, lane in shelf.lanes.items() if open_to(lane, node, 0, False)]
    return [(queue.id, lane) for queue in queues for lane in lanes]


async def _open_lanes(step: Step, node: Node, queue: Queue) -> list[int]:
    lanes = step.shelf.lanes
    avoided = any(lane.avoid == node.identity and step.wall < lane.avoid_until for lane in lanes.values())
    alone = avoided and not await _has_rival(step, node, queue)
    return [number for number, lane in lanes.items() if open_to(lane, node, step.wall, alone)]


async def _has_rival(step: Step, node: Node, queue: Queue) -> bool:
    """Is another node here that takes the queue?"""
    return any(
        known.node.identity != node.identity
        and step.is_live(known)
        and known.node.takes_queue(queue.name)
        and queue.takes_node(known.node.name)
        for known in await step.here()
    )


async def _named(step: Step, node: Node, ids: Sequence[TaskId], most: int) -> list[Head]:
    """Those of the named tasks that are ready and allowed, within the limits of their queues."""
    found = sorted((tuple(row) for row in await step.run(Q.ready_named, ids)), key=order)
    queues = [step.shelf.queues[number] for number in sorted({head[2] for head in found})]
    left = {queue.id: room for queue, room in await _rooms(step, node, queues)}
    heads: list[Head] = []
    for head in found:
        open_lane = open_to(step.shelf.lanes[head[4]], node, step.wall, True)
        if left[head[2]] > 0 and len(heads) < most and open_lane:
            heads.append(head)
            left[head[2]] -= 1
    return heads


async def _take(step: Step, request: Claim, heads: list[Head]) -> list[Claimed]:
    if heads:
        rule, taken = RULES["take" if request.start else "claim"], [(head[3], head[2]) for head in heads]
        await step.run(
            Q.claim_take, int(rule.target), request.holder, step.wall, request.length, step.now, *columns(taken, 2)
        )
    return await _hand_over(step, request, await _with_specs(step, heads))


async def _hand_over(step: Step, request: Claim, heads: list[Head]) -> list[Claimed]:
    """What follows when tasks have been taken."""
    if not heads:
        return []
    status = int(RULES["take" if request.start else "claim"].target)
    if left := [(head[3], step.shelf.plain_lane(head[4])) for head in heads if head[4] < 0]:
        # Whoever takes a task that avoided another ends that: the lane is for those who wait.
        await step.run(Q.lane_set, *columns(left, 2))
    _tell(step, status, request.holder, heads)
    await tell_holder(step, [head[3] for head in heads])
    return receive(step, request, heads)


def receive(step: Step, request: Claim, heads: list[Head]) -> list[Claimed]:
    """The heads as their holder gets them; those that are nobody else's business are kept in mind."""
    status = int(RULES["take" if request.start else "claim"].target)
    step.taken += [_row(step, request.holder, status, head) for head in heads if _is_plain(head)]
    return _claimed(step, heads, request, status)


def _is_plain(head: Head) -> bool:
    """Can its end mean anything for others?"""
    touch, kids, group, limit_key = head[11], head[13], head[14], head[15]
    return not touch and not kids and group is None and limit_key is None and head[4] > 0


def _row(step: Step, holder: int, status: int, head: Head) -> Row:
    identity = 0 if step.sight.node is None else step.sight.node.node.identity
    return Row(
        head[3], head[2], head[4], status, head[6] + 1, holder, None, None, 0, None, None, 0, False, False, None,
        identity, None, None, True,
    )  # fmt: skip


def _tell(step: Step, status: int, holder: int, heads: list[Head]) -> None:
    for queue in {head[2] for head in heads}:
        told = [(head[3], status, head[6] + 1, None) for head in heads if head[2] == queue]
        step.count(queue, Status.QUEUED, -len(told))
        step.count(queue, status, len(told))
        step.tell(Fact.CLAIMED, queue, holder, told)


def _claimed(step: Step, heads: list[Head], request: Claim, status: int) -> list[Claimed]:
    lanes, queues = step.shelf.lanes, step.shelf.queues
    claimed = []
    for priority, _, queue, number, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr, *_ in heads:
        until = Moment(step.now + (ttr or request.length)) if touch else None
        claimed.append(Claimed._make((
            number, queue, lanes[lane].kind, spec, fence + 1, request.holder, until, priority, attempts, crashes,
            retry or queues[queue].policy.retry, timeout, status,
        )))  # fmt: skip
    return claimed


async def _with_specs(step: Step, heads: list[Head]) -> list[Head]:
    """The heads with those specs that lie elsewhere and are not too large to travel along."""
    ids = [head[3] for head in heads if head[5] is None]
    if not ids:
        return heads
    specs = {task: value for task, value, _ in await step.run(Q.specs_read, ids, CLAIMED_SPEC)}
    return [(*head[:5], specs.get(head[3]), *head[6:]) if head[5] is None else head for head in heads]


async def _next_due(step: Step, node: Node, queues: Sequence[Queue]) -> Wall | None:
    """When to look again: the first delayed task, the end of a pause, a lane that avoids this node opening to it."""
    times = [end for queue in queues if (end := queue.pause_ends(Wall(step.wall))) is not None]
    first = await step.one(Q.next_due, [queue.id for queue in queues])
    times += [] if first is None else [Wall(first)]
    lanes = [number for number, lane in step.shelf.lanes.items() if avoids(lane, node, step.wall)]
    shared = [queue.id for queue in queues if lanes and await _has_rival(step, node, queue)]
    lines = [(queue, lane) for queue in shared for lane in lanes]
    ready = await step.run(Q.lanes_ready, *columns(lines, 2)) if lines else []
    return min([*times, *(Wall(step.shelf.lanes[lane].avoid_until) for (lane,) in ready)], default=None)
