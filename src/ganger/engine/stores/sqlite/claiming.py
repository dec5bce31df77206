"""How tasks are taken: the heads of the open lanes, merged, as far as the limits allow.

What a claim gets is chosen first, and written then: the choices of several claims can be written together.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import apsw

from ganger.core.clock import Moment, Wall
from ganger.core.event import Fact
from ganger.core.ids import NodeId
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
FEW: Final = 4
"""To write so many leases one by one costs no more than to hand over a list of them."""


class Head(NamedTuple):
    """A ready task. Priority, rank, queue and id come first, so that heads compare in the order of claiming."""

    priority: int
    rank: int
    queue: int
    id: int
    lane: int
    spec: bytes | None
    fence: int
    attempts: int
    crashes: int
    retry: str | None
    timeout: int | None
    touch: int
    ttr: int | None


class Taken(NamedTuple):
    claimed: list[Claimed]
    next_due: Wall | None = None
    waiting: bool = False


class Chosen(NamedTuple):
    """What a claim gets, and what its holder is told besides; nothing is written yet."""

    request: Claim
    heads: list[Head]
    next_due: Wall | None = None
    waiting: bool = False


class Lines:
    """The heads of lanes, read once for all who choose from them; whoever chooses takes them off.

    `ahead`: so many are read at least, because others will choose from them too.
    """

    __slots__ = ("_ahead", "_heads", "_step")

    def __init__(self, step: Step, ahead: int) -> None:
        self._step = step
        self._ahead = ahead
        self._heads: dict[tuple[int, int], list[Head]] = {}

    def read(self, queue: int, lane: int, most: int) -> list[Head]:
        heads = self._heads.get((queue, lane))
        if heads is None:
            found = self._step.run(Q.ready_head, (queue, lane, max(most, self._ahead)))
            heads = self._heads[queue, lane] = list(map(Head._make, found))
            if not heads:
                self._step.shelf.line_empty(self._step.session, queue, lane)
        return heads[:most]

    def is_empty(self, queue: int, lane: int) -> bool:
        heads = self._heads.get((queue, lane))
        return not (list(self._step.run(Q.ready_head, (queue, lane, 1))) if heads is None else heads)

    def take_off(self, chosen: Iterable[Head]) -> None:
        """These are given away: of each line the first ones."""
        for head in chosen:
            del self._heads[head.queue, head.lane][0]


def claim_all(step: Step, requests: Sequence[Claim]) -> list[Taken]:
    """What each of them gets, in the order in which they ask."""
    if not requests:
        return []
    nodes = [claiming_node(step, request.holder) for request in requests]
    for queue in sorted({queue for request in requests if not request.ids for queue in request.queues}):
        promote(step, queue, PROMOTED_AT_ONCE)
    refill(step)
    choice = Choice(step, nodes, Lines(step, sum(request.most for request in requests)))
    return _take(step, [choice.choose(request, node) for request, node in zip(requests, nodes, strict=True)])


class Choice:
    """Chooses the best tasks for one claim after another; due ones have been made ready before.

    What it has given away counts for those that follow, though nothing is written yet.
    """

    def __init__(self, step: Step, nodes: Sequence[Node], lines: Lines) -> None:
        self._step = step
        self._lines = lines
        self._held = _count_leased(step, nodes)
        self._given: list[tuple[int, list[Head]]] = []

    def choose(self, request: Claim, node: Node) -> Chosen:
        wanted = len(request.ids) if request.ids else request.most
        most = wanted if node.slots is None else max(0, min(wanted, node.slots - self._held[node.id]))
        chosen = self._choose_named(request, node, most) if request.ids else self._choose_best(request, node, most)
        if node.slots is not None:
            self._held[node.id] += len(chosen.heads)
        self._given.append((node.id, chosen.heads))
        return chosen

    def _choose_best(self, request: Claim, node: Node, most: int) -> Chosen:
        heads, limited = self._find_heads(request, node, most)
        self._lines.take_off(heads)
        if len(heads) == request.most:
            return Chosen(request, heads)
        return Chosen(request, heads, self._next_due(request, node), limited or most < request.most)

    def _find_heads(self, request: Claim, node: Node, most: int) -> tuple[list[Head], bool]:
        """The best tasks over all queues, at most `most`, and whether a limit may have kept others back."""
        heads: list[Head] = []
        limited, sources = False, 0
        for queue in self._queues(request):
            if self._step.shelf.lined.get(queue.id):
                room = self._room(node, queue)
                limited = limited or room < most
                heads += self._queue_heads(node, queue, min(most, room)) if room > 0 else ()
                sources += 1
        return _best(heads, most, sources), limited

    def _queues(self, request: Claim) -> Iterator[Queue]:
        """Those of the queues that are there, each once."""
        known = self._step.shelf.queues
        return (known[number].queue for number in dict.fromkeys(request.queues) if number in known)

    def _queue_heads(self, node: Node, queue: Queue, most: int) -> list[Head]:
        lanes = list(self._open_lanes(node, queue))
        heads = [head for lane in lanes for head in self._lines.read(queue.id, lane, most)]
        return _best(heads, most, len(lanes))

    def _room(self, node: Node, queue: Queue) -> int:
        """How many tasks of the queue this node may be given now."""
        step, policy = self._step, queue.policy
        if queue.paused(Wall(step.wall)) or not node.takes_queue(queue.name) or not queue.takes_node(node.name):
            return 0
        room = 1 << 30
        if policy.max_active is not None:
            given = sum(head.queue == queue.id for _, heads in self._given for head in heads)
            room = policy.max_active - step.leased(queue.id) - given
        if policy.max_per_node is not None:
            ((here,),) = step.run(Q.leased_by_node_queue, (node.id, queue.id))
            given = sum(head.queue == queue.id for holder, heads in self._given if holder == node.id for head in heads)
            room = min(room, policy.max_per_node - here - given)
        return room

    def _open_lanes(self, node: Node, queue: Queue) -> Iterator[int]:
        shelf = self._step.shelf
        lined = shelf.lined.get(queue.id, set())
        alone = self._is_alone(node, queue) if len(lined) > 1 else None
        for lane in sorted(lined):
            known = shelf.lanes[lane]
            if alone is None and known.avoid == node.identity:
                alone = self._is_alone(node, queue)
            if open_to(known, node, self._step.wall, bool(alone)):
                yield lane

    def _is_alone(self, node: Node, queue: Queue) -> bool:
        """Is there no other node that is here and takes the queue?"""
        return not any(
            other.identity != node.identity
            and other.live(self._step.now)
            and other.takes_queue(queue.name)
            and queue.takes_node(other.name)
            for other in self._step.shelf.nodes.values()
        )

    def _choose_named(self, request: Claim, node: Node, most: int) -> Chosen:
        """Those of the named tasks that are ready and allowed, within the limits of their queues."""
        step, heads = self._step, list[Head]()
        given: Counter[int] = Counter()
        for head in sorted(map(Head._make, step.run(Q.ready_named, (apsw.carray(array("q", request.ids)),)))):
            room = self._room(node, step.shelf.queues[head.queue].queue) - given[head.queue]
            if room > 0 and len(heads) < most and open_to(step.shelf.lanes[head.lane], node, step.wall, True):
                heads.append(head)
                given[head.queue] += 1
        return Chosen(request, heads)

    def _next_due(self, request: Claim, node: Node) -> Wall | None:
        """When to look again: a delayed task is due, a pause ends, or a lane that avoids this node opens to it."""
        step, times = self._step, list[Wall]()
        for queue in self._queues(request):
            if (end := queue.pause_ends(Wall(step.wall))) is not None:
                times.append(end)
            if step.has_delayed(queue.id):
                times += [row[0] for row in step.run(Q.next_due, (queue.id,)) if row[0] is not None]
            times += self._openings(node, queue)
        return min(times, default=None)

    def _openings(self, node: Node, queue: Queue) -> list[Wall]:
        """When lanes with tasks that keep clear of this node open to it, while there are others to take them."""
        shelf, wall = self._step.shelf, self._step.wall
        lanes = [(lane, shelf.lanes[lane]) for lane in shelf.lined.get(queue.id, ())]
        avoiding = [(lane, known) for lane, known in lanes if avoids(known, node, wall)]
        if not avoiding or self._is_alone(node, queue):
            return []
        return [Wall(known.avoid_until) for lane, known in avoiding if not self._lines.is_empty(queue.id, lane)]


def _best(heads: list[Head], most: int, sources: int) -> list[Head]:
    """The first of them in the order of claiming; those of one source are in it already."""
    if sources > 1:
        heads.sort()
    return heads[:most]


def _count_leased(step: Step, nodes: Iterable[Node]) -> dict[int, int]:
    """How many tasks those nodes hold that have only so many slots."""
    bounded: dict[int, int] = {node.id: 0 for node in nodes if node.slots is not None}
    if bounded:
        bounded.update(step.run(Q.leased_by_nodes, (apsw.carray(array("q", bounded)),)))
    return bounded


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


def _take(step: Step, chosen: Sequence[Chosen]) -> list[Taken]:
    """Give these tasks to those for whom they were chosen."""
    if some := [one for one in chosen if one.heads]:
        for one in some:
            _leave_avoiding(step, one.heads)
        _lease(step, some)
        _tell(step, some)
    return [
        Taken(_claimed(step, heads, request, _target(request)), due, waiting) for request, heads, due, waiting in chosen
    ]


def _lease(step: Step, chosen: Iterable[Chosen]) -> None:
    few: list[tuple[int, ...]] = []
    for request, heads, _, _ in chosen:
        lease = (_target(request), request.holder, step.wall)
        if len(heads) <= FEW:
            few += [(*lease, head.id) for head in heads]
        else:
            step.run(Q.claim_take_many, (*lease, apsw.carray(array("q", [head.id for head in heads]))))
        # An end of their own is written only for those that have one: it has an index, which the others need not touch.
        if touched := array("q", [head.id for head in heads if head.touch]):
            step.run(Q.claim_until, (step.now, request.length, apsw.carray(touched)))
    step.run_many(Q.claim_take_few, few)


def _target(request: Claim) -> int:
    return RULES["take" if request.start else "claim"].target


def _tell(step: Step, chosen: Sequence[Chosen]) -> None:
    given: dict[tuple[int, int], int] = {}
    for request, heads, _, _ in chosen:
        status = _target(request)
        if step.shelf.followed:
            tell_holder(step, [head.id for head in heads])
        for queue in {head.queue for head in heads}:
            told = [(head.id, status, head.fence + 1, None) for head in heads if head.queue == queue]
            step.tell(Fact.CLAIMED, queue, request.holder, told)
            given[queue, status] = given.get((queue, status), 0) + len(told)
    for (queue, status), n in given.items():
        step.count(queue, Status.QUEUED, -n)
        step.count(queue, status, n)


def _leave_avoiding(step: Step, heads: list[Head]) -> None:
    """Whoever takes a task that avoided another ends that: the lane is for those who wait."""
    for head in heads:
        if head.lane < 0:
            step.run(Q.lane_set, (step.shelf.plain_lane(step.session, head.lane), head.id))


def _claimed(step: Step, heads: list[Head], request: Claim, status: int) -> list[Claimed]:
    """The heads as their holder gets them. Spelt out for its heat: a call for each of them would cost as much again."""
    lanes, queues, holder = step.shelf.lanes, step.shelf.queues, request.holder
    claimed: list[Claimed] = []
    for priority, _, queue, number, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr in heads:
        until = Moment(step.now + (ttr or request.length)) if touch else None
        claimed.append(tuple.__new__(Claimed, (
            number, queue, lanes[lane].kind, spec if spec is not None else _large_spec(step, number), fence + 1,
            holder, until, priority, attempts, crashes,
            retry or queues[queue].queue.policy.retry, timeout, status,
        )))  # fmt: skip
    return claimed


def claimed_again(step: Step, head: Head, holder: NodeId, status: int, until: Moment | None) -> Claimed:
    """A head that is leased already, as its holder got it."""
    before = head._replace(fence=head.fence - 1, touch=0)
    (claimed,) = _claimed(step, [before], Claim(holder), status)
    return claimed._replace(until=until)


def _large_spec(step: Step, number: int) -> bytes | None:
    for value, size in step.run(Q.spec_read, (number,)):
        return value if size <= CLAIMED_SPEC else None
    return None
