"""Values of the engine as programs read them: plain objects with words for statuses and names for queues."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ganger.cli.words import say_status
from ganger.core.errors import PayloadTooLarge, QueueNotFound, TaskNotFound
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.task import Kind

if TYPE_CHECKING:
    from ganger.core.event import Event
    from ganger.core.node import Node
    from ganger.core.queue import Queue
    from ganger.core.task import Task
    from ganger.engine.engine import Engine
    from ganger.engine.view import View

Names = Mapping[QueueId, str]
Titles = Mapping[TaskId, str]
_LOOKED_AT: Final = 1_000
_PATH: Final = re.compile(rb'"path":\s*"([^"\\]+)"')


async def name_queues(engine: "Engine | View") -> Names:
    """The name of each queue by its id."""
    return {queue.id: queue.name for queue in await engine.queues.all()}


async def name_nodes(engine: "Engine | View") -> Mapping[NodeId, str]:
    """The name of each node by its id."""
    return {node.id: node.name for node in await engine.nodes.all()}


async def title_tasks(engine: "Engine | View", tasks: "Iterable[Task]") -> Titles:
    """What people read in a list: the description, or the name of the function, which its spec says."""
    return {task.id: task.description or await _title(engine, task) for task in tasks}


async def _title(engine: "Engine | View", task: "Task") -> str:
    if task.kind != Kind.FUNCTION:
        return f"({task.kind})"
    try:
        found = _PATH.search((await engine.read_data(task.id, "spec", 0, _LOOKED_AT)).body)
    except (TaskNotFound, PayloadTooLarge):
        # It was removed since it was listed, or has arguments of such a size that nobody wants them read for this.
        found = None
    return f"({task.kind})" if found is None else found[1].decode("utf-8", "replace")


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


def view_node(node: "Node") -> dict[str, Any]:
    return node._asdict() | {"vitals": None if node.vitals is None else node.vitals._asdict()}


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
