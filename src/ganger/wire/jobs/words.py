"""The words of the jobs door: statuses, priorities, keys."""

import re
import uuid
from typing import Final

from ganger.core import names
from ganger.core.errors import BadInput
from ganger.core.ids import TaskId, from_uuid
from ganger.core.state import Status, status_of
from ganger.core.task import DEFAULT_PRIORITY

LONGEST_DESCRIPTION: Final = 128
ROUTE_WORDS: Final = frozenset({"submit", "batches", "delete", "payload", "result", "logs"})
PRIORITIES: Final = {"immediate": DEFAULT_PRIORITY // 2, "batch": DEFAULT_PRIORITY}
STATUSES: Final[dict[str, tuple[int, ...]]] = {
    "pending": (Status.DELAYED, Status.BLOCKED, Status.QUEUED),
    "running": (Status.CLAIMED, Status.RUNNING),
    "complete": (Status.SUCCEEDED,),
    "failed": (Status.HELD, Status.ORPHANED, Status.CANCELLED, Status.TERMINATED, Status.FAILED),
}
_BY_STATUS: Final = {status: word for word, statuses in STATUSES.items() for status in statuses}
_GUID: Final = re.compile(
    r"[{(]?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}[)}]?", re.IGNORECASE | re.ASCII
)


def say_status(code: int) -> str:
    """A status in the words of this door; a code that a stranger set is waiting for whoever set it."""
    status = status_of(code)
    return "pending" if status is None else _BY_STATUS[status]


def say_priority(priority: int) -> str:
    return "immediate" if priority < DEFAULT_PRIORITY else "batch"


def read_priority(text: str | None) -> int:
    found = PRIORITIES.get(text or "")
    if found is None:
        given = "is missing" if text is None else f"is {text!r:.40}"
        raise BadInput(f"priority {given}; give immediate or batch", field="priority")
    return found


def read_description(text: str | None) -> str | None:
    if text is not None and len(text) > LONGEST_DESCRIPTION:
        raise BadInput(
            f"description has {len(text)} characters; give at most {LONGEST_DESCRIPTION}", field="description"
        )
    return None if text is None else names.check_text("description", text, LONGEST_DESCRIPTION)


def read_new_key(text: str | None) -> str | None:
    """A key for a new job, if one is given."""
    if text is None:
        return None
    if is_guid(text):
        raise BadInput("key has the form of a GUID, which names jobs without a key: choose another", field="key")
    if text.lower() in ROUTE_WORDS:
        raise BadInput(f"key is {text!r}, which is a word of the addresses: choose another", field="key")
    return names.check("key", text)


def is_guid(text: str) -> bool:
    return _GUID.fullmatch(text) is not None


def read_guid(tag: int, text: str) -> TaskId | None:
    """The job that a GUID names; None if it is no GUID of this store."""
    try:
        return from_uuid(tag, uuid.UUID(text)) if is_guid(text) else None
    except (BadInput, ValueError):
        return None
