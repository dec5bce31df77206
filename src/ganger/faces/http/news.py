"""One reader of the events for all who follow them.

A thousand followers that each read the store would read every event a thousand times. Here one reader keeps the last
few thousand in memory, and each follower goes through them at its own pace; whoever is further behind reads the store
until it has caught up. A follower is a position and nothing else: nothing is kept for it, so a slow one costs nothing.

Nobody follows most of the time. Then nothing is read and no commit is told here, so that tasks that end by the thousand
do not pay for it; the first follower that comes has the reader begin anew, near the newest event.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from itertools import islice
from typing import Final

from ganger.core.errors import StalePage
from ganger.core.event import Event
from ganger.core.ids import Position
from ganger.engine.bell import Bell
from ganger.engine.engine import Engine
from ganger.engine.follow import Stride, find_end
from ganger.engine.store import EVENTS_TOPIC
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

KEPT: Final = 4_096
ENTRIES: Final = 200_000
"""So many tasks are named by the events that are kept: one event may name a million."""

_REST: Final = 5.0
"""Seconds after the last follower until the reader sleeps: many come again at once."""


class News(Service):
    """The events as they come. `end` is the position of the newest that was read; it lags while nobody follows."""

    def __init__(
        self, engine: Engine, *, kept: int = KEPT, entries: int = ENTRIES, telemetry: Telemetry = SILENT
    ) -> None:
        super().__init__("news", telemetry=telemetry)
        self.end = Position(0)
        self._engine = engine
        self._kept = kept
        self._most_entries = entries
        self._last: deque[Event] = deque()
        self._entries = 0
        self._floor = Position(0)
        self._placed = self._awake = False
        self._rung = asyncio.Event()
        self._waiting = 0
        self._wanted = asyncio.Event()

    async def start(self) -> None:
        """Take the place behind the newest event: whoever follows from now on misses nothing that comes."""
        if not self._placed:
            self._floor = self.end = await find_end(self._engine.store)
            self._placed = True
        await super().start()

    async def run(self) -> None:
        while True:
            self._awake = False
            await self._wanted.wait()
            with Bell(self._engine.store, (EVENTS_TOPIC,)) as bell:
                await self._skip()
                self._awake = True
                stride = Stride()
                while await self._is_wanted():
                    bell.rung.clear()
                    while page := await self._engine.events(self.end, stride.most):
                        stride.note(page)
                        for event in page:
                            self._keep(event)
                    await bell.wait()

    async def _skip(self) -> None:
        """Begin near the newest event, if much has happened since the last look."""
        newest = await find_end(self._engine.store)
        if newest > self.end + self._kept:
            self._last.clear()
            self._entries = 0
            self._floor = self.end = newest
            self._tell()

    async def _is_wanted(self) -> bool:
        """Does somebody follow, or come within a while?"""
        if self._waiting:
            return True
        self._wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REST):
                await self._wanted.wait()
        return self._wanted.is_set()

    def _keep(self, event: Event) -> None:
        self._last.append(event)
        self._entries += len(event.entries)
        while len(self._last) > self._kept or self._entries > self._most_entries:
            oldest = self._last.popleft()
            self._floor = oldest.position
            self._entries -= len(oldest.entries)
        self.end = event.position
        self._tell()

    def _tell(self) -> None:
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def wait(self, after: Position) -> None:
        """Until there is an event behind this position."""
        self._waiting += 1
        self._wanted.set()
        try:
            while self.end <= after:
                await self._rung.wait()
        finally:
            self._waiting -= 1

    async def mark(self) -> Position:
        """A place from which nothing that happens from now on is missed, and little that happened before is told."""
        return self.end if self._awake else await find_end(self._engine.store)

    async def begin(self, after: Position | None) -> Position:
        """From where on to follow; StalePage for a position that this store has not reached."""
        if after is None:
            return await find_end(self._engine.store)
        if after > self.end and after > await find_end(self._engine.store):
            raise StalePage(f"position {after} is of another store, or of one from a later day: begin again")
        return after

    async def follow(self, after: Position) -> AsyncGenerator[list[Event], None]:
        """The events behind a position, in order, some at a time, for ever. Close it when leaving early."""
        stride = Stride()
        while True:
            await self.wait(after)
            while page := await self._read(after, stride.most):
                stride.note(page)
                after = page[-1].position
                yield page

    async def _read(self, after: Position, most: int) -> list[Event]:
        if after < self._floor:
            return await self._engine.events(after, most)
        if after >= self.end:
            return []
        first = bisect_right(self._last, after, key=_position)
        return list(islice(self._last, first, first + most))


def _position(event: Event) -> Position:
    return event.position
