"""Output of a task, and events, as they come, on their way through a bridge: each piece is asked for by itself."""

import codecs
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from ganger.client.transport import TaskEvent, Transport
from ganger.core.ids import TaskId

_DECODER: Final = codecs.getincrementaldecoder("utf-8")


class Tail:
    """The output of one task, as text. A character that comes in two pieces is kept together."""

    def __init__(self, task: TaskId, streams: Sequence[str]) -> None:
        self._task = task
        self._streams = streams
        self._decoders = {stream: _DECODER("backslashreplace") for stream in streams}
        self._pieces: AsyncGenerator[tuple[str, bytes], None] | None = None

    async def take(self, transport: Transport) -> str | None:
        """The next piece, as soon as there is one; None at the end."""
        if self._pieces is None:
            self._pieces = transport.follow_output(self._task, self._streams)
        async for stream, body in self._pieces:
            if text := self._decoders[stream].decode(body):
                return text
        return "".join(decoder.decode(b"", final=True) for decoder in self._decoders.values()) or None

    async def close(self, transport: Transport) -> None:
        """Read no more."""
        if self._pieces is not None:
            await self._pieces.aclose()


class EventTail:
    """The events behind a position."""

    def __init__(self, after: int | None) -> None:
        self._after = after
        self._events: AsyncGenerator[TaskEvent, None] | None = None

    async def take(self, transport: Transport) -> TaskEvent:
        """The next one, as soon as there is one."""
        if self._events is None:
            self._events = transport.follow_events(self._after)
        return await anext(self._events)

    async def close(self, transport: Transport) -> None:
        """Read no more."""
        if self._events is not None:
            await self._events.aclose()
