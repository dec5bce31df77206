"""What a task wrote: a range of bytes as they are, or a stream of events that goes on until the task has ended.

The id of an event is the attempt and the offset behind it, so a reader that comes back goes on there: first with the
rest of that attempt, and then with those that came after it.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadCursor, BadInput
from ganger.core.ids import Fence, TaskId
from ganger.faces.http.reply import BYTES, Answer, Reply, Streamed
from ganger.faces.http.request import Request
from ganger.faces.http.sse import LAST_SEEN, keep_alive, write_named
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.flags import read_flag, read_limit
from ganger.wire.v1.pages import read_offset
from ganger.wire.v1.specs import STREAMS
from ganger.wire.v1.values import Shown, show_piece
from ganger.wire.v1.words import name_state

PARAMETERS: Final = frozenset({"stream", "attempt", "offset", "limit", "follow"})
STDOUT: Final = "stdout"
_KNOWN: Final = (*STREAMS, "log")
_PLACE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)


class Place(NamedTuple):
    """How far a reader is: in which attempt (None: the newest), and behind how many bytes."""

    fence: Fence | None
    offset: int


class Logs:
    """The endpoint `/v1/nodes/{id}/logs`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def read(self, request: Request) -> Answer:
        """A part of one stream as it is, or with `follow` as events until the task has ended."""
        task, asked = await self._backend.find_task(await self._backend.reach(request)), request.query
        stream, place = _read_stream(asked.get("stream", STDOUT)), _read_place(request)
        if read_flag(asked, "follow"):
            alone = "attempt" in asked
            return Streamed(keep_alive(self._follow(task.id, stream, place, alone), self._backend.limits.beat))
        most = read_limit(asked.get("limit"), self._backend.limits.piece)
        if place.fence in {None, task.fence}:
            await self._backend.hear(task, stream, place.offset)
        part = await self._engine.read_output(task.id, stream, place.offset, most, place.fence)
        following = place.offset + len(part.body)
        done = b"true" if part.ended and following >= part.size else b"false"
        told = ((b"ganger-size", b"%d" % part.size), (b"ganger-next", b"%d" % following), (b"ganger-ended", done))
        return Reply(200, part.body, BYTES, told)

    async def _follow(self, task: TaskId, stream: str, place: Place, alone: bool) -> AsyncGenerator[bytes, None]:
        """`alone`: of that attempt and no other."""
        if place.fence is not None:
            async for message in self._write(task, stream, place):
                yield message
        if not alone:
            newest = (await self._backend.find_task(task)).fence
            if place.fence is None or newest > place.fence:
                async for message in self._write(task, stream, Place(None, 0 if place.fence else place.offset)):
                    yield message
        state = name_state((await self._backend.find_task(task)).status)
        yield write_named("end", msgspec.json.encode({"id": str(task), "state": state}), None)

    async def _write(self, task: TaskId, stream: str, place: Place) -> AsyncGenerator[bytes, None]:
        rest, attempt, at = b"", Fence(0), 0
        async with aclosing(self._engine.follow_output(task, (stream,), place.offset, place.fence)) as heard:
            async for part in heard:
                if part.fence != attempt and rest:
                    yield _message(attempt, stream, at, show_piece(rest, None, whole=True))
                if part.fence != attempt:
                    rest, attempt, at = b"", part.fence, part.start
                rest += part.body
                shown = show_piece(rest, None, whole=False)
                if shown.used:
                    yield _message(attempt, stream, at, shown)
                rest, at = rest[shown.used :], at + shown.used
        if rest:
            yield _message(attempt, stream, at, show_piece(rest, None, whole=True))


def _message(attempt: Fence, stream: str, start: int, shown: Shown) -> bytes:
    told: dict[str, Any] = {"stream": stream, "attempt": attempt, "offset": start}
    told |= {"data": shown.data, "encoding": shown.encoding}
    return write_named("output", msgspec.json.encode(told), f"{attempt}-{start + shown.used}")


def _read_stream(said: str) -> str:
    if said not in _KNOWN:
        raise BadInput(f"{said!r:.80} is no stream; use one of {', '.join(_KNOWN)}", field="stream")
    return said


def _read_place(request: Request) -> Place:
    """Where to begin: behind what was seen last, or at `offset` of `attempt`."""
    if seen := request.headers.get(LAST_SEEN, b"").decode("latin-1"):
        found = _PLACE.fullmatch(seen)
        if found is None:
            raise BadCursor(f"{seen!r:.80} is not the id of an event of this stream", field="Last-Event-ID")
        return Place(Fence(int(found[1])), int(found[2]))
    attempt = request.query.get("attempt")
    fence = None if attempt is None else Fence(read_offset(attempt, "attempt"))
    return Place(fence, read_offset(request.query.get("offset", "0"), "offset"))
