"""How a task is to be treated, whatever it does, and where a command runs: values that are copied, never changed.

Each list of names is said twice, as a frozen value and as the keywords of a call, because a type checker reads the one
and not the other; a test keeps the two the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict

from ganger.core.errors import BadNumber
from ganger.core.retry import Retry, check, to_text
from ganger.core.span import Span, to_ms
from ganger.core.task import DEFAULT_PRIORITY, OnConflict
from ganger.wire.specs import Limits

DEFAULT_QUEUE: Final = "default"
NO_LIMITS: Final = Limits()


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

    Times are seconds, timedeltas or texts such as "5m". `priority`: smaller is sooner. `delay`: not before that time
    from now. `key`: no two tasks have the same one; with
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


@dataclass(frozen=True, slots=True)
class Surrounds:
    """Where a command runs, and within which bounds. See `CommandWishes`."""

    cwd: str | None = None
    env: Mapping[str, str] | None = None
    stdin: str | None = None
    merge: bool = False
    limits: Limits = NO_LIMITS
    grace: Span = 5

    def spell(self) -> dict[str, Any]:
        """The fields as the spec of a command has them."""
        return {
            "cwd": self.cwd,
            "env": dict(self.env or {}),
            "stdin": self.stdin,
            "merge": self.merge,
            "limits": self.limits,
            "grace": to_ms(self.grace, "grace"),
        }


class CommandWishes(Wishes, total=False):
    """The options of a command or script as keywords.

    `env` is added to a clean environment. `merge`: one pipe for both streams, so that their order is exact. `grace`:
    the time between TERM and KILL.
    """

    cwd: str | None
    env: Mapping[str, str] | None
    stdin: str | None
    merge: bool
    limits: Limits
    grace: Span


_SURROUNDS: Final = frozenset(field.name for field in fields(Surrounds))


def split(wishes: Mapping[str, Any]) -> tuple[Surrounds, Options]:
    """The keywords of a command as the two values that they are."""
    around = {name: value for name, value in wishes.items() if name in _SURROUNDS}
    return Surrounds(**around), Options(**{name: value for name, value in wishes.items() if name not in around})


def refuse_strangers(given: Mapping[str, Any], known: type) -> None:
    """Raise TypeError for a keyword that is none of these, as Python does for a misspelt parameter."""
    if strangers := sorted(given.keys() - known.__annotations__.keys()):
        raise TypeError(f"unexpected keyword {strangers[0]!r}; known are {', '.join(known.__annotations__)}")


def retry_text(retries: int | Retry | None) -> str | None:
    """The policy as a task has it: n retries are n + 1 attempts."""
    if retries is None:
        return None
    if isinstance(retries, Retry):
        return to_text(check(retries))
    if retries < 0:
        raise BadNumber(f"retries is {retries}; give 0 or more, or a policy", field="retries")
    return to_text(Retry(max_attempts=retries + 1))
