"""Claim: the best tasks of several queues, from the lanes that are open to the holder, as far as every limit allows."""

from collections import defaultdict
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
from ganger.engine.store import CLAIMED_SPEC, Claim, Exchanged
from ganger.engine.stores.mongo import choices, sharing
from ganger.engine.stores.mongo.codec import lane_text, read_lane
from ganger.engine.stores.mongo.following import tell_holder
from ganger.engine.stores.mongo.moving import advance, apply
from ganger.engine.stores.mongo.row import QueueRow, Row
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import DATA, QUEUES, datum_key

PROMOTED: Final = 1_000
"""So many due tasks a claim promotes at most; upkeep does the rest."""
LOOK_AGAIN: Final = 1_000
"""After so many milliseconds it is worth asking a shared queue again: strangers wake nobody."""


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
    if not request.ids:
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
    await step.draft.load(QUEUES, request.queues)
    found = {queue: await step.queue_row(queue) for queue in request.queues}
    return {queue: row for queue, row in found.items() if row is not None}


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
    """How many more tasks the limits allow: of a queue, of it on this node, and of the node over all queues."""

    def __init__(self, step: Step, node: Node) -> None:
        self._step = step
        self._node = node
        self._left: dict[QueueId, int | None] = {}
        self._slots: int | None = None
        self._asked = False

    async def of(self, queue: Queue) -> int | None:
        """None where nothing limits it."""
        if queue.id not in self._left:
            self._left[queue.id] = await self._ask(queue)
        if not self._asked:
            self._slots, self._asked = await self._ask_slots(), True
        limits = [limit for limit in (self._left[queue.id], self._slots) if limit is not None]
        return max(0, min(limits)) if limits else None

    def take(self, queue: QueueId) -> None:
        left = self._left[queue]
        self._left[queue] = None if left is None else left - 1
        self._slots = None if self._slots is None else self._slots - 1

    async def _ask(self, queue: Queue) -> int | None:
        policy, left = queue.policy, []
        if policy.max_active is not None:
            left.append(policy.max_active - await self._step.draft.count(choices.active_of_queue(queue.id)))
        if policy.max_per_node is not None:
            mine = choices.active_of_node(self._node.id, queue.id)
            left.append(policy.max_per_node - await self._step.draft.count(mine))
        return min(left, default=None)

    async def _ask_slots(self) -> int | None:
        if self._node.slots is None:
            return None
        return self._node.slots - await self._step.draft.count(choices.active_of_node(self._node.id))


async def _take_best(step: Step, claimant: Claimant) -> list[Row]:
    room, most = Room(step, claimant.node), claimant.request.most
    lines = _open_lines(step, claimant)
    taken = [row for line in lines if line.queue.shared for row in await _grab(step, line, claimant, room)][:most]
    own = [line for line in lines if not line.queue.shared]
    choosing = [choices.ready(line.queue.queue.id, line.lanes) for line in own]
    found = [row for choice in choosing for row in await step.draft.select(choice, most)]
    for row in sorted(found, key=_order):
        if len(taken) >= most:
            break
        if await room.of(await step.queue(row.task.queue)) != 0:
            room.take(row.task.queue)
            taken.append(_lease(step, row, claimant))
    return taken


def _order(row: Row) -> Any:
    return row.task.priority, row.rank, row.task.queue, row.task.id


async def _grab(step: Step, line: Line, claimant: Claimant, room: Room) -> list[Row]:
    """Tasks of a shared queue, taken as every stranger takes them."""
    queue, left = line.queue.queue, await room.of(line.queue.queue)
    most = claimant.request.most if left is None else min(left, claimant.request.most)
    grabbed = await sharing.grab(step, line.queue, _taking(claimant), most)
    for _ in grabbed:
        room.take(queue.id)
    return [_lease(step, row, claimant) for row in grabbed]


def _taking(claimant: Claimant) -> sharing.Taking:
    status = Status.RUNNING if claimant.request.start else Status.CLAIMED
    return sharing.Taking(claimant.node.name, int(status))


def _open_lines(step: Step, claimant: Claimant) -> list[Line]:
    giving = [row for row in claimant.queues.values() if gives(step, row.queue, claimant.node)]
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
        if row is not None and await _may_take(step, row, claimant.node, room):
            taken += await _take_one(step, row, claimant, room)
    return taken


async def _take_one(step: Step, row: Row, claimant: Claimant, room: Room) -> list[Row]:
    queue = await step.queue_row(row.task.queue)
    if queue is not None and queue.shared and not await sharing.grab_one(step, row, _taking(claimant)):
        return []
    room.take(row.task.queue)
    return [_lease(step, row, claimant)]


async def _may_take(step: Step, row: Row, node: Node, room: Room) -> bool:
    if row.task.status != Status.QUEUED or row.task.parked:
        return False
    queue = await step.queue(row.task.queue)
    # Who names a task and a holder wants them together: it is taken as if nobody else were there.
    is_open = open_to(row.lane, node, step.wall, alone=True)
    return is_open and gives(step, queue, node) and await room.of(queue) != 0


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
    first = await step.draft.select(choices.delayed(list(claimant.queues)), 1)
    times = [row.task.due for row in first if row.task.due is not None]
    for row in claimant.queues.values():
        times += _times(step, row, claimant)
    return Wall(min(times)) if times else None


def _times(step: Step, row: QueueRow, claimant: Claimant) -> list[Wall]:
    queue, node = row.queue, claimant.node
    pause = [queue.paused_until] if queue.paused(step.wall) and queue.paused_until < FOREVER else []
    if row.shared:
        return [*pause, Wall(step.wall + LOOK_AGAIN)]
    avoided = [
        Wall(lane.avoid_until)
        for lane in claimant.lanes[row.queue.id]
        if lane.avoid == node.identity and step.wall < lane.avoid_until and not claimant.is_alone(queue)
    ]
    return [*pause, *avoided]


async def _find_waiting(step: Step, claimant: Claimant) -> bool:
    """Does a limit alone keep a ready task from this claim?"""
    for line in _open_lines(step, claimant):
        if await step.draft.select(choices.ready(line.queue.queue.id, line.lanes), 1):
            return True
    return False
