"""Claim: the best tasks of several queues, from the lanes that are open to the holder, as far as every limit allows."""

from collections import defaultdict
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, NamedTuple

from ganger.core.clock import Moment, Wall
from ganger.core.errors import NodeGone
from ganger.core.event import Entry, Fact
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lane import Lane, open_to
from ganger.core.lease import Renewal
from ganger.core.node import Node, NodeState
from ganger.core.queue import FOREVER, Queue
from ganger.core.state import Status, move
from ganger.core.task import Claimed
from ganger.databases.mongo import Choice
from ganger.engine.store import CLAIMED_SPEC, Claim, Exchanged
from ganger.engine.stores.mongo import choices, neighbours, sharing
from ganger.engine.stores.mongo.codec import lane_text, read_lane
from ganger.engine.stores.mongo.following import tell_holder
from ganger.engine.stores.mongo.moving import advance, apply
from ganger.engine.stores.mongo.row import QueueRow, Row
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import DATA, TASKS, datum_key

PROMOTED: Final = 1_000
"""So many due tasks a claim promotes at most; upkeep does the rest."""
LOOK_AGAIN: Final = 1_000
"""After so many milliseconds it is worth asking a shared queue again: strangers wake nobody."""
LOOK_SOON: Final = 100
"""The same of one whose threads all nodes share: whoever looks seldom gets none."""


class Claimant(NamedTuple):
    """A claim, the node that makes it, the queues of it that exist, and their lanes in which somebody waits.

    `others` are the other nodes that are here; nobody asks for them where no lane avoids the node.
    """

    request: Claim
    node: Node
    queues: dict[QueueId, QueueRow]
    lanes: dict[QueueId, list[Lane]]
    others: list[Node]

    def is_alone(self, queue: Queue) -> bool:
        """Is there no other live node that takes the queue?"""
        return not any(queue.takes_node(other.name) and other.takes_queue(queue.name) for other in self.others)


class Line(NamedTuple):
    """A queue that gives tasks to the node now, and those of its lanes that are open to it."""

    queue: QueueRow
    lanes: frozenset[Lane]


async def claim(step: Step, request: Claim) -> Exchanged:
    node, queues = await _claiming_node(step, request.holder), await _queues_of(step, request)
    if not request.ids and step.indexed:
        await promote(step, list(queues), PROMOTED)
        await step.settle_limits()
    claimant = await _claimant(step, request, node, queues)
    rows = await (_take_named(step, claimant) if request.ids else _take_best(step, claimant))
    _tell(step, rows, claimant.node)
    await tell_holder(step, [row.task.id for row in rows])
    await step.draft.load(DATA, [datum_key(row.task.id, "spec") for row in rows])
    claimed = [await _hand_over(step, row) for row in rows]
    if request.ids or len(rows) >= request.most:
        return Exchanged([], claimed)
    return Exchanged([], claimed, await _next_due(step, claimant), await _find_waiting(step, claimant))


async def _queues_of(step: Step, request: Claim) -> dict[QueueId, QueueRow]:
    await step.load_queues(request.queues)
    found = {queue: await step.queue_row(queue) for queue in request.queues}
    known = {queue: row for queue, row in found.items() if row is not None}
    # What strangers made is found by their own indexes, what is ours only by those that are being made.
    return known if step.indexed or request.ids else {queue: row for queue, row in known.items() if row.shared}


async def _claimant(step: Step, request: Claim, node: Node, queues: dict[QueueId, QueueRow]) -> Claimant:
    lanes = {} if request.ids else {queue: await _lanes(step, row) for queue, row in queues.items()}
    avoided = any(lane.avoid == node.identity for found in lanes.values() for lane in found)
    here = await step.draft.select(choices.here()) if avoided else []
    others = [row.node for row in here if step.is_live(row) and row.node.identity != node.identity]
    return Claimant(request, node, queues, lanes, others)


async def _claiming_node(step: Step, holder: NodeId) -> Node:
    row = await step.node(holder)
    if row is None or not step.is_live(row):
        raise NodeGone(f"the registration {holder} has ended; register the node anew", node=holder)
    if row.node.state == NodeState.DRAINING:
        raise NodeGone(f"the node {row.node.name} is draining and takes nothing more", node=holder)
    return row.node


async def promote(step: Step, queues: list[QueueId] | None, most: int) -> int:
    """Queue the delayed tasks of these queues that are due, the earliest first; returns how many."""
    due = await step.draft.select(choices.delayed(queues, step.wall), most)
    for row in due:
        await apply(step, move(row.task.id, "promote"))
    return len(due)


class Room:
    """How many more tasks the limits allow: of a queue, of it on this node, and of the node over all queues.

    Counted is what the documents say, by the node's name: also what a former node of the name left, and what strangers
    have. In a queue of our own the step's writes count as made. In a shared one they do not: what is taken there is in
    the documents ahead of the step, and strangers must never see more than the limit.
    """

    def __init__(self, step: Step, node: Node) -> None:
        self._step = step
        self._node = node
        self._leased = 0
        self._left: dict[QueueId, int | None] = {}

    async def of(self, row: QueueRow) -> int | None:
        """None where nothing limits it."""
        if row.shared:
            return await self._ask(row)
        if row.queue.id not in self._left:
            self._left[row.queue.id] = await self._ask(row)
        return self._left[row.queue.id]

    def take(self, row: QueueRow) -> None:
        """One of the queue is leased."""
        self._leased += not row.shared
        for queue, left in self._left.items():
            limited = queue == row.queue.id or self._node.slots is not None
            self._left[queue] = left - 1 if limited and left is not None else left

    async def _ask(self, row: QueueRow) -> int | None:
        policy, name = row.queue.policy, self._node.name
        left = []
        if policy.max_active is not None:
            left.append(policy.max_active - await self._count(row, choices.active_in(row.id)))
        if policy.max_per_node is not None:
            left.append(policy.max_per_node - await self._count(row, choices.active_in(row.id, name)))
        if self._node.slots is not None:
            ahead = self._leased if row.shared else 0
            left.append(self._node.slots - ahead - await self._count(row, choices.active_on(name)))
        return max(0, min(left)) if left else None

    async def _count(self, row: QueueRow, choice: Choice[Row]) -> int:
        if row.shared:
            return await self._step.session.count(choice.table.name, choice.where)
        return await self._step.draft.count(choice)


async def _take_best(step: Step, claimant: Claimant) -> list[Row]:
    room, most = Room(step, claimant.node), claimant.request.most
    lines = _open_lines(step, claimant)
    taken: list[Row] = []
    waiting = await sharing.find_waiting(step, (line.queue for line in lines if line.queue.shared))
    filled = [line for line in lines if line.queue.shared and line.queue.id in waiting]
    shared = [line for line in filled if not await _is_others_turn(step, line, claimant)]
    if shared and await _has_orphans(step, claimant.node):
        shared = []
    for line in _in_turn(step, shared):
        taken += await _grab(step, line, claimant, room, most - len(taken))
    own = [line for line in lines if not line.queue.shared]
    choosing = [choices.ready(line.queue.queue.id, line.lanes) for line in own]
    found = [row for choice in choosing for row in await step.draft.select(choice, most)]
    for row in sorted(found, key=_order):
        if len(taken) >= most:
            break
        queue = claimant.queues[row.task.queue]
        if await room.of(queue) != 0:
            room.take(queue)
            taken.append(_lease(step, row, claimant))
    return taken


async def _has_orphans(step: Step, node: Node) -> bool:
    """Has a former node of this name left anything that upkeep has not taken back yet? That comes first."""
    gone = [row.node.id for row in await step.draft.select(choices.gone(node.name))]
    return bool(gone) and await step.draft.count(choices.active_of_nodes(gone)) > 0


async def _is_others_turn(step: Step, line: Line, claimant: Claimant) -> bool:
    """Has this node just given back threads that are scarce, and is somebody else here to take them?"""
    if not step.watch.gives_way(line.queue.queue.id, claimant.node.name, step.now):
        return False
    here = [row for row in await step.draft.select(choices.here()) if step.is_live(row)]
    kind = sharing.lane_of(line.queue).kind
    ours = [row.node for row in here if row.node.id != claimant.node.id and row.node.takes_kind(kind)]
    return any(gives(step, line.queue.queue, node) for node in ours) or await neighbours.are_here(step)


def _in_turn(step: Step, lines: list[Line]) -> list[Line]:
    """Each step begins with another one: strangers know no order between queues, and none is to wait for ever."""
    first = step.session.head.step % max(1, len(lines))
    return [*lines[first:], *lines[:first]]


def _order(row: Row) -> Any:
    return row.task.priority, row.rank, row.task.queue, row.task.id


async def _grab(step: Step, line: Line, claimant: Claimant, room: Room, most: int) -> list[Row]:
    """At most so many tasks of a shared queue, taken as every stranger takes them."""
    if most <= 0:
        return []
    async with _counting(step, line.queue) as may_count:
        return await _grab_within(step, line, claimant, room, most) if may_count else []


def _counting(step: Step, queue: QueueRow) -> AbstractAsyncContextManager[bool]:
    """Around a count of free places and what is taken of them.

    The places of a node are taken by one process; those of a queue over all nodes by many, each ahead of its step.
    """
    is_common = queue.shared and queue.queue.policy.max_active is not None
    return step.session.alone(f"threads {queue.id}") if is_common else nullcontext(True)


async def _grab_within(step: Step, line: Line, claimant: Claimant, room: Room, most: int) -> list[Row]:
    left = await room.of(line.queue)
    most = most if left is None else min(left, most)
    grabbed = await sharing.grab(step, line.queue, _taking(claimant), most)
    for _ in grabbed:
        room.take(line.queue)
    return [_lease(step, row, claimant) for row in grabbed]


def _taking(claimant: Claimant) -> sharing.Taking:
    status = Status.RUNNING if claimant.request.start else Status.CLAIMED
    return sharing.Taking(claimant.node.name, int(status))


def _open_lines(step: Step, claimant: Claimant) -> list[Line]:
    giving = [row for row in claimant.queues.values() if not row.odd and gives(step, row.queue, claimant.node)]
    lines = [Line(row, _open_lanes(step, row.queue, claimant)) for row in giving]
    return [line for line in lines if line.lanes]


def _open_lanes(step: Step, queue: Queue, claimant: Claimant) -> frozenset[Lane]:
    return frozenset(lane for lane in claimant.lanes[queue.id] if _is_open(step, lane, queue, claimant))


def _is_open(step: Step, lane: Lane, queue: Queue, claimant: Claimant) -> bool:
    return open_to(lane, claimant.node, step.wall, claimant.is_alone(queue))


async def _lanes(step: Step, row: QueueRow) -> list[Lane]:
    """The lanes of a queue in which somebody waits; of a shared one there is but one that strangers know."""
    if row.shared:
        return [sharing.lane_of(row)]
    found = await step.draft.distinct(choices.ready(row.queue.id), "ganger.lane", lambda ready: lane_text(ready.lane))
    return [read_lane(text) for text in sorted(found)]


async def _take_named(step: Step, claimant: Claimant) -> list[Row]:
    taken, room = [], Room(step, claimant.node)
    await step.load(claimant.request.ids)
    for task in dict.fromkeys(claimant.request.ids):
        row = await step.row(task)
        queue = None if row is None else await step.queue_row(row.task.queue)
        if row is not None and queue is not None:
            async with _counting(step, queue) as may_count:
                if may_count and await _may_take(step, row, queue, claimant.node, room):
                    taken += await _take_one(step, row, queue, claimant, room)
    return taken


async def _take_one(step: Step, row: Row, queue: QueueRow, claimant: Claimant, room: Room) -> list[Row]:
    if queue.shared and not await sharing.grab_one(step, row, _taking(claimant)):
        return []
    room.take(queue)
    return [_lease(step, row, claimant)]


async def _may_take(step: Step, row: Row, queue: QueueRow, node: Node, room: Room) -> bool:
    if row.task.status != Status.QUEUED or row.task.parked:
        return False
    # Who names a task and a holder wants them together: it is taken as if nobody else were there.
    is_open = not queue.odd and open_to(row.lane, node, step.wall, alone=True)
    return is_open and gives(step, queue.queue, node) and await room.of(queue) != 0


def gives(step: Step, queue: Queue, node: Node) -> bool:
    """Does the queue give tasks to this node now, limits apart?"""
    return not queue.paused(step.wall) and queue.takes_node(node.name) and node.takes_queue(queue.name)


def _lease(step: Step, row: Row, claimant: Claimant) -> Row:
    """Give the task to the node: a new fence, a lease, and the lane of nobody avoided."""
    request, node = claimant.request, claimant.node
    started = row.having(started=None, fence=row.task.fence + 1, holder=node.id, avoid=None)
    moved = advance(step, started, move(row.task.id, "take" if request.start else "claim"))
    term = row.task.ttr or request.length
    until = Moment(step.now + term) if row.task.renewal == Renewal.TOUCH else None
    lane = Lane(row.task.kind, row.task.requires)
    return step.put(moved._replace(claimed=step.wall, lane=lane, term=term, node=node.name).having(until=until))


def _tell(step: Step, rows: list[Row], node: Node) -> None:
    by_queue: dict[QueueId, list[Entry]] = defaultdict(list)
    for row in rows:
        by_queue[row.task.queue].append(Entry(row.task.id, row.task.status, row.task.fence))
    for queue, entries in by_queue.items():
        step.tell(Fact.CLAIMED, queue, node.id, *entries)


async def _hand_over(step: Step, row: Row) -> Claimed:
    task = row.task
    travels = task.spec_size <= CLAIMED_SPEC and not await _is_blob(step, task.id)
    return Claimed(
        id=task.id,
        queue=task.queue,
        kind=task.kind,
        spec=row.spec.to_bytes(task.kind) if travels else None,
        fence=task.fence,
        holder=NodeId(task.holder or 0),
        until=task.until,
        priority=task.priority,
        attempts=task.attempts,
        crashes=task.crashes,
        retry=task.retry if task.retry is not None else (await step.queue(task.queue)).policy.retry,
        timeout=task.timeout,
        status=task.status,
    )


async def _is_blob(step: Step, task: TaskId) -> bool:
    return await step.draft.get(DATA, datum_key(task, "spec")) is not None


async def _next_due(step: Step, claimant: Claimant) -> Wall | None:
    """When it is worth asking again: a task is due, a pause ends, or a lane that avoids this node opens to it."""
    if not step.indexed:
        return Wall(step.wall + LOOK_AGAIN)
    first = await step.draft.select(choices.delayed(list(claimant.queues)), 1)
    times = [row.task.due for row in first if row.task.due is not None]
    for row in claimant.queues.values():
        times += _times(step, row, claimant)
    return Wall(min(times)) if times else None


def _times(step: Step, row: QueueRow, claimant: Claimant) -> list[Wall]:
    queue, node = row.queue, claimant.node
    pause = [queue.paused_until] if queue.paused(step.wall) and queue.paused_until < FOREVER else []
    if row.shared:
        scarce = row.queue.policy.max_active is not None
        return [*pause, Wall(step.wall + (LOOK_SOON if scarce else LOOK_AGAIN))]
    avoided = [
        Wall(lane.avoid_until)
        for lane in claimant.lanes[row.queue.id]
        if lane.avoid == node.identity and step.wall < lane.avoid_until and not claimant.is_alone(queue)
    ]
    return [*pause, *avoided]


async def _find_waiting(step: Step, claimant: Claimant) -> bool:
    """Does a limit alone keep a ready task from this claim?"""
    lines = _open_lines(step, claimant)
    filled = await sharing.find_waiting(step, (line.queue for line in lines if line.queue.shared))
    for line in lines:
        may_wait = not line.queue.shared or line.queue.id in filled
        if may_wait and await (_waits_shared(step, line) if line.queue.shared else _waits(step, line)):
            return True
    return False


async def _waits(step: Step, line: Line) -> bool:
    return bool(await step.draft.select(choices.ready(line.queue.queue.id, line.lanes), 1))


async def _waits_shared(step: Step, line: Line) -> bool:
    where = sharing.filter_free(step, line.queue)
    return bool(await step.session.find(TASKS.name, where, 1, ("_id",)))
