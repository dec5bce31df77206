"""What happens, as a stream: of everything, of a queue, of some tasks, or of all below one."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Final

import msgspec

from ganger.core.errors import BadInput
from ganger.core.event import Event
from ganger.core.ids import Position
from ganger.engine.descent import Descent
from ganger.engine.follow import EVERYTHING, Wanted, narrow
from ganger.faces.http.reply import Answer, Streamed
from ganger.faces.http.request import Request
from ganger.faces.http.sse import find_place, keep_alive, write_event
from ganger.faces.v1.backend import Backend
from ganger.wire.v1.answers import Names, tell_event
from ganger.wire.v1.words import read_id, read_ids

PARAMETERS: Final = frozenset({"root", "queue", "id", "after"})
_NODES: Final = 1_000
"""So many tasks are in one message; only the last message of an event has its id, so none is left out by a resume."""

_KEPT: Final = 1_024
Sieve = Callable[[Event], Awaitable[Event | None]]


class Events:
    """The endpoint `/v1/events`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._written: OrderedDict[Position, bytes] = OrderedDict()

    async def stream(self, request: Request) -> Answer:
        """Events from now on, or behind the one that was seen last, as server-sent events."""
        sieve, after = await self._begin(request)
        return Streamed(keep_alive(self._pieces(after, sieve), self._backend.limits.beat))

    async def converse(self, request: Request) -> Answer:
        """The same over a websocket, each event a message."""
        sieve, after = await self._begin(request)
        return Streamed(self._messages(after, sieve))

    async def _begin(self, request: Request) -> tuple[Sieve | None, Position]:
        sieve = await self._choose(request.query)
        return sieve, await self._backend.news.begin(find_place(request))

    async def _messages(self, after: Position, sieve: Sieve | None) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._events(after, sieve)) as found:
            async for event, queues in found:
                for part, last in cut(event):
                    yield msgspec.json.encode(tell_event(part, queues) | ({} if last else {"more": True}))

    async def _choose(self, asked: dict[str, str]) -> Sieve | None:
        """What lets the wanted events through; None for all of them."""
        if "root" in asked:
            if "id" in asked:
                raise BadInput("give root or id, not both", field="root")
            descent = Descent(self._backend.engine.store, read_id(asked["root"], "root"))
            await descent.open()
            return descent.narrow
        wanted = EVERYTHING
        if "queue" in asked:
            wanted = wanted._replace(queues=frozenset({(await self._backend.engine.queues.named(asked["queue"])).id}))
        if "id" in asked:
            wanted = wanted._replace(tasks=frozenset(read_ids(asked["id"])))
        return None if wanted == EVERYTHING else _sieve(wanted)

    async def _events(self, after: Position, sieve: Sieve | None) -> AsyncGenerator[tuple[Event, Names], None]:
        async with aclosing(self._backend.news.follow(after)) as pages:
            async for page in pages:
                queues = await self._backend.name_queues()
                for event in page:
                    seen = event if sieve is None else await sieve(event)
                    if seen is not None:
                        yield seen, queues

    async def _pieces(self, after: Position, sieve: Sieve | None) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._events(after, sieve)) as found:
            async for event, queues in found:
                for part in self._write(event, queues, shared=sieve is None):
                    yield part

    def _write(self, event: Event, queues: Names, shared: bool) -> Iterator[bytes]:
        """The messages of an event, one after the other; a small one that many read is written once for all."""
        if len(event.entries) > _NODES:
            yield from (write_part(part, queues, last) for part, last in cut(event))
        elif not shared:
            yield write_part(event, queues)
        elif (known := self._written.get(event.position)) is not None:
            yield known
        else:
            known = self._written[event.position] = write_part(event, queues)
            while len(self._written) > _KEPT:
                self._written.popitem(last=False)
            yield known


def cut(event: Event) -> Iterator[tuple[Event, bool]]:
    """An event of many tasks in parts, each with whether it is the last."""
    entries = event.entries
    for start in range(0, len(entries) or 1, _NODES):
        yield event._replace(entries=entries[start : start + _NODES]), start + _NODES >= len(entries)


def write_part(event: Event, queues: Names, last: bool = True) -> bytes:
    data = msgspec.json.encode(tell_event(event, queues))
    return write_event(event.fact.value, data, int(event.position) if last else None)


def _sieve(wanted: Wanted) -> Sieve:
    async def sift(event: Event) -> Event | None:
        return narrow(event, wanted)

    return sift
