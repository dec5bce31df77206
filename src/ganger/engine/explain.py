"""Why is this task not running? All that keeps it from running now, each as a code, a sentence and the facts behind it.

The codes never change; a task that waits may have several.

| code | meaning |
|---|---|
| `running`, `claimed` | it is in the hands of a holder (`claimed`: which has not told that it runs) |
| `kill_requested` | somebody asked its holder to kill it |
| `succeeded`, `failed`, `cancelled`, `terminated`, `orphaned` | it has ended, and how |
| `parents_open` | it waits for these parents |
| `members_open` | a group waits for its members, or is open for more |
| `condition_open` | a condition has not been judged |
| `not_due` | its time has not come |
| `held` | it is set aside until somebody kicks it |
| `held_after_crashes` | it is set aside because it crashed too often |
| `queue_paused` | its queue hands out nothing |
| `limit_active` | the queue has as many leases over all nodes as it may |
| `limit_per_node` | each node that could take it has as many of this queue as it may |
| `limit_key` | its concurrency key is full |
| `limit_slots` | each node that could take it has no free slot |
| `no_node` | no node is here |
| `no_node_takes_it` | nodes are here, but none takes this queue, this kind or these labels |
| `nodes_in_trouble` | each node that could take it says that it takes no work, and why |
| `avoids_node` | it failed on a node and waits a while for another |
| `behind_others` | nothing is wrong: others are ahead of it |
| `next` | nothing is wrong: it is next |
| `not_taken` | it, or the first before it, has been next for seconds, and is not taken though a node has a free slot |
| `unknown_status` | a stranger set a status that Ganger leaves alone |
"""

from typing import Final, NamedTuple

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, Field
from ganger.core.graph import Join
from ganger.core.ids import TaskId
from ganger.core.retry import crashed_enough, from_text
from ganger.core.state import UNREADABLE, Status, is_final, status_of
from ganger.core.task import Kind, Task
from ganger.engine.obstacles import Reason, Scene, find_obstacles
from ganger.engine.store import Store
from ganger.wire.specs import ConditionSpec, PlacedProbe, decode, list_askers

SHOWN: Final = 20
FAMILY: Final = 1_000
_LARGEST_SPEC: Final = 64 << 10


class Why(NamedTuple):
    """`status` is the word for where the task is; `reasons` are all that apply, the most telling first."""

    task: TaskId
    status: str
    reasons: list[Reason]


async def explain(store: Store, clock: Clock, task: TaskId) -> Why:
    """Everything that keeps the task where it is. Nothing is changed, and no two of the looks are one instant."""
    look = await store.look(task, FAMILY)
    known = await store.directory()
    queue = next((queue for queue in known.queues if queue.id == look.task.queue), None)
    scene = Scene(store, clock, look, queue, [node for node in known.nodes if node.live(clock.now())])
    status = status_of(look.task.status)
    word = "unknown" if status is None else status.name.lower()
    return Why(task, word, await _reasons(scene, status))


async def _reasons(scene: Scene, status: Status | None) -> list[Reason]:
    match status:
        case None:
            return [_unknown(scene.task)]
        case Status.CLAIMED | Status.RUNNING:
            return _leased(scene)
        case Status.HELD:
            return [_held(scene)]
        case Status.DELAYED if scene.task.due is None or scene.task.due > scene.clock.wall():
            return [_not_due(scene.task)]
        case Status.BLOCKED:
            return [await _blocked(scene)]
        case Status.QUEUED | Status.DELAYED:
            # One that is due is ready: whoever claims takes it as it is.
            return await find_obstacles(scene)
        case _:
            return [_ended(scene.task, status)]


def _unknown(task: Task) -> Reason:
    if task.status == UNREADABLE:
        return Reason("unknown_status", "a stranger wrote a status that is no number; it is left alone until it is one")
    return Reason("unknown_status", f"a stranger set the status {task.status}, which is left alone")


def _ended(task: Task, status: Status) -> Reason:
    words = {
        Status.SUCCEEDED: "it succeeded",
        Status.FAILED: f"it failed with code {task.status} after {task.attempts} attempts",
        Status.CANCELLED: "it was cancelled before it ran",
        Status.TERMINATED: "it was killed",
        Status.ORPHANED: "its holder was lost, and its queue does not try lost tasks again",
    }
    because = f": {task.reason}" if task.reason else ""
    return Reason(status.name.lower(), words[status] + because, {"code": task.status, "ended": task.ended})


def _leased(scene: Scene) -> list[Reason]:
    task = scene.task
    node = next((node for node in scene.nodes if node.id == task.holder), None)
    name = node.name if node is not None else f"node {task.holder}, which is not here any more"
    fields: dict[str, Field] = {"holder": task.holder, "fence": task.fence, "started": task.started}
    claimed = Reason("claimed", f"{name} has claimed it and not yet told that it runs", fields)
    running = Reason("running", f"it runs on {name}", fields)
    kill = Reason("kill_requested", f"somebody asked to kill it; {name} is told at its next beat")
    return [running if task.status == Status.RUNNING else claimed, *([kill] if task.kill else [])]


def _held(scene: Scene) -> Reason:
    task = scene.task
    retry = task.retry or (scene.queue.policy.retry if scene.queue is not None else None)
    crashed = retry is not None and task.crashes > 0 and crashed_enough(from_text(retry), task.crashes)
    why = task.reason or "nobody said why"
    fields: dict[str, Field] = {"crashes": task.crashes, "reason": task.reason}
    return Reason("held_after_crashes" if crashed else "held", f"it is held until somebody kicks it: {why}", fields)


def _not_due(task: Task) -> Reason:
    tried = f", after {task.attempts} attempts" if task.attempts else ""
    return Reason("not_due", f"it is not due before {task.due}{tried}", {"due": task.due, "attempts": task.attempts})


async def _blocked(scene: Scene) -> Reason:
    task = scene.task
    if parents := await _open_parents(scene):
        ids = [int(parent.id) for parent in parents]
        which = f"any of {ids}" if task.join == Join.ANY else f"{ids}"
        return Reason("parents_open", f"it waits for {which}", {"parents": ids, "waits": task.waits, "join": task.join})
    if task.kind == Kind.GROUP:
        sentence = f"the group waits for {task.waits} more: members that have not ended, or its closing"
        return Reason("members_open", sentence, {"waits": task.waits})
    if task.kind == Kind.CONDITION:
        return await _open_condition(scene)
    return Reason("parents_open", f"it waits for {task.waits} parents", {"parents": [], "waits": task.waits})


async def _open_condition(scene: Scene) -> Reason:
    requires, free = sorted(scene.task.requires), "the condition has not been judged yet"
    if not scene.nodes:
        return Reason("condition_open", f"{free}, and no node is here that could")
    kinds = await _find_askers(scene)
    if kinds is None:
        return Reason("condition_open", free)
    queue = scene.queue
    takers = [node for node in scene.nodes if queue and node.takes_queue(queue.name) and queue.takes_node(node.name)]
    if not takers:
        return Reason("condition_open", f"{free}: no node that is here takes its queue")
    takers = [node for node in takers if set(node.labels).issuperset(requires)]
    if not takers:
        return Reason("condition_open", f"{free}: no such node has the labels {requires}", {"requires": requires})
    if not any(node.takes_kind(kind) for node in takers for kind in kinds):
        return Reason("condition_open", f"{free}: no such node runs any of {sorted(kinds)}", {"kinds": sorted(kinds)})
    return Reason("condition_open", free)


async def _find_askers(scene: Scene) -> frozenset[str] | None:
    """The kinds of which a node must run one to ask; None if every node may, or if nobody can read what it asks."""
    value = await scene.store.value(scene.task.id, "spec", 0, _LARGEST_SPEC)
    try:
        probe = decode(value.body or b"", ConditionSpec).probe
    except BadInput:
        return None
    return list_askers(probe) if isinstance(probe, PlacedProbe) else None


async def _open_parents(scene: Scene) -> list[Task]:
    parents = await scene.store.tasks([parent for parent, _ in scene.look.family.parents])
    return [parent for parent in parents if parent is not None and not is_final(parent.status)][:SHOWN]
