"""Websockets whose messages are streams: what comes is handed on frame by piece of a frame, and so is what goes.

A message may be a payload of any size, so nobody waits until it is whole.

What can go wrong, and why this is right:

- *The endpoint is slower than the client.* What has arrived waits in a queue that is bounded: when it is full, nothing
  more is read from the connection, and the client waits.
- *The client does not read.* Whoever sends waits until there is room; a client that takes nothing for a while is cut.
- *The client is gone without a word.* It is pinged; when nothing at all has come for three pings it is cut.
- *A close is overtaken.* A connection that is closed on unread bytes is reset, and the reason is lost with it. So after
  a close what still comes is read and dropped for a moment, until the client closes too.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from ganger.core.errors import BadInput, GangerError, NotAllowed, NotFound
from ganger.faces.http.hub import Hub
from ganger.faces.http.limits import HttpLimits
from ganger.faces.http.problem import answer_error
from ganger.faces.http.request import ClientGone
from ganger.faces.http.sending import write_reply
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.websocket import frames
from ganger.wire.websocket.frames import Control, Decoder, Opcode, Piece, Violation
from ganger.wire.websocket.handshake import answer_handshake, choose_protocol

_WAITING: Final = 1 << 20
"""So many bytes wait for the endpoint before nothing more is read."""

_COPIED: Final = 1 << 15
_LINGER: Final = 2.0
_MISSED: Final = 3


class StreamSocket(asyncio.Protocol):
    """A connection that has become a websocket. `receive` says what comes, `pieces` or `text` takes it.

    `protocol` is the subprotocol that was agreed upon, `goodbye` the code with which the client has closed. `ear` is
    offered each message that comes whole while `receive` waits for one; if it says True it has dealt with it, and
    nobody is woken. It must not raise.
    """

    def __init__(self, plan: "StreamPlan", hub: Hub) -> None:
        self.plan = plan
        self.stopping = False
        self.peer = ""
        self.protocol: bytes | None = None
        self.goodbye: int | None = None
        self.ear: Callable[[Opcode, bytes], bool] | None = None
        self._loop = hub.loop
        self._hub = hub
        self._decoder: Decoder | None = None
        self._arrived: deque[Piece] = deque()
        self._waiting = 0
        self._news: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._sending = asyncio.Lock()
        self._ended = self._closing = self._paused = self._deaf = self._resting = False
        self._heard = self._loop.time()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._hub.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.connections.discard(self)
        for timer in self._timers.values():
            timer.cancel()
        self._end()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._decoder is not None:
            self._take(self._decoder, data)

    def shutdown(self) -> None:
        """The server stops: the endpoint is told, and closes."""
        self.stopping = self._deaf = True
        self._end()

    def abort(self) -> None:
        self._transport.abort()

    def _end(self) -> None:
        self._ended = True
        self._tell_news()
        self._room.set()

    def _tell_news(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def open(self, headers: Mapping[bytes, bytes], endpoint: "StreamEndpoint | None", rest: bytes) -> None:
        """Answer the request for a websocket, and let the endpoint serve it. `rest` has come behind the head."""
        try:
            self.plan.check(headers)
            if endpoint is None:
                raise NotFound("nothing is here; /docs lists the addresses of this server")
            self.protocol = choose_protocol(headers, self.plan.protocols)
            answer = answer_handshake(headers, self.protocol)
        except GangerError as error:
            self._transport.write(write_reply(answer_error(error), close=True))
            self._transport.close()
            return
        self._decoder = Decoder(self.plan.largest)
        self._transport.write(answer)
        self._hub.spawn(self._serve(endpoint))
        self._ping()
        if rest:
            self.data_received(rest)

    async def _serve(self, endpoint: "StreamEndpoint") -> None:
        try:
            await endpoint(self)
        except ClientGone:
            self._transport.abort()
        except Exception as error:
            self.plan.telemetry.event("request_failed", path="websocket", error=name_fault(error))
            self.close(frames.BROKEN, "an error that nobody expected")
        self.close(frames.NORMAL, "")

    def _take(self, decoder: Decoder, data: bytes) -> None:
        try:
            found = [] if self._deaf else decoder.feed(data)
        except Violation as wrong:
            self._deaf = True
            self.close(wrong.code, wrong.reason)
            return
        for one in found:
            if isinstance(one, Control):
                self._heed(one)
            elif not self._closing and not self._is_overheard(one):
                self._arrived.append(one)
                self._waiting += len(one.data)
        if self._arrived:
            self._tell_news()
        if self._waiting > _WAITING and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _is_overheard(self, piece: Piece) -> bool:
        if self.ear is None or not self._resting or not piece.ended or self._arrived or self._ended:
            return False
        return self.ear(piece.opcode, piece.data)

    def _heed(self, control: Control) -> None:
        if control.opcode is Opcode.PING and not self._closing and self._room.is_set():
            self._transport.write(frames.encode(Opcode.PONG, control.data))
        elif control.opcode is Opcode.CLOSE:
            self.goodbye = int.from_bytes(control.data[:2], "big")
            if not self._closing:
                self._transport.write(frames.encode(Opcode.CLOSE, control.data[:2]))
            self._end()
            self._transport.close()

    async def receive(self) -> Opcode | None:
        """What the next message is, text or binary; None when nothing more comes."""
        self._resting = True
        await self._await_piece()
        self._resting = False
        return None if not self._arrived else self._arrived[0].opcode

    async def _await_piece(self) -> None:
        while not self._arrived and not self._ended:
            self._news = self._loop.create_future()
            await self._news

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The content of the message that `receive` has told. ClientGone if it never becomes whole."""
        ended = False
        while not ended:
            await self._await_piece()
            if not self._arrived:
                raise ClientGone
            piece = self._pop()
            ended = piece.ended
            yield piece.data

    def _pop(self) -> Piece:
        piece = self._arrived.popleft()
        self._waiting -= len(piece.data)
        if self._paused and self._waiting <= _WAITING // 2:
            self._paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()
        return piece

    def take_whole(self) -> bytes | None:
        """The message that `receive` has told, if all of it came at once; most do."""
        return self._pop().data if self._arrived and self._arrived[0].ended else None

    async def text(self, most: int) -> bytes:
        """A text message, whole. Violation if it is longer than that, or no UTF-8."""
        whole = self.take_whole()
        if whole is None:
            whole = await self._join(most)
        if len(whole) > most:
            raise Violation(frames.TOO_BIG, f"a text message has {most} bytes at most")
        try:
            whole.decode()
        except UnicodeDecodeError:
            raise Violation(frames.BAD_TEXT, "a text message is not UTF-8") from None
        return whole

    async def _join(self, most: int) -> bytes:
        """The pieces of a message, until they are more than that."""
        whole = bytearray()
        async for piece in self.pieces():
            whole += piece
            if len(whole) > most:
                break
        return bytes(whole)

    async def send_text(self, text: bytes) -> None:
        await self._send(frames.encode(Opcode.TEXT, text))

    async def _send(self, message: bytes) -> None:
        """Write at once what can be."""
        if not self.is_free:
            async with self._sending:
                return await self._write(message)
        return self._put(message)

    @property
    def is_free(self) -> bool:
        """Is the client here, nobody in the middle of a message, and is there room?"""
        return not (self._ended or self._closing or self._sending.locked()) and self._room.is_set()

    @property
    def unsent(self) -> int:
        """How many bytes wait for the client."""
        return self._transport.get_write_buffer_size()

    def send_now(self, frame: bytes) -> None:
        """A frame that is a message, as it goes on the wire, if the connection `is_free`. ClientGone if it is gone."""
        if self._ended or self._closing:
            raise ClientGone
        self._transport.write(frame)

    async def send_binary(self, content: AsyncIterator[bytes]) -> None:
        """One binary message, a frame for each piece, as fast as the client takes them. ClientGone if it is gone."""
        async with self._sending:
            opcode, held = Opcode.BINARY, b""
            first = True
            async for piece in content:
                if not first:
                    await self._write(*_frame(opcode, held, fin=False))
                    opcode = Opcode.CONTINUATION
                held, first = piece, False
            await self._write(*_frame(opcode, held, fin=True))

    async def _write(self, *parts: bytes) -> None:
        await self._room.wait()
        for part in parts:
            self._put(part)

    def _put(self, data: bytes) -> None:
        if self._ended or self._closing:
            raise ClientGone
        self._transport.write(data)

    def pause_writing(self) -> None:
        self._room.clear()
        self._set_timer("stuck", self.plan.limits.write, self._transport.abort)

    def resume_writing(self) -> None:
        self._timers.pop("stuck").cancel()
        self._room.set()

    def _set_timer(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        if (old := self._timers.pop(name, None)) is not None:
            old.cancel()
        self._timers[name] = self._loop.call_later(seconds, then)

    def _ping(self) -> None:
        """Keep the way open through whatever lies between, and notice that nobody is there any more."""
        beat = self.plan.limits.beat
        if not self._paused and self._loop.time() - self._heard > _MISSED * beat:
            self._transport.abort()
            return
        if not self._closing and self._room.is_set():
            self._transport.write(frames.encode(Opcode.PING, b""))
        self._set_timer("ping", beat, self._ping)

    def close(self, code: int, reason: str) -> None:
        """Say goodbye. What still comes is dropped; the connection ends when the client closes too, or soon."""
        if self._closing or self._transport.is_closing():
            return
        self._closing = True
        self._transport.write(frames.encode_close(code, reason))
        self._arrived.clear()
        self._end()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._set_timer("linger", _LINGER, self._transport.abort)


StreamEndpoint = Callable[[StreamSocket], Coroutine[Any, Any, None]]


class StreamPlan(NamedTuple):
    """Which addresses are such websockets, and what is asked of those who come. `largest` bounds one frame.

    `protocols` are the subprotocols that are spoken there, besides that of a client that offers none.
    """

    find: Callable[[str], StreamEndpoint | None]
    owns: Callable[[str], bool]
    hosts: frozenset[str] | None
    limits: HttpLimits
    largest: int
    protocols: frozenset[bytes] = frozenset()
    telemetry: Telemetry = SILENT

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """A browser says from which page a websocket is opened: only those of this server may."""
        if self.hosts is None:
            return
        named = [f"//{headers.get(b'host', b'').decode('latin-1')}"]
        named += [headers[b"origin"].decode("latin-1")] if b"origin" in headers else []
        for address in named:
            if _name_host(address) not in self.hosts:
                raise NotAllowed(f"this server is not called {address!r:.80}: see the setting hosts")


def _frame(opcode: Opcode, data: bytes, *, fin: bool) -> tuple[bytes, ...]:
    """A frame in parts: to put the head before what is large would be to copy it."""
    if len(data) > _COPIED:
        return frames.encode_head(opcode, len(data), fin=fin), data
    return (frames.encode(opcode, data, fin=fin),)


def _name_host(address: str) -> str:
    try:
        name = urlsplit(address).hostname or ""
    except ValueError:
        raise BadInput("the header Host or Origin is no address") from None
    return f"[{name}]" if ":" in name else name
