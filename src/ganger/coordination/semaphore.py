"""A semaphore: as many locks as it has slots, of which a holder takes any that is free."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ganger.coordination.hold import Hold
from ganger.coordination.lease import Terms
from ganger.coordination.lock import Busy, Lock
from ganger.coordination.room import Room
from ganger.core.errors import BadNumber, LockBusy, StoreError

MOST_SLOTS: Final = 1_000
_UNREACHABLE: Final = 250


class Semaphore:
    """At most `slots` holders at one moment. All who use one name must agree upon how many there are."""

    def __init__(self, room: Room, name: str, slots: int, terms: Terms) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise BadNumber(f"a semaphore has 1 to {MOST_SLOTS} slots, not {slots}", field="slots", value=slots)
        self.name = name
        self.terms = terms
        self._room = room
        self._slots = [Lock(room, f"{name}/{slot}", terms) for slot in range(slots)]

    async def acquire(self, wait: float | None = 0.0) -> Hold:
        """Take a slot; as `Lock.acquire`."""
        clock, told = asyncio.get_running_loop(), asyncio.Event()
        end = None if wait is None else clock.time() + wait
        with self._watching(told):
            while True:
                told.clear()
                found = await self._attempt()
                if isinstance(found, Hold):
                    return found
                failed, soonest = found
                look = min(self._room.backend.capabilities.look or self.terms.look, self.terms.look)
                pause = min(float(soonest), look * (0.5 + self._room.entropy.uniform())) / 1_000
                pause = pause if end is None else min(pause, end - clock.time())
                if pause <= 0:
                    raise failed or LockBusy(f"every slot of {self.name!r} is taken: wait longer", lock=self.name)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await told.wait()

    async def _attempt(self) -> "Hold | tuple[StoreError | None, int]":
        """Try each slot once, beginning anywhere; else why not, and when one may be free."""
        first, soonest = int(self._room.entropy.uniform() * len(self._slots)), self.terms.ttl
        for slot in (*self._slots[first:], *self._slots[:first]):
            try:
                found = await slot.attempt()
            except StoreError as error:
                return error, _UNREACHABLE
            if isinstance(found, Busy):
                soonest = min(soonest, found.wait)
            else:
                return found
        return None, soonest

    @contextmanager
    def _watching(self, told: asyncio.Event) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self._room.backend.watch([slot.name for slot in self._slots], told.set))
            yield
