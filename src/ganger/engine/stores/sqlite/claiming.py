"""How tasks are taken: the heads of the open lanes, merged, as far as the limits allow.

What a claim gets is chosen first, and written then: the choices of several claims can be written together.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

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
FEW: Final = 4
"""To write so many leases one by one costs no more than to hand over a list of them."""

Head = tuple[Any, ...]
"""A ready task as it is read: priority, rank, queue and id first, so that heads compare in the order of claiming."""


class Taken(NamedTuple):
    claimed: list[Claimed]
    next_due: Wall | None = None
    waiting: bool = False


class Asker(NamedTuple):
    """Who claims, of which queues, and how many tasks at most: `most` is what is free of its slots."""

    node: Node
    queues: Sequence[Queue]
    most: int


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

    def __init__(self, step: Step, ahead: int = 0) -> None:
        self._step = step
        self._ahead = ahead
        self._heads: dict[tuple[int, int], list[Head]] = {}

    def read(self, queue: int, lane: int, most: int) -> list[Head]:
        heads = self._heads.get((queue, lane))
        if heads is None:
            found = self._step.run(Q.ready_head, (queue, lane, max(most, self._ahead)))
            heads = self._heads[queue, lane] = list(found)
            if not heads:
                self._step.shelf.line_empty(self._step.session, queue, lane)
        return heads[:most]

    def is_empty(self, queue: int, lane: int) -> bool:
        heads = self._heads.get((queue, lane))
        return not (list(self._step.run(Q.ready_head, (queue, lane, 1))) if heads is None else heads)

    def take_off(self, chosen: Iterable[Head]) -> None:
        """These are given away: of each line the first ones."""
        for _, _, queue, _, lane, *_ in chosen:
            del self._heads[queue, lane][0]


def claim(step: Step, request: Claim) -> Taken:
    node = claiming_node(step, request.holder)
    most = _node_room(step, node, request.most if not request.ids else len(request.ids))
    if request.ids:
        chosen = Chosen(request, _named(step, node, request.ids, most))
    else:
        for queue in request.queues:
            promote(step, queue, PROMOTED_AT_ONCE)
        refill(step)
        chosen = _choose_plainly(step, request, node, most) or _choose_with_care(step, request, node, most)
    (taken,) = take(step, [chosen])
    return taken


def _choose_plainly(step: Step, request: Claim, node: Node, most: int) -> Chosen | None:
    """The first tasks of the one line that there is; None if there is more to it, as when others are due later."""
    if most <= 0 or (line := find_line(step, node, request)) is None:
        return None
    heads = list(step.run(Q.ready_head, (*line, most)))
    short = len(heads) < request.most
    if not heads or (short and any(step.has_delayed(queue) for queue in request.queues)):
        return None
    return Chosen(request, heads, None, short and most < request.most)


def _choose_with_care(step: Step, request: Claim, node: Node, most: int) -> Chosen:
    return choose(step, request, Asker(node, find_queues(step, request), most), Lines(step))


def find_queues(step: Step, request: Claim) -> list[Queue]:
    """Those of the queues that are there, each once."""
    return [step.shelf.queues[queue].queue for queue in dict.fromkeys(request.queues) if queue in step.shelf.queues]


def choose(step: Step, request: Claim, asker: Asker, lines: Lines) -> Chosen:
    """The best tasks for this claim; due ones have been made ready before."""
    heads, waiting = _heads(step, asker, lines)
    short = len(heads) < request.most
    next_due = _next_due(step, asker, lines) if short else None
    return Chosen(request, heads, next_due, waiting or (short and asker.most < request.most))


def find_line(step: Step, node: Node, request: Claim) -> tuple[int, int] | None:
    """The one line of tasks that there is for this claim of this node or one like it, if nothing else decides about it.

    That is so if its queues have no limit and no pause and nodes are not told apart for them, and if all tasks that are
    ready in them wait in one lane that avoids nobody.
    """
    shelf = step.shelf
    lined = [(queue, lane) for queue in request.queues for lane in shelf.lined.get(queue, ())]
    if len(lined) != 1:
        return None
    ((queue, lane),) = lined
    key = (node.id, request.queues, queue, lane)
    if (is_plain := shelf.verdicts.get(key)) is None:
        is_plain = shelf.verdicts[key] = _is_plain(step, node, find_queues(step, request), lane)
    return (queue, lane) if is_plain else None


def _is_plain(step: Step, node: Node, queues: Sequence[Queue], lane: int) -> bool:
    for queue in queues:
        policy = queue.policy
        if policy.is_limited or policy.pin or policy.ignore or queue.paused(Wall(step.wall)):
            return False
    takes = all(node.takes_queue(queue.name) for queue in queues)
    return takes and lane > 0 and open_to(step.shelf.lanes[lane], node, step.wall, alone=False)


def _node_room(step: Step, node: Node, most: int) -> int:
    if node.slots is None:
        return most
    ((leased,),) = step.run(Q.leased_by_node, (node.id,))
    return within_slots(node, leased, most)


def within_slots(node: Node, leased: int, most: int) -> int:
    """So many of `most` has a node room for that holds so many already."""
    return most if node.slots is None else max(0, min(most, node.slots - leased))


def count_leased(step: Step, nodes: Iterable[Node]) -> dict[int, int]:
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


def _heads(step: Step, asker: Asker, lines: Lines) -> tuple[list[Head], bool]:
    """The best tasks over all queues, at most `most`, and whether a limit kept others back."""
    node, queues, most = asker
    heads: list[Head] = []
    limited = False
    for queue in queues:
        room = _room(step, node, queue)
        limited = limited or room < most
        if min(most, room) > 0:
            heads += _queue_heads(lines, queue, list(_open_lanes(step, node, queue)), min(most, room))
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


def _queue_heads(lines: Lines, queue: Queue, lanes: Sequence[int], most: int) -> list[Head]:
    heads: list[Head] = []
    for lane in lanes:
        heads += lines.read(queue.id, lane, most)
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


def take(step: Step, chosen: Sequence[Chosen]) -> list[Taken]:
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
            few += [(*lease, head[3]) for head in heads]
        else:
            step.run(Q.claim_take_many, (*lease, apsw.carray(array("q", [head[3] for head in heads]))))
        # An end of their own is written only for those that have one: it has an index, which the others need not touch.
        if touched := array("q", [head[3] for head in heads if head[11]]):
            step.run(Q.claim_until, (step.now, request.length, apsw.carray(touched)))
    if len(few) == 1:
        step.run(Q.claim_take, few[0])
    else:
        step.run_many(Q.claim_take_few, few)


def _target(request: Claim) -> int:
    return RULES["take" if request.start else "claim"].target


def _tell(step: Step, chosen: Sequence[Chosen]) -> None:
    given: dict[tuple[int, int], int] = {}
    for request, heads, _, _ in chosen:
        status = _target(request)
        if step.shelf.followed:
            tell_holder(step, [head[3] for head in heads])
        for queue in {head[2] for head in heads}:
            told = [(head[3], status, head[6] + 1, None) for head in heads if head[2] == queue]
            step.tell(Fact.CLAIMED, queue, request.holder, told)
            given[queue, status] = given.get((queue, status), 0) + len(told)
    for (queue, status), n in given.items():
        step.count(queue, Status.QUEUED, -n)
        step.count(queue, status, n)


def _leave_avoiding(step: Step, heads: list[Head]) -> None:
    """Whoever takes a task that avoided another ends that: the lane is for those who wait."""
    for head in heads:
        if head[4] < 0:
            step.run(Q.lane_set, (step.shelf.plain_lane(step.session, head[4]), head[3]))


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


def _next_due(step: Step, asker: Asker, lines: Lines) -> Wall | None:
    """When to look again: the first delayed task, the end of a pause, a lane that avoids this node opening to it."""
    times = [end for queue in asker.queues if (end := queue.pause_ends(Wall(step.wall))) is not None]
    for queue in asker.queues:
        if step.has_delayed(queue.id):
            times += [row[0] for row in step.run(Q.next_due, (queue.id,)) if row[0] is not None]
        times += _openings(step, asker.node, queue, lines)
    return min(times, default=None)


def _openings(step: Step, node: Node, queue: Queue, lines: Lines) -> list[Wall]:
    """When lanes with tasks that keep clear of this node open to it, while there are others to take them."""
    lanes = [(lane, step.shelf.lanes[lane]) for lane in step.shelf.lined.get(queue.id, ())]
    avoiding = [(lane, known) for lane, known in lanes if avoids(known, node, step.wall)]
    if not avoiding or _is_alone(step, node, queue):
        return []
    return [Wall(known.avoid_until) for lane, known in avoiding if not lines.is_empty(queue.id, lane)]
