"""What everything that is coordinated in one process shares."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from ganger.coordination.backend import Backend
from ganger.coordination.lease import Sights
from ganger.core.clock import Clock, Entropy


def make_holder(entropy: Entropy) -> str:
    """A name for a holder: a random UUID."""
    return str(UUID(bytes=entropy.token(16), version=4))


class Turns:
    """Who of this process is next, for each name: in the order in which they came."""

    def __init__(self) -> None:
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def take(self, name: str) -> Callable[[], None]:
        """Wait for the turn; the returned function gives it on, and may be called twice."""
        lock, users = self._turns.get(name, (asyncio.Lock(), 0))
        self._turns[name] = (lock, users + 1)
        try:
            await lock.acquire()
        except BaseException:
            self._leave(name)
            raise
        taken = [lock]

        def give_on() -> None:
            if taken:
                taken.pop().release()
                self._leave(name)

        return give_on

    def _leave(self, name: str) -> None:
        lock, users = self._turns[name]
        if users > 1:
            self._turns[name] = (lock, users - 1)
        else:
            del self._turns[name]


class Releasable(Protocol):
    async def release(self) -> None: ...


class Room(NamedTuple):
    """A backend, the time, chance, what was seen of others' locks, who of this process is next, and what it holds."""

    backend: Backend
    clock: Clock
    entropy: Entropy
    sights: Sights
    turns: Turns
    holds: "set[Releasable]"

    @classmethod
    def of(cls, backend: Backend, clock: Clock, entropy: Entropy) -> "Room":
        return cls(backend, clock, entropy, Sights(), Turns(), set())
