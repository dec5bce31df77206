"""Who may do what: a token stands for a grant, a grant has scopes, a route needs one.

| scope | allows |
|---|---|
| `read` | to look at everything |
| `submit:<queue>` | to make tasks of that queue and to change them; `submit` alone means every queue |
| `work:<queue>` | to take and settle tasks of that queue; `work` alone means every queue |
| `cancel` | to kill, cancel and remove tasks |
| `admin` | everything |
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from ganger.core import names
from ganger.core.clock import Wall
from ganger.core.errors import BadInput, NotAllowed
from ganger.core.lease import Lease
from ganger.core.token import Attempt


class Need(StrEnum):
    """What a route asks of a grant. `OPEN` routes ask for no token at all."""

    OPEN = "open"
    READ = "read"
    SUBMIT = "submit"
    WORK = "work"
    CANCEL = "cancel"
    ADMIN = "admin"


_OF_QUEUES: Final = (Need.SUBMIT, Need.WORK)
_ADMIN: Final = str(Need.ADMIN)
"""A member of an enumeration is looked up three times as slowly."""


class Grant(NamedTuple):
    """What the bearer of a token may do. `id` names the token without giving it away.

    The bearer may be an `attempt`, which has no scopes: it reaches its own family, by routes that say so.
    `rate` is how many requests it may make in a second; None: as many as the server allows each.
    """

    id: str
    name: str
    scopes: frozenset[str]
    expires: Wall | None = None
    attempt: Attempt | None = None
    rate: float | None = None

    @property
    def lease(self) -> Lease | None:
        """That of the attempt, if it is one."""
        return None if self.attempt is None else self.attempt.lease

    def covers(self, need: Need) -> bool:
        """Is there a scope of this sort, for whatever queue?"""
        if _ADMIN in self.scopes or need is Need.OPEN:
            return True
        return any(scope.partition(":")[0] == need for scope in self.scopes)

    def demand(self, need: Need, queue: str | None = None) -> None:
        """NotAllowed if the grant has no such scope, or not for this queue."""
        if _ADMIN in self.scopes or need in self.scopes:
            return
        wanted = need if queue is None else f"{need}:{queue}"
        if wanted not in self.scopes:
            raise NotAllowed(f"the token {self.name!r} lacks the scope {wanted!r}", scope=wanted)

    def fills(self) -> frozenset[str] | None:
        """The names of the queues that it may submit to; None: every one."""
        if not self.scopes.isdisjoint({_ADMIN, str(Need.SUBMIT)}):
            return None
        parted = (scope.partition(":") for scope in self.scopes)
        return frozenset(queue for word, _, queue in parted if word == Need.SUBMIT)


class Keeper(Protocol):
    """Whoever knows the tokens."""

    def find(self, token: str) -> Grant | None:
        """The grant of a token that is known and has not expired."""
        ...

    def holds(self, grant: Grant) -> bool:
        """Is the grant still as it was given?"""
        ...


def check_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes, if they are some."""
    checked = frozenset(map(_check_scope, scopes))
    if not checked:
        raise BadInput("a token needs a scope: read, submit:<queue>, work:<queue>, cancel or admin", field="scope")
    return checked


def _check_scope(scope: str) -> str:
    word, colon, queue = scope.partition(":")
    if colon and word in _OF_QUEUES:
        names.check("queue", queue)
        return scope
    if colon or word not in set(Need) - {Need.OPEN}:
        known = "read, submit, submit:<queue>, work, work:<queue>, cancel, admin"
        raise BadInput(f"{scope!r:.80} is no scope; use {known}", field="scope")
    return scope
