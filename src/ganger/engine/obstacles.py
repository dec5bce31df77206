"""What keeps a ready task from being taken: asked in the order in which a claim would meet it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ganger.core.clock import Clock
from ganger.core.errors import Field
from ganger.core.lane import AVOID_GRAIN
from ganger.core.node import Node, NodeState
from ganger.core.outcome import AVOID
from ganger.core.queue import FOREVER, Queue, Sort
from ganger.core.state import LEASED, Status
from ganger.core.task import Task
from ganger.engine.store import Look, Query, Store

COUNTED: Final = 2_000
"""So many tasks ahead are counted one by one; of a longer queue only the length is told."""

NOT_TAKEN: Final = 3_000
"""Milliseconds: a task that is next is taken within one, even if its wake-up was lost and its node asked in vain."""

_KIN: Final = 1
_LEASED: Final = tuple(int(status) for status in LEASED)


class Reason(NamedTuple):
    """`code` never changes; the sentence is for people, `fields` for programs."""

    code: str
    sentence: str
    fields: Mapping[str, Field] = {}


class Scene(NamedTuple):
    """What an explanation looks at; `nodes` are those that are live."""

    store: Store
    clock: Clock
    look: Look
    queue: Queue | None
    nodes: list[Node]

    @property
    def task(self) -> Task:
        return self.look.task


async def find_obstacles(scene: Scene) -> list[Reason]:
    """All that apply; if none does, where the task stands in its queue."""
    if scene.queue is None:
        return [Reason("no_node_takes_it", "its queue is gone", {"queue": scene.task.queue})]
    found = [
        _paused(scene, scene.queue),
        await _limit_active(scene, scene.queue),
        _limit_key(scene, scene.queue),
        *await _nodes(scene, scene.queue),
    ]
    return [reason for reason in found if reason is not None] or [await _ahead(scene, scene.queue)]


def _paused(scene: Scene, queue: Queue) -> Reason | None:
    if not queue.paused(scene.clock.wall()):
        return None
    until = "somebody resumes it" if queue.paused_until >= FOREVER else str(queue.paused_until)
    fields: dict[str, Field] = {"queue": queue.id, "until": queue.paused_until}
    return Reason("queue_paused", f"queue {queue.name} is paused until {until}", fields)


async def _limit_active(scene: Scene, queue: Queue) -> Reason | None:
    limit = queue.policy.max_active
    if limit is None:
        return None
    counts, _ = await scene.store.counts()
    active = sum(one.by_status.get(status, 0) for one in counts if one.queue == queue.id for status in _LEASED)
    if active < limit:
        return None
    fields: dict[str, Field] = {"limit": limit, "active": active}
    return Reason("limit_active", f"queue {queue.name} has {active} leases and may have {limit}", fields)


def _limit_key(scene: Scene, queue: Queue) -> Reason | None:
    if not scene.task.parked:
        return None
    key, limit = scene.task.limit_key, queue.policy.max_per_key
    sentence = f"at most {limit} tasks of the concurrency key {key!r} run at once, and others are before it"
    return Reason("limit_key", sentence, {"key": key, "limit": limit})


async def _nodes(scene: Scene, queue: Queue) -> list[Reason | None]:
    if not scene.nodes:
        return [Reason("no_node", "no node is here")]
    takers = _find_takers(scene, queue)
    if not takers:
        return [_nobody(scene, queue)]
    return [_avoids(scene, takers), await _full(scene, queue, takers), _troubled(takers)]


def _find_takers(scene: Scene, queue: Queue) -> list[Node]:
    return [node for node in scene.nodes if not _misfits(node, scene.task, queue)]


def _misfits(node: Node, task: Task, queue: Queue) -> list[str]:
    """Why this node does not take the task."""
    lacking = sorted(set(task.requires) - set(node.labels))
    found = {
        "it drains": node.state != NodeState.ACTIVE,
        f"it does not take queue {queue.name}": not node.takes_queue(queue.name),
        f"queue {queue.name} does not take it": not queue.takes_node(node.name),
        f"it does not run {task.kind}": not node.takes_kind(task.kind),
        f"it lacks {lacking}": bool(lacking),
    }
    return [why for why, applies in found.items() if applies]


def _nobody(scene: Scene, queue: Queue) -> Reason:
    misfits = {node.name: _misfits(node, scene.task, queue) for node in scene.nodes[:10]}
    sentence = "no node takes it: " + "; ".join(f"{name}: {', '.join(why)}" for name, why in misfits.items())
    fields: dict[str, Field] = {
        "queue": queue.name,
        "kind": scene.task.kind,
        "requires": list(scene.task.requires),
        "nodes": len(scene.nodes),
    }
    return Reason("no_node_takes_it", sentence, fields)


def _avoids(scene: Scene, takers: Sequence[Node]) -> Reason | None:
    avoid = scene.task.avoid
    others = [node for node in takers if node.identity != avoid]
    if avoid is None or not others:
        return None
    last = max((attempt.ended for attempt in scene.look.attempts), default=scene.task.modified)
    until = (last + AVOID) // AVOID_GRAIN * AVOID_GRAIN
    if until <= scene.clock.wall():
        return None
    name = next((node.name for node in takers if node.identity == avoid), f"node {avoid}")
    sentence = f"it failed on {name} and waits for another node until {until}"
    return Reason("avoids_node", sentence, {"node": name, "until": until})


async def _full(scene: Scene, queue: Queue, takers: Sequence[Node]) -> Reason | None:
    """Every node that could take it is at one of its own limits."""
    limits = [await _limit_of(scene, queue, node) for node in takers]
    if None in limits:
        return None
    code = "limit_per_node" if "limit_per_node" in limits else "limit_slots"
    what = f"as many tasks of queue {queue.name} as one may" if code == "limit_per_node" else "no free slot"
    names = [node.name for node in takers[:10]]
    return Reason(code, f"each node that could take it has {what}: {', '.join(names)}", {"nodes": names})


async def _limit_of(scene: Scene, queue: Queue, node: Node) -> str | None:
    if await _has(scene, Query(queue.id, _LEASED, holder=node.id), queue.policy.max_per_node):
        return "limit_per_node"
    if await _has(scene, Query(statuses=_LEASED, holder=node.id), node.slots) or _is_busy(node):
        return "limit_slots"
    return None


def _is_busy(node: Node) -> bool:
    """Did a node that was given no limit say at its last beat that all its slots are in use?"""
    return node.slots is None and node.vitals is not None and 0 < node.vitals.slots <= node.vitals.used


def _troubled(takers: Sequence[Node]) -> Reason | None:
    """Every node that could take it said at its last beat that it takes no work, and why."""
    troubles = {node.name: node.vitals.trouble for node in takers if node.vitals is not None and node.vitals.trouble}
    if len(troubles) < len(takers):
        return None
    said = "; ".join(f"{name}: {trouble}" for name, trouble in list(troubles.items())[:10])
    return Reason("nodes_in_trouble", f"each node that could take it takes no work now: {said}", {"nodes": [*troubles]})


async def _has(scene: Scene, query: Query, limit: int | None) -> bool:
    """Are there as many as the limit says?"""
    if limit is None:
        return False
    found = 0
    page = await scene.store.find(query)
    while True:
        found += len(page.tasks)
        if found >= limit or page.next is None:
            return found >= limit
        page = await scene.store.find(query._replace(after=page.next))


async def _ahead(scene: Scene, queue: Queue) -> Reason:
    counts, _ = await scene.store.counts()
    queued = sum(one.by_status.get(Status.QUEUED, 0) for one in counts if one.queue == queue.id)
    if queued > COUNTED:
        # Whether the first of so many is taken is not looked at, and so not said.
        sentence = f"it is one of {queued} tasks that queue {queue.name} has ready"
        return Reason("behind_others", sentence, {"queued": queued})
    ahead, first = await _find_ahead(scene, queue)
    if first is None:
        return await _not_taken(scene, queue) or Reason("next", "nothing is wrong: it goes to the next node that asks")
    sentence = f"nothing is wrong: {ahead} tasks are ahead of it"
    return await _stuck_behind(scene, first) or Reason("behind_others", sentence, {"ahead": ahead})


async def _stuck_behind(scene: Scene, first: Task) -> Reason | None:
    """The first in line lies ready beside a free slot: then that is what keeps those behind it too."""
    reasons = await find_obstacles(scene._replace(look=await scene.store.look(first.id, _KIN)))
    if [reason.code for reason in reasons] != ["not_taken"]:
        return None
    sentence = f"it is behind task {first.id}, of which the same is true: {reasons[0].sentence}"
    return reasons[0]._replace(sentence=sentence)


async def _not_taken(scene: Scene, queue: Queue) -> Reason | None:
    """It lies ready beside a node with a free slot for longer than a lost wake-up can explain."""
    ready = scene.clock.wall() - max(scene.task.modified, scene.task.due or 0)
    free = [node.name for node in _find_takers(scene, queue) if await _is_free(scene, queue, node)]
    if ready < NOT_TAKEN or not free:
        return None
    sentence = (
        f"it has been ready for {ready // 1_000} s, a slot is free on {', '.join(free[:10])}, and nobody takes it: "
        "that is a fault of the node, so look at its log, and restart it if this lasts"
    )
    return Reason("not_taken", sentence, {"ready": ready, "nodes": free[:10]})


async def _is_free(scene: Scene, queue: Queue, node: Node) -> bool:
    """Did it say that it has a free slot and takes work, and does no limit keep it from that?"""
    vitals = node.vitals
    if vitals is None or vitals.trouble or vitals.used >= vitals.slots:
        return False
    return await _limit_of(scene, queue, node) is None


async def _find_ahead(scene: Scene, queue: Queue) -> tuple[int, Task | None]:
    """How many are ahead of it, and the first of them."""
    query = Query(queue.id, (int(Status.QUEUED),), most=1_000)
    own, ahead, firsts = _rank(scene.task, queue), 0, list[Task]()
    page = await scene.store.find(query)
    while True:
        before = [task for task in page.tasks if not task.parked and _rank(task, queue) < own]
        ahead += len(before)
        firsts = sorted([*firsts, *before], key=lambda task: _rank(task, queue))[:1]
        if page.next is None:
            return ahead, next(iter(firsts), None)
        page = await scene.store.find(query._replace(after=page.next))


def _rank(task: Task, queue: Queue) -> tuple[int, int]:
    return task.priority, -task.id if queue.policy.sort == Sort.LIFO else task.id
