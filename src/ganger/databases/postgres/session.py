"""A transaction as the step that runs in it sees it, and how a step says that it must run otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ganger.databases.postgres.receipts import Writer


class NeedsToRunAlone(Exception):
    """A step found that it weaves rows together that others may be at."""


class RunAgain(Exception):
    """A step found that what it went by is not so any more; nothing of it is stored, and it looks again."""


@dataclass(slots=True)
class Session:
    """One transaction: its connection, what it will tell when it is committed, and whose receipt it leaves.

    A step that must not be stored twice writes the receipt (`writer`) and says so (`sealed`); others may run again. Its
    last statement, if nothing is asked of that, may travel together with the commit (`closing`).
    """

    connection: Any
    alone: bool
    writer: Writer
    lock: int = 0
    """What steps that run side by side share, and one that runs alone has for itself."""
    topics: dict[str, None] = field(default_factory=dict)
    sealed: bool = False
    closing: str | None = None
    committed: list[Callable[[], None]] = field(default_factory=list)

    def wake(self, topic: str) -> None:
        self.topics[topic] = None

    def needs_to_run_alone(self) -> None:
        if not self.alone:
            raise NeedsToRunAlone
