"""The shapes of the answers of `/v1`, for those who read its description; a test holds the answers to them."""

from typing import Any, Final

import msgspec


class Pagination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to go on: `next` is given back as `start`, `pid` as `pid`."""

    next: str
    pid: str


class NodeMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is told about a task: the id, and what was asked for. Times are milliseconds since 1970."""

    id: str
    type: str | None = None
    parent: str | None = None
    parents: list[str] | None = None
    edges: list[dict[str, str]] | None = None
    state: str | None = None
    status: str | None = None
    phase: str | None = None
    code: int | None = None
    queue: str | None = None
    group: str | None = None
    holder: str | None = None
    retry_of: str | None = None
    children: int | None = None
    progress: float | None = None
    requires: list[str] | None = None
    priority: int | None = None
    key: str | None = None
    description: str | None = None
    join: str | None = None
    due: int | None = None
    timeout: int | None = None
    batch: int | None = None
    attempts: int | None = None
    crashes: int | None = None
    limit_key: str | None = None
    info: str | None = None
    reason: str | None = None
    created: int | None = None
    modified: int | None = None
    started: int | None = None
    ended: int | None = None


class NodePage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a list, with more to come."""

    nodes: list[NodeMetadata]
    pagination: Pagination


NodeList = list[NodeMetadata] | NodePage


class NewNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task that was added, or one that had its key already (`existed`)."""

    id: str
    state: str | None = None
    existed: bool = False


class NodeShown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task with its data; the keys of values that are too large for it are in `large`."""

    metadata: NodeMetadata
    data: dict[str, Any]
    large: list[str] = []


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: list[str]
    pagination: Pagination | None = None


class ValueShown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value or a page of it. `encoding`: text, json, json-text (a piece of JSON) or base64. `size` in bytes."""

    key: str
    data: Any
    encoding: str
    size: int
    pagination: Pagination | None = None


class ValuePut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`start` and `pid` are those of the first slot, `pagination` those of what follows."""

    key: str
    replaced: bool
    start: str
    pid: str
    pagination: Pagination


class Killing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Those that will be killed or were cancelled, and those that had ended before."""

    killing: list[str]
    ended: list[str]


class NodeEnded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a task ended; `removed` is one that is not there any more."""

    id: str
    state: str
    phase: str | None = None
    code: int | None = None


class ReasonTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str
    sentence: str
    fields: dict[str, Any]


class WhyTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    phase: str
    reasons: list[ReasonTold]


class VitalsTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a node is, as it told last: slots in use, tasks that it has, and the load and memory of its machine.

    `memory` are the bytes in use of `size`. `trouble` says why it takes no work; empty if it does.
    """

    used: int
    held: int
    load: float
    memory: int
    size: int
    trouble: str


class WorkerTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that takes tasks. `queues` and `kinds` are all that it takes; null: every one.

    `running` are the tasks that it has begun, `claimed` those that it has and has not begun. `vitals` is null of one
    that is gone, or that tells nothing of itself.
    """

    id: str
    name: str
    state: str
    slots: int | None
    queues: list[str] | None
    kinds: list[str] | None
    labels: list[str]
    since: int
    seen: int
    running: int
    claimed: int
    vitals: VitalsTold | None


class QueueStats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue in numbers. `running` are tasks that a node has begun, `claimed` those that it has and has not begun.

    `states` counts by the states of tasks, `phases` by the engine's own words. `oldest_ready` are milliseconds, `rates`
    facts in a second over the last minute.
    `wanted_slots` is how many of its tasks could run now, `wanted_workers` how many nodes have so many slots.
    """

    queue: str
    total: int
    todo: int
    states: dict[str, int]
    phases: dict[str, int]
    facts: dict[str, int]
    paused: bool
    ready: int
    running: int
    claimed: int
    oldest_ready: int | None
    rates: dict[str, float]
    wanted_slots: int
    wanted_workers: int


class Stats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    queues: list[QueueStats]
    last_event: str


class RefusedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    why: str


class ActionDone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Those that were done (for a retry the new ones), the others, and whether there are more to be done."""

    done: list[str]
    refused: list[RefusedNode]
    more: bool


class EdgeTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The child waits for the parent; `on` is what it asks of it."""

    parent: str
    child: str
    on: str


class GraphTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks, and the edges above them."""

    nodes: list[NodeMetadata]
    edges: list[EdgeTold]
    pagination: Pagination | None = None


class Problem(msgspec.Struct, frozen=True):
    """What went wrong (RFC 9457). `code` never changes. A door may add members of its own."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fields: dict[str, Any] = {}


PARAMETERS: Final[dict[str, str]] = {
    "after": "Only events behind this position.",
    "attempt": "The attempt (its fence) whose output is read; the newest that has some unless given.",
    "descendants": "Whether all tasks below go too; else they get the parents of the removed one.",
    "drop": "Whether tasks that wait are cancelled first.",
    "follow": "Whether the answer goes on as server-sent events until the task has ended.",
    "group": "Only members of this group.",
    "id": "The ids of the tasks, with commas between them.",
    "key": "Only the task with this key.",
    "kill": "Whether what runs of those that go is ended first; else it is a refusal (409) that names it.",
    "limit": "At most so many on a page, 1 to 1000.",
    "metadata": "Which metadata are told besides the id, with commas between them; all unless given.",
    "new": "Only tasks newer than this id (0: all); the answer waits until there are some.",
    "offset": "Where to begin, in bytes.",
    "pagid": "The same as pid.",
    "parent": "Only children of this task.",
    "pid": "The page id of the answer before.",
    "queue": "Only tasks of this queue.",
    "root": "Only this task and all below it.",
    "slots": "How many slots a node has; those that are here say it unless given.",
    "start": "Where the page begins: the `next` of the answer before.",
    "state": "Only tasks of these states, with commas between them.",
    "stream": "stdout, stderr, mixedout or log.",
    "type": "Only tasks of this type.",
    "{id}": "The id of a task.",
    "{key}": "The key of a value of the task.",
    "{name}": "The name of the queue.",
}
"""What each parameter means, and each open part of a path."""

OF_VALUES: Final[dict[str, str]] = {
    "limit": "At most so many bytes, 262144 at most; as many unless given.",
}
OF_SLOTS: Final[dict[str, str]] = {
    "pid": "The page id of the value whose slot is written, from the answer before.",
    "start": "Where the slot begins: `next` or `start` of an answer before. Empty: replace only what is unset.",
}
OF_EVENTS: Final[dict[str, str]] = {
    "id": "Only events about these tasks: ids with commas between them.",
    "queue": "Only events of this queue.",
    "root": "Only events about this task and those below it.",
}
