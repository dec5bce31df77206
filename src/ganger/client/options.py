"""How a task is to be treated, whatever it does: values that are copied, never changed."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypedDict

from ganger.core.errors import BadNumber
from ganger.core.retry import Retry, check, to_text
from ganger.core.task import DEFAULT_PRIORITY, OnConflict

Span = int | timedelta
"""A length of time: milliseconds, or a timedelta."""

DEFAULT_QUEUE: Final = "default"


@dataclass(frozen=True, slots=True)
class Options:
    """See `Wishes` for what each means."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    delay: Span = 0
    key: str | None = None
    on_conflict: str = OnConflict.RETURN
    retries: int | Retry | None = None
    timeout: Span | None = None
    description: str | None = None
    limit_key: str | None = None
    requires: tuple[str, ...] = ()


PLAIN: Final = Options()


class Wishes(TypedDict, total=False):
    """The options as keywords.

    `priority`: smaller is sooner. `delay`: not before that time from now. `key`: no two tasks have the same one; with
    on_conflict `return` the task that has it is given back, with `refuse` DuplicateKey is raised. `retries`: how often
    a failed one is tried again, or a whole policy; None leaves it to the queue. `timeout`: for one attempt.
    `limit_key` is the concurrency key; `requires` are labels that the node must have.
    """

    queue: str
    priority: int
    delay: Span
    key: str | None
    on_conflict: str
    retries: int | Retry | None
    timeout: Span | None
    description: str | None
    limit_key: str | None
    requires: tuple[str, ...]


def to_ms(span: Span, field: str) -> int:
    """A length of time in milliseconds; BadNumber if it is none."""
    if isinstance(span, timedelta):
        return round(span / timedelta(milliseconds=1))
    if not isinstance(span, int) or isinstance(span, bool):
        raise BadNumber(f"{field} is {span!r:.80}; give whole milliseconds or a timedelta", field=field)
    return span


def retry_text(retries: int | Retry | None) -> str | None:
    """The policy as a task has it: n retries are n + 1 attempts."""
    if retries is None:
        return None
    if isinstance(retries, Retry):
        return to_text(check(retries))
    if retries < 0:
        raise BadNumber(f"retries is {retries}; give 0 or more, or a policy", field="retries")
    return to_text(Retry(max_attempts=retries + 1))
