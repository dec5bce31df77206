"""Documents that make no sense are left alone, named once, and everything else goes on.

Anybody may write anything into a database that strangers share. A text that is a number is taken as that number: forms
in browsers store such. What remains is odd: it is told in the log when it is first met, by the doctor, and by `why`.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from ganger.core.showing import show
from ganger.databases.mongo import Doc, ObjectId
from ganger.engine.store import Odd
from ganger.engine.stores.mongo.row import OWN
from ganger.runtime.telemetry import SILENT, Telemetry

_MOST: Final = 10_000
_LONGEST_NUMBER: Final = 9


class Oddities:
    """What was met so far; each is told once."""

    def __init__(self, telemetry: Telemetry = SILENT) -> None:
        self._telemetry = telemetry
        self._known: dict[tuple[str, str], Odd] = {}
        self._tasks: dict[Any, None] = {}

    def name(self, collection: str, id: Any, what: str) -> None:
        key = (collection, str(id))
        if key not in self._known and len(self._known) < _MOST:
            self._known[key] = Odd(collection, str(id), what)
            self._telemetry.event("odd_document", collection=collection, id=str(id), message=what)
        if collection == "tasks" and isinstance(id, ObjectId):
            self._tasks[id] = None

    @property
    def tasks(self) -> list[Any]:
        """The ids of odd tasks that were met: a claim passes them over."""
        return list(self._tasks)[-1_000:]


def read_limit(value: Any) -> int | None:
    """A limit as anybody may have written it; ValueError says what makes no sense."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) <= _LONGEST_NUMBER:
        return int(value)
    if isinstance(value, float) and value.is_integer() and 0 <= value < 10**_LONGEST_NUMBER:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ValueError(f"{show(value)} is no number of tasks")
    return value


def read_slots(value: Any) -> int | None:
    """The limit of a node; what makes no sense is none."""
    try:
        return read_limit(value)
    except ValueError:
        return None


def judge_queue(document: Mapping[str, Any]) -> str | None:
    """Why the document of a queue, in the words of the protocol's text, makes no sense; None if it does."""
    name, plugin = document.get("name"), document.get("constructor")
    if not isinstance(document["_id"], ObjectId):
        return "its _id is no object id"
    if not isinstance(name, str) or not name:
        return f"its name is {show(name)}"
    if not isinstance(plugin, str) or not plugin:
        return f"its constructor is {show(plugin)}: nobody knows what runs its tasks"
    for field in ("nodes_pin", "nodes_ignore"):
        said = document.get(field)
        if said is not None and not (isinstance(said, list) and all(isinstance(one, str) for one in said)):
            return f"its {field} is {show(said)}"
    return _judge_limits(document)


def _judge_limits(document: Mapping[str, Any]) -> str | None:
    for field in ("maxthreads", "threads"):
        try:
            read_limit(document.get(field))
        except ValueError as error:
            return f"its {field} is odd: {error}"
    return None


def judge_strange_queue(document: Mapping[str, Any]) -> str | None:
    """The same of one that a stranger made, who cannot make one of our own kinds."""
    if document.get("constructor") == OWN:
        return f"its constructor is {OWN}, and it was not made here"
    if "ganger" in document:
        return f"its ganger is {show(document['ganger'])}, which was not written here"
    return judge_queue(document)


def judge_task(document: Mapping[str, Any]) -> str | None:
    """Why the document of a task makes no sense; None if it does."""
    status, inside = document.get("status"), document.get("ganger", {})
    if not isinstance(document["_id"], ObjectId):
        return "its _id is no object id"
    if not is_status(status):
        return f"its status is {show(status)}"
    if not isinstance(inside, dict) or not _is_written_here(inside):
        return f"its ganger is {show(inside)}, which was not written here"
    return None


def _is_written_here(inside: Mapping[str, Any]) -> bool:
    return is_status(inside["id"]) if "id" in inside else not set(inside) - {"pending", "pended"}


def judge_node(document: Mapping[str, Any]) -> str | None:
    """Why the document of a node makes no sense; None if it does."""
    name = document.get("node")
    if not isinstance(name, str) or not name:
        return f"its node is {show(name)}"
    try:
        read_limit(document.get("maxthreads"))
    except ValueError as error:
        return f"its maxthreads is odd: {error}"
    return None


def is_status(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def guard_claim(oddities: Oddities) -> Doc:
    """What a task must be besides to be taken by the protocol's own write. A list matches whatever is in it."""
    lists = [{name: {"$type": "array"}} for name in ("status", "node", "queue", "ganger")]
    sound: Doc = {"$or": [{"ganger": {"$exists": False}}, {"ganger": {"$type": "object"}}], "$nor": lists}
    ids: Doc = {"$type": "objectId"}
    if oddities.tasks:
        ids["$nin"] = oddities.tasks
    return {**sound, "_id": ids}
