"""What `/v1` answers about tasks and events."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganger.core.errors import BadInput
from ganger.core.event import Entry, Event
from ganger.core.graph import Edge
from ganger.core.ids import QueueId, TaskId
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.wire.v1.requests import ROOT
from ganger.wire.v1.words import INCIPIENT, name_phase, name_state, name_type, split

Names = Mapping[QueueId, str]


class Node(NamedTuple):
    """What is known of one task when its metadata are told."""

    task: Task
    parents: Sequence[Edge]
    queues: Names


def _field(name: str) -> Callable[[Node], Any]:
    return lambda node: getattr(node.task, name)


_PLAIN: Final = (
    "priority", "key", "join", "due", "timeout", "batch", "attempts", "crashes", "limit_key", "info",
    "created", "modified", "started", "ended",
)  # fmt: skip
_TOLD: Final[dict[str, Callable[[Node], Any]]] = {
    "type": lambda node: name_type(node.task.kind),
    "parent": lambda node: str(node.parents[0].parent) if node.parents else ROOT,
    "parents": lambda node: [str(edge.parent) for edge in node.parents],
    "edges": lambda node: [{"id": str(edge.parent), "on": edge.on} for edge in node.parents],
    "state": lambda node: name_state(node.task.status),
    "status": lambda node: name_state(node.task.status),
    "phase": lambda node: name_phase(node.task.status),
    "code": lambda node: node.task.status,
    "queue": lambda node: node.queues.get(node.task.queue),
    "group": lambda node: _text(node.task.group),
    "holder": lambda node: _text(node.task.holder),
    "retry_of": lambda node: _text(node.task.retry_of),
    "children": lambda node: node.task.kids,
    "progress": lambda node: node.task.percent,
    "requires": lambda node: list(node.task.requires),
    "description": lambda node: node.task.description or name_type(node.task.kind),
    "reason": lambda node: None if node.task.status == Status.SUCCEEDED else node.task.reason,
    **{name: _field(name) for name in _PLAIN},
}
METADATA: Final = frozenset({"id", *_TOLD})
_OF_EDGES: Final = frozenset({"parent", "parents", "edges"})


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def read_fields(text: str | None) -> tuple[str, ...] | None:
    """The metadata that are asked for; None for all."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(split(text)))
    if unknown := sorted(set(names) - METADATA):
        known = ", ".join(sorted(METADATA))
        raise BadInput(f"{unknown[0]!r:.80} is no metadata; known are {known}", field="metadata")
    return tuple(name for name in names if name != "id")


def needs_parents(fields: tuple[str, ...] | None) -> bool:
    return fields is None or not _OF_EDGES.isdisjoint(fields)


def tell_node(node: Node, fields: tuple[str, ...] | None) -> dict[str, Any]:
    """The id, and the metadata that are asked for; without a wish all that are there."""
    told: dict[str, Any] = {"id": str(node.task.id)}
    if fields is not None:
        return told | {name: _TOLD[name](node) for name in fields}
    return told | {name: value for name, tell in _TOLD.items() if (value := tell(node)) is not None}


def tell_made(task: TaskId, existed: bool) -> dict[str, Any]:
    """A task that was added, or was there under its key."""
    return {"id": str(task), "existed": True} if existed else {"id": str(task), "state": INCIPIENT}


def tell_page(nodes: Sequence[Any], following: str | None, page_id: str) -> Any:
    """A list that is whole is a bare array; with more to come it says how to go on."""
    if following is None:
        return nodes
    return {"nodes": nodes, "pagination": {"next": following, "pid": page_id}}


def tell_event(event: Event, queues: Names) -> dict[str, Any]:
    return {
        "position": str(event.position),
        "at": event.at,
        "fact": event.fact.value,
        "queue": queues.get(event.queue),
        "nodes": _tell_entries(event.entries),
        **({} if event.subject is None else {"subject": event.subject}),
    }


def _tell_entries(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [
        {"id": str(entry.task), "state": name_state(entry.status), "phase": name_phase(entry.status)}
        | ({} if entry.reason is None else {"reason": entry.reason})
        for entry in entries
    ]
