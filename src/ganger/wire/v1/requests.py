"""What clients of `/v1` send to make and change tasks."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from ganger.core.errors import BadInput, GangerError, UnknownParent
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import QueueId, TaskId
from ganger.core.retry import Retry, to_text
from ganger.core.task import DEFAULT_PRIORITY, NewTask, OnConflict
from ganger.wire.unreadable import UNREADABLE
from ganger.wire.v1.data_shapes import NAMES
from ganger.wire.v1.specs import MADE_BY_RUNS, describe, list_spec_keys, make_spec
from ganger.wire.v1.values import MARK, TEXT, ValueIn, check_key, pack
from ganger.wire.v1.words import read_id, read_type

ROOT: Final = "root"
_NO_PARENT: Final = (None, ROOT)
REFERENCE: Final = "@"
DEFAULT_QUEUE: Final = "default"
SAME: Final = "same"
"""On conflict: give the task that has the key if it is the same, else refuse."""
T = TypeVar("T")


class ParentIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A parent and what is asked of it: success, finished or failed, or a branch of a condition: then or else."""

    id: str | int
    on: str = On.SUCCESS.value


OneOrMore = str | int | ParentIn | tuple[str | int | ParentIn, ...]
"""A parent, or several."""


class MetadataIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """What is said about a new task. Times are milliseconds.

    `parent` is `root`, an id, or `@name` for the task of this request whose `ref` is that name, or a list of them;
    `parents` are more of them.
    `retries` is how often it is tried again after a failure.
    """

    type: str
    parent: OneOrMore | None = None
    parents: tuple[str | int | ParentIn, ...] = ()
    ref: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    delay: int = 0
    join: str = Join.ALL.value
    key: str | None = None
    on_conflict: str = OnConflict.REFUSE.value
    description: str | None = None
    retries: int | None = None
    timeout: int | None = None
    group: str | int | None = None
    limit_key: str | None = None
    requires: tuple[str, ...] = ()
    open_group: bool = False
    webhook: str | None = None


_SHAPES: Final = [*({"$ref": f"#/components/schemas/{name}"} for name in NAMES), {"type": "object"}]
NodeData = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="What is run, by the type of the task; any other key is a value that is kept with it.",
        extra_json_schema={"anyOf": _SHAPES},
    ),
]


class NodeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A new task."""

    metadata: MetadataIn
    data: NodeData = {}


class ChangesIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may be changed about a task that has not started. `parent` and `parents` are all that it waits for then."""

    priority: int | None = None
    description: str | None = None
    timeout: int | None = None
    due: int | None = None
    retries: int | None = None
    parent: OneOrMore | None = None
    parents: tuple[str | int | ParentIn, ...] | None = None


class PatchIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a task: of its metadata, and of the keys of its data that say what is run. Null takes a key away."""

    metadata: ChangesIn = ChangesIn()
    data: dict[str, Any] = {}


class ActionIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to be done, and to which tasks: those with these ids, or all that match every one of the others."""

    action: Literal["hold", "kick", "cancel", "kill", "retry"]
    ids: list[str | int] = []
    type: str | None = None
    state: str | None = None
    queue: str | None = None
    parent: str | None = None
    group: str | None = None
    key: str | None = None
    reason: str | None = None


class Draft(NamedTuple):
    """A task to be: the task, the name of its queue, and the values beside its spec.

    `webhook` is told when it has ended.
    """

    task: NewTask
    queue: str
    data: Sequence[tuple[str, bytes]] = ()
    webhook: str | None = None


def decode(body: bytes, kind: type[T]) -> T:
    """The body as what it must be; BadInput says where it is not."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise BadInput(f"the body is not what is expected here: {error}") from None


_NODES: Final = msgspec.json.Decoder(list[NodeIn] | NodeIn)


def read_nodes(body: bytes) -> list[NodeIn]:
    """The tasks of a request, in their order."""
    try:
        given = _NODES.decode(body)
    except UNREADABLE as error:
        raise BadInput(f"the body is no list of tasks: {error}") from None
    return given if isinstance(given, list) else [given]


def draft_nodes(nodes: list[NodeIn], queues: Mapping[str, QueueId]) -> list[Draft]:
    """What becomes of the tasks in these queues, in their order; an error says which one is wrong."""
    places = _find_refs(nodes)
    return [_draft(index, node, queues[node.metadata.queue], places) for index, node in enumerate(nodes)]


def read_node(node: NodeIn) -> Draft:
    """One task that stands alone; its queue is still to be found."""
    return _make(node, QueueId(0), {})


def _find_refs(nodes: list[NodeIn]) -> dict[str, int]:
    """Where the task of each name is, as a submission says it: -n is the n-th."""
    places: dict[str, int] = {}
    for index, node in enumerate(nodes):
        name = node.metadata.ref
        if name is not None and places.setdefault(name, -index - 1) != -index - 1:
            raise BadInput(f"two tasks have the ref {name!r:.80}", field="metadata.ref", index=index)
    return places


def _draft(index: int, node: NodeIn, queue: QueueId, places: Mapping[str, int]) -> Draft:
    try:
        return _make(node, queue, places)
    except GangerError as error:
        raise type(error)(f"task {index} of the request: {error.message}", **error.fields, index=index) from None


def _make(node: NodeIn, queue: QueueId, places: Mapping[str, int]) -> Draft:
    said = node.metadata
    kind = read_type(said.type)
    spec, values = _divide(kind, node.data)
    task = NewTask(
        queue, kind, make_spec(kind, spec), said.priority,
        delay=said.delay,
        parents=_edges(said, places),
        join=said.join,
        group=0 if said.group is None else _resolve(said.group, places, "group"),
        key=said.key,
        on_conflict=said.on_conflict,
        description=said.description or describe(kind, node.data),
        retry=None if said.retries is None else read_retries(said.retries),
        timeout=said.timeout,
        limit_key=said.limit_key,
        requires=said.requires,
        open_group=said.open_group,
    )  # fmt: skip
    return Draft(task, said.queue, values, said.webhook)


def read_retries(retries: int) -> str:
    if not 0 <= retries < 1 << 31:
        raise BadInput(f"retries is {retries}; give 0 or more", field="retries")
    return to_text(Retry(retries + 1))


def _divide(kind: str, data: dict[str, Any]) -> tuple[dict[str, Any], Sequence[tuple[str, bytes]]]:
    """What is the spec, and what are values beside it, with their marks."""
    keys = list_spec_keys(kind)
    if keys.issuperset(data):
        return data, ()
    spec = {key: value for key, value in data.items() if key in keys}
    return spec, [pair for key, value in data.items() if key not in keys for pair in pack_value(key, ValueIn(value))]


def pack_value(key: str, given: ValueIn) -> list[tuple[str, bytes]]:
    """A value and its mark, as they are stored."""
    if key in MADE_BY_RUNS:
        raise BadInput(f"{key!r} is made by the run of the task and cannot be given", field=f"data.{key}")
    content, mark = pack(given)
    marked = [] if mark == TEXT else [(f"{MARK}{key}", mark.encode())]
    return [(check_key(key), content), *marked]


def _edges(said: MetadataIn, places: Mapping[str, int]) -> tuple[Edge, ...]:
    if said.parent in _NO_PARENT and not said.parents:
        return ()
    given = [*_list_parents(said.parent), *said.parents]
    return tuple(Edge(parent, on) for parent, on in _read_parents(given, places).items())


def _list_parents(given: OneOrMore | None) -> Sequence[str | int | ParentIn]:
    return () if given is None else given if isinstance(given, tuple) else (given,)


def read_parents(said: ChangesIn) -> dict[TaskId, str] | None:
    """Parents by id, with what is asked of each; `root` is none. None if nothing is said about them."""
    if said.parent is None and said.parents is None:
        return None
    given = [*_list_parents(said.parent), *(said.parents or ())]
    return {TaskId(parent): on for parent, on in _read_parents(given, {}).items()}


def _read_parents(given: Sequence[str | int | ParentIn], places: Mapping[str, int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for one in given:
        parent = one if isinstance(one, ParentIn) else ParentIn(one)
        if parent.id != ROOT:
            found.setdefault(_resolve(parent.id, places, "parent"), parent.on)
    return found


def _resolve(name: str | int, places: Mapping[str, int], field: str) -> int:
    if isinstance(name, str) and name.startswith(REFERENCE):
        if name[1:] not in places:
            raise UnknownParent(f"no task of this request has the ref {name[1:]!r:.80}", parent=name[:200])
        return places[name[1:]]
    return read_id(name, field)
