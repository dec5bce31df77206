"""Values of the engine as programs read them: plain objects with words for statuses and names for queues."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ganger.cli.words import say_status
from ganger.core.errors import QueueNotFound
from ganger.core.ids import NodeId, QueueId

if TYPE_CHECKING:
    from ganger.core.event import Event
    from ganger.core.node import Node
    from ganger.core.queue import Queue
    from ganger.core.task import Task
    from ganger.engine.engine import Engine
    from ganger.engine.nodes import InHand
    from ganger.engine.view import View

Names = Mapping[QueueId, str]


async def name_queues(engine: "Engine | View") -> Names:
    """The name of each queue by its id."""
    return {queue.id: queue.name for queue in await engine.queues.all()}


async def name_nodes(engine: "Engine | View") -> Mapping[NodeId, str]:
    """The name of each node by its id."""
    return {node.id: node.name for node in await engine.nodes.all()}


async def choose_queue(engine: "Engine | View", name: str) -> "Queue":
    """The queue of this name, or of this id if it is written `id:3`."""
    if name.startswith("id:") and name[3:].isdecimal():
        return await engine.queues.get(QueueId(int(name[3:])))
    try:
        return await engine.queues.named(name)
    except QueueNotFound as error:
        advice = "`ganger queue ls` lists those that are there"
        raise QueueNotFound(f"no queue is called {name!r:.80}: {advice}", **error.fields) from None


def view_task(task: "Task", names: Names) -> dict[str, Any]:
    """Every field of a task; `status` is the word and `code` the number, `queue` the name and `queue_id` the number."""
    fields = task._asdict()
    fields |= {"status": say_word(task.status), "code": task.status}
    fields |= {"queue": names.get(task.queue), "queue_id": task.queue}
    return fields


def say_word(code: int) -> str:
    """The word alone, for programs: the code stands beside it."""
    return say_status(code).partition("(")[0]


def view_queue(queue: "Queue") -> dict[str, Any]:
    return {"id": queue.id, "name": queue.name, "paused_until": queue.paused_until, **queue.policy._asdict()}


def view_node(node: "Node", has: "InHand | None") -> dict[str, Any]:
    """Every field of a node, and how many tasks it runs and has claimed; null of one that is gone."""
    tasks = dict.fromkeys(("running", "claimed")) if has is None else has._asdict()
    return node._asdict() | tasks | {"vitals": None if node.vitals is None else node.vitals._asdict()}


def view_event(event: "Event", names: Names) -> dict[str, Any]:
    fields = event._asdict()
    fields["queue"], fields["queue_id"] = names.get(event.queue), event.queue
    fields["entries"] = [entry._asdict() for entry in event.entries]
    return fields


def list_ids(numbers: Iterable[int], most: int = 20) -> str:
    """Some ids as text, and that there are more."""
    ids = list(numbers)
    shown = ", ".join(map(str, ids[:most]))
    return f"{shown} and {len(ids) - most} more" if len(ids) > most else shown
