"""Wake-ups from afar: one request waits at the server for all who listen here."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from ganger.assembly.remote.link import Link
from ganger.core.errors import GangerError
from ganger.wire.v1.remote import LONGEST_WAIT, TOPICS, BellAsk

_REST: Final = 0.2
"""Seconds between two answers at least: a busy store rings all the time."""

_TROUBLE: Final = 0.5
RESET: Final = "reset"


class RemoteBells:
    """Rings those who listen. Asks the server only from the first listener on; nothing is right because of it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._listeners: dict[object, tuple[frozenset[str], Callable[[str], None]]] = {}
        self._asking: asyncio.Task[None] | None = None

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        mark = object()
        self._listeners[mark] = (frozenset(topics), told)
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())

        def stop() -> None:
            self._listeners.pop(mark, None)

        return stop

    async def close(self) -> None:
        self._listeners.clear()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        seen: dict[str, int] = {}
        while True:
            try:
                counts = await self._link.ask("/v1/engine/bell", dict[str, int], BellAsk(seen), wait=LONGEST_WAIT)
            except GangerError:
                # Nobody may have heard for a while: all look for themselves.
                seen = {}
                await asyncio.sleep(_TROUBLE)
                continue
            rung = {topic for topic in TOPICS if counts.get(topic) != seen.get(topic)}
            seen = counts
            self._ring(rung)
            await asyncio.sleep(_REST)

    def _ring(self, rung: set[str]) -> None:
        for topics, told in list(self._listeners.values()):
            for topic in topics & rung:
                told(topic)
