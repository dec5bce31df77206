"""What a handle brings along to own a file with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ganger.databases.migrations import Migration
from ganger.databases.sqlite.operation import Session
from ganger.databases.sqlite.versions import mark_of

Prepare = Callable[[Session], Any]


@dataclass(frozen=True, slots=True)
class Charter:
    """Whose database it is, in which version, and how it is made ready."""

    application: str
    migrations: Sequence[Migration]
    prepare: Prepare
    protocol: int
    vfs: str | None

    @property
    def minimum(self) -> int:
        """The oldest version that may share a file with this one: its predecessor."""
        return max(1, self.protocol - 1)

    @property
    def application_id(self) -> int:
        """The mark in the file's header."""
        return mark_of(self.application)
