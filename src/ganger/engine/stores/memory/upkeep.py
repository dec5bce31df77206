"""One bounded step of upkeep. The memory store leaves no edge for later, so there is never anything to release."""

from ganger.core.clock import Wall
from ganger.core.errors import BadInput
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import NodeState
from ganger.core.state import is_final
from ganger.engine.store import Lapsed, Tend, Tended
from ganger.engine.stores.memory.claim import promote
from ganger.engine.stores.memory.nodes import lose_silent
from ganger.engine.stores.memory.removal import forget, forget_output
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.step import Step


def tend(step: Step, request: Tend) -> Tended:
    match request:
        case Tend(promote=True):
            return _promote(step, request.most)
        case Tend(release=True):
            return Tended(0, False, [])
        case Tend(lapse=True):
            return _lapse(step, request.most)
        case Tend(prune_before=int(before)):
            return _prune(step, Wall(before), request.most)
        case Tend(trim_output=int(room)):
            return _trim(step, room, request.most)
        case Tend(blobs=(_, *_)):
            return Tended(0, False, [], blobs=_find_unnamed(step, request.blobs))
        case _:
            raise BadInput("a step of upkeep is one of promote, release, lapse, prune_before, trim_output and blobs")


def _promote(step: Step, most: int) -> Tended:
    done = promote(step, list(step.tables.queues), most)
    dues = [keys[0][0] for name in step.tables.delayed.names() if (keys := step.tables.delayed.bucket(name))]
    first = min(dues, default=None)
    return Tended(done, first is not None and first <= step.wall, [], first)


def _lapse(step: Step, most: int) -> Tended:
    done = lose_silent(step)
    nodes = [row.node for row in step.tables.nodes.values()]
    ended = {task for node in nodes if not node.here for task in step.tables.active_of_node.bucket(node.id)}
    touched = step.tables.touched.bucket(None)
    ended |= {task for until, task in touched if until <= step.now}
    coming = [node.until for node in nodes if node.here] + [until for until, _ in touched if until > step.now]
    lapsed = [_describe(step, step.tables.rows[task]) for task in sorted(ended)[:most]]
    return Tended(done, len(ended) > most, lapsed, min(coming, default=None))


def _describe(step: Step, row: Row) -> Lapsed:
    task = row.task
    node = step.tables.nodes[NodeId(task.holder or 0)].node
    policy = step.queue(task.queue).policy
    return Lapsed(
        task=task.id,
        fence=task.fence,
        status=task.status,
        started=task.started is not None,
        left=node.state == NodeState.LEFT,
        crashes=task.crashes,
        retry=task.retry if task.retry is not None else policy.retry,
        on_lost=policy.on_lost,
        kill=task.kill,
        holder=node.name,
    )


def _prune(step: Step, before: Wall, most: int) -> Tended:
    old = [task for ended, task in step.tables.ended.bucket(None) if ended < before and _may_go(step, task)]
    for task in old[:most]:
        forget(step, step.tables.rows[task])
    events = [event.position for event in step.tables.events.values() if event.at < before]
    for position in events[:most]:
        step.tables.events.drop(position)
    _prune_nodes(step, before)
    return Tended(len(old[:most]), max(len(old), len(events)) > most, [])


def _may_go(step: Step, task: TaskId) -> bool:
    """A group that has not ended still counts its members."""
    group = step.tables.rows[task].task.group
    row = None if group is None else step.tables.rows.get(group)
    return row is None or is_final(row.task.status)


def _prune_nodes(step: Step, before: Wall) -> None:
    for node in [row.node for row in step.tables.nodes.values()]:
        if not node.here and node.seen < before and not step.tables.active_of_node.bucket(node.id):
            step.tables.nodes.drop(node.id)


def _trim(step: Step, room: int, most: int) -> Tended:
    """Whole outputs go, those of the tasks that ended first before others."""
    sizes = {task: size for _, task in step.tables.ended.bucket(None) if (size := _output_size(step, task))}
    stored = sum(_output_size(step, task) for task in step.tables.chunk_keys.names())
    done = 0
    for task, size in list(sizes.items())[:most]:
        if stored <= room:
            break
        forget_output(step, task)
        stored, done = stored - size, done + 1
    return Tended(done, stored > room and done < len(sizes), [])


def _output_size(step: Step, task: TaskId) -> int:
    return sum(step.tables.chunks[key][1].size for key in step.tables.chunk_keys.bucket(task))


def _find_unnamed(step: Step, hashes: tuple[str, ...]) -> tuple[str, ...]:
    named = {datum.blob for _, datum in step.tables.data.values()}
    named |= {chunk.blob for _, chunk in step.tables.chunks.values()}
    return tuple(blob for blob in hashes if blob not in named)
