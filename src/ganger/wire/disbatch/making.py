"""New tasks: an object of parameters for each, or one that is filled from each document of a collection."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput
from ganger.core.ids import QueueId
from ganger.core.task import PLUGIN, NewTask
from ganger.wire.specs import PluginSpec, encode
from ganger.wire.unreadable import UNREADABLE

MARK: Final = "document."
_ARRAY: Final = "params must be a JSON array of task params"
_OBJECTS: Final = "'params' must be a JSON array of task params objects"
_PAIRS: Final = "'params' must be a JSON array of task params objects with key/value pairs"
_TEMPLATE: Final = "filter and params required and must be name/value objects"
_DEEPEST: Final = 100
_FORBIDDEN: Final = frozenset({"$where", "$function", "$accumulator", "$expr"})


class Template(NamedTuple):
    """Tasks from a collection: which documents, and the parameters, where `document.x` is that field of each."""

    collection: str
    filter: Mapping[str, Any]
    params: Mapping[str, Any]

    @property
    def fields(self) -> Sequence[str]:
        """What is needed of each document."""
        marked = [value for value in self.params.values() if isinstance(value, str) and value.startswith(MARK)]
        return sorted({value.removeprefix(MARK) for value in marked})


class Order(NamedTuple):
    """What one request wants made, in the queue that it names."""

    queue: str
    lot: "Sequence[Any] | Template"


def read_order(said: Any) -> Order:
    """The body of `POST /tasks`."""
    if not isinstance(said, dict) or not isinstance(said.get("queue"), str):
        raise BadInput("queue not found")
    names, params = set(said), said.get("params")
    if names == {"queue", "params"} and isinstance(params, dict | list):
        return Order(said["queue"], check_lot([params] if isinstance(params, dict) else params))
    if names == {"queue", "params", "collection", "filter"} and isinstance(params, dict):
        return Order(said["queue"], check_template(said["collection"], said))
    raise BadInput("invalid parameters passed")


def check_array(said: Any) -> Sequence[Any]:
    """The body of `POST /tasks/:queue`."""
    if not isinstance(said, list):
        raise BadInput(_ARRAY)
    return check_lot(said)


def check_lot(params: Sequence[Any]) -> Sequence[Any]:
    if not params or not all(isinstance(one, dict) for one in params):
        raise BadInput(_OBJECTS)
    if not all(params):
        raise BadInput(_PAIRS)
    return params


def check_template(collection: Any, said: Any) -> Template:
    """The body of `POST /tasks/:queue/:collection`."""
    if not isinstance(said, dict):
        raise BadInput(_TEMPLATE)
    if not isinstance(said.get("filter"), dict) or not isinstance(said.get("params"), dict):
        raise BadInput(_TEMPLATE)
    if not isinstance(collection, str) or not collection:
        raise BadInput("'collection' required and must be a scalar (string)")
    _refuse_code(said["filter"], _DEEPEST)
    return Template(collection, said["filter"], said["params"])


def _refuse_code(value: Any, deep: int) -> None:
    """A filter chooses documents; it does not run programs in the database."""
    if not deep:
        raise BadInput(f"the filter is more than {_DEEPEST} levels deep", field="filter")
    if isinstance(value, dict):
        if found := _FORBIDDEN & set(value):
            raise BadInput(f"{min(found)} is not allowed in a filter", field="filter")
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        _refuse_code(part, deep - 1)


def fill(template: Template, document: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of one task. A field that the document has not is null."""
    return {
        name: pick(document, value.removeprefix(MARK)) if isinstance(value, str) and value.startswith(MARK) else value
        for name, value in template.params.items()
    }


def pick(document: Mapping[str, Any], path: str) -> Any:
    """The field of this name, or at this path of names with dots between them."""
    if path in document:
        return document[path]
    found: Any = document
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def make_tasks(queue: QueueId, plugin: str, lot: Sequence[Any]) -> list[NewTask]:
    return [NewTask(queue, f"{PLUGIN}{plugin}", encode(PluginSpec(params))) for params in lot]


def read_parameters(kind: str, spec: bytes) -> Any:
    """What a task was given: the parameters of a plugin's, the whole spec of one of Ganger's own kinds."""
    if kind == "payload":
        return None
    try:
        said = msgspec.json.decode(spec or b"{}")
    except UNREADABLE:
        return None
    return said.get("params") if kind.startswith(PLUGIN) and isinstance(said, dict) else said
