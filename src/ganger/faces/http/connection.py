"""One client's connection: its requests are read one by one, each is served, and the answers go out in their order.

What can go wrong, and why this is right:

- *A head that never ends.* From the opening of a connection, and from the first byte of each head that does not come in
  one piece, a clock runs until the head is whole, and its bytes are counted. Bodies are bounded where they are read.
- *A client that does not read.* Its answer fills a buffer, then nothing more is written, and after a while it is cut.
- *Requests before their turn.* A client may send the next before it has the answer to the last. While one waits,
  nothing more is read.
- *More than can be done.* A server that is behind has no time to make something of a request only to refuse it: such a
  one is answered as soon as its head is there, and what follows of it is dropped.
- *Headers of two minds.* Behind the body nobody looks who sends it, so trailers are dropped. Of two hosts or tokens a
  proxy may believe the one and we the other, so they are refused.
"""

import asyncio
from collections import deque
from contextlib import aclosing
from typing import Final, cast

import httptools
import msgspec

from ganger.core.errors import TooManyRequests
from ganger.faces.http.door import BEHIND, HttpDoor
from ganger.faces.http.hub import Deadline, Hub
from ganger.faces.http.problem import answer_error
from ganger.faces.http.reply import PROBLEM, Reply, Streamed
from ganger.faces.http.request import WEBSOCKET, ClientGone, Head, Request
from ganger.faces.http.sending import CONTINUE, LAST_CHUNK, write_chunk, write_head, write_reply
from ganger.faces.http.sockets import tell_messages
from ganger.faces.http.streams import StreamPlan, StreamSocket

_RECEIVED_AT_ONCE: Final = 256 << 10
"""The tail of a body may come together with the next head, at most so much of it."""

_DROPPED: Final = 64 << 10
"""The body of a refused request is read over if it is not larger; whoever sends more is told to stop."""

_SAID_ONCE: Final = frozenset({b"host", b"authorization", b"x-api-key"})
_WISHES: Final = frozenset({b"upgrade", b"connection"})
_LENGTH: Final = b"content-length"
_REFUSAL: Final = answer_error(TooManyRequests(BEHIND))


class _Wrong(Exception):
    """Stops the parser."""


class Connection(asyncio.Protocol):
    """A connection from its opening to its end, or until it becomes a websocket."""

    def __init__(self, hub: Hub, door: HttpDoor, streams: StreamPlan) -> None:
        self._hub = hub
        self._door = door
        self._streams = streams
        self._limits = streams.limits
        self._loop = hub.loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._peer = ""
        self._deadline = Deadline(hub.loop)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head = self._seen = 0
        self._in_head = True
        self._wrong = "this is not HTTP/1.1"
        self._taking: Request | None = None
        self._serving: Request | None = None
        self._waiting: deque[Request] = deque()
        self._room: asyncio.Future[None] | None = None
        self._full = self._last = self._invites = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._hub.connections.add(self)
        self._deadline.set(self._limits.head_time, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.connections.discard(self)
        self._deadline.stop()
        self._last = True
        for request in (self._taking, self._serving, *self._waiting):
            if request is not None:
                request.lose()
        self._waiting.clear()
        self._make_room()

    def eof_received(self) -> bool:
        """A client that has said all may still read; one that is silent for good is noticed when it is written to."""
        return False

    def pause_writing(self) -> None:
        self._full = True
        self._deadline.set(self._limits.write, self._transport.abort)

    def resume_writing(self) -> None:
        self._full = False
        self._deadline.clear()
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _await_room(self) -> None:
        """Wait until the client has read what it was sent. ClientGone."""
        while self._full and not self._transport.is_closing():
            self._room = self._loop.create_future()
            await self._room
        if self._transport.is_closing():
            raise ClientGone

    def shutdown(self) -> None:
        """Answer what has begun, and close."""
        self._last = True
        if self._serving is None:
            self._close()

    def abort(self) -> None:
        self._transport.abort()

    def _close(self) -> None:
        """End the connection when the client has read what it was sent, or after a while."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._deadline.set(self._limits.write, self._transport.abort)
        else:
            self._deadline.clear()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._switch(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse_wrong()
            return
        if self._in_head and not self._transport.is_closing():
            self._await_head(len(data))

    def _await_head(self, came: int) -> None:
        """A head that is not whole yet. Most come in one piece, and for those no clock is ever set."""
        if not self._seen:
            self._deadline.set(self._limits.head_time, self._give_up)
        # The parser keeps an unfinished header to itself: until it is whole, what came counts as it came.
        self._seen += came
        if self._seen > self._limits.head + _RECEIVED_AT_ONCE:
            self._refuse_large()

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._head = self._seen = 0
        self._in_head, self._invites = True, False

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if not self._in_head:
            return
        name = name.lower()
        if name in _SAID_ONCE and any(name == known for known, _ in self._headers):
            self._wrong = f"the header {name.decode()} is there twice"
            raise _Wrong
        self._headers.append((name, value))

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self._limits.head:
            raise _Wrong

    def on_headers_complete(self) -> None:
        self._in_head = False
        if not self._full:
            self._deadline.clear()
        if self._parser.should_upgrade() and not self._wants_socket():
            return
        request = self._read_head()
        if request.method == WEBSOCKET:
            self._taking = request
            return
        if self._serving is not None:
            self._taking = request
            self._waiting.append(request)
            self._transport.pause_reading()
            return
        sheds = self._door.sheds(request)
        if sheds and self._may_drop(request):
            self._taking = None
            self._transport.write(write_reply(_REFUSAL, self._hub.date, close=False))
            return
        self._taking = request
        request.let_in = sheds is False
        self._begin(request)

    def _wants_socket(self) -> bool:
        return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in self._headers)

    def _read_head(self) -> Request:
        headers = dict(self._headers)
        method = WEBSOCKET if self._parser.should_upgrade() else self._parser.get_method().decode("ascii")
        path, query = _split(self._url)
        self._invites = headers.get(b"expect", b"").lower() == b"100-continue"
        version = self._parser.get_http_version()
        keep, now = self._parser.should_keep_alive(), self._loop.time()
        head = Head(method, path, query, headers, self._peer, now, keep, chunked=version != "1.0")
        return Request(head, self._limits, self)

    def _may_drop(self, request: Request) -> bool:
        """Is what follows of a request that is refused small enough to read over it?"""
        length = request.headers.get(_LENGTH, b"0")
        known = b"transfer-encoding" not in request.headers and length.isdigit()
        return request.head.keep_alive and not self._invites and known and int(length) <= _DROPPED

    def on_body(self, body: bytes) -> None:
        if self._taking is not None:
            self._taking.feed(body)

    def on_message_complete(self) -> None:
        if self._taking is not None and self._taking.method != WEBSOCKET:
            self._taking.end()
            self._taking = None

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self._waiting and not self._transport.is_closing():
            self._transport.resume_reading()

    def invite(self) -> None:
        if self._invites:
            self._invites = False
            self._transport.write(CONTINUE)

    def _begin(self, request: Request) -> None:
        self._serving = request
        self._hub.spawn(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            answer = await self._door.answer(request)
            if isinstance(answer, Streamed):
                await self._stream(answer, request)
            else:
                await self._write(answer, request)
        except ClientGone:
            # Whoever has gone is told nothing.
            self._transport.abort()
        finally:
            self._go_on()

    async def _write(self, reply: Reply, request: Request) -> None:
        if request.unread:
            await request.drain()
        # What is left of the body would be read and thrown away, however long it is.
        self._last |= request.unread or not request.head.keep_alive
        if self._transport.is_closing():
            raise ClientGone
        bodiless = request.method == "HEAD"
        self._transport.write(write_reply(reply, self._hub.date, close=self._last, bodiless=bodiless))
        if self._full:
            await self._await_room()

    async def _stream(self, reply: Streamed, request: Request) -> None:
        head = reply.head()
        sized = any(name == _LENGTH for name, _ in head)
        chunked = not sized and request.head.chunked
        self._last |= request.unread or not request.head.keep_alive or not (sized or chunked)
        self._transport.write(write_head(reply.status, head, self._hub.date, close=self._last, chunked=chunked))
        if request.method == "HEAD":
            await reply.pieces.aclose()
            return
        whole = await self._door.accompany(self._send_pieces(reply, chunked), request)
        if chunked:
            self._transport.write(LAST_CHUNK)
        elif not whole:
            # A client that was told a length sees that it is not all.
            raise ClientGone

    async def _send_pieces(self, reply: Streamed, chunked: bool) -> None:
        async with aclosing(reply.pieces) as pieces:
            async for piece in pieces:
                await self._await_room()
                if not chunked:
                    self._transport.write(piece)
                elif piece:
                    self._transport.writelines(write_chunk(piece))

    def _go_on(self) -> None:
        """With the next request, if it is there already."""
        self._serving = None
        if self._transport.is_closing():
            return
        if self._last:
            self._close()
        elif self._waiting:
            request = self._waiting.popleft()
            self._begin(request)
            self.resume()
        elif not self._in_head:
            self._deadline.set(self._limits.idle, self._close)

    def _give_up(self) -> None:
        if not self._transport.is_closing():
            self._refuse(408, "too_slow", f"the head of the request took more than {self._limits.head_time:g} s")

    def _refuse_wrong(self) -> None:
        if self._head > self._limits.head:
            self._refuse_large()
        else:
            self._refuse(400, "bad_input", self._wrong)

    def _refuse_large(self) -> None:
        self._refuse(431, "payload_too_large", f"the head has more than {self._limits.head} bytes")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer what never became a request, and close. In the middle of another answer nothing can be said."""
        if self._serving is not None:
            self._transport.abort()
            return
        told = {"type": f"urn:ganger:error:{code}", "title": code.replace("_", " "), "status": status, "code": code}
        reply = Reply(status, msgspec.json.encode(told | {"detail": detail}), PROBLEM)
        self._transport.write(write_reply(reply, close=True))
        self._close()

    def _switch(self, rest: bytes) -> None:
        """The client asked for another protocol, and the parser has read no further than that."""
        request, self._taking = self._taking, None
        if request is None:
            self._read_again(rest)
            return
        if self._serving is not None:
            # The answer before it would stand in the middle of its frames.
            self._transport.abort()
            return
        if self._streams.owns(path := request.head.path.decode("latin-1")):
            self._become_socket().open(request.headers, self._streams.find(path), rest)
            return
        self._serving = request
        self._transport.pause_reading()
        self._hub.spawn(self._open_socket(request, rest))

    def _read_again(self, rest: bytes) -> None:
        """What is no websocket is not spoken here: the request is read as if that had not been wished for."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            self._refuse(400, "bad_input", "this server is no proxy")
            return
        first = b"%b %b HTTP/%b\r\n" % (method, self._url, self._parser.get_http_version().encode())
        kept = [pair for pair in self._headers if pair[0] not in _WISHES]
        if any(name == b"connection" and b"close" in value.lower() for name, value in self._headers):
            kept.append((b"connection", b"close"))
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([first, *(b"%b: %b\r\n" % pair for pair in kept), b"\r\n", rest]))

    async def _open_socket(self, request: Request, rest: bytes) -> None:
        answer = await self._door.answer(request)
        self._serving = None
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        if isinstance(answer, Reply):
            self._transport.write(write_reply(answer, self._hub.date, close=True))
            self._close()
            return
        endpoint = tell_messages(answer, request.grant, self._door.visits)
        self._become_socket().open(request.headers, endpoint, rest)

    def _become_socket(self) -> StreamSocket:
        self._hub.connections.discard(self)
        self._deadline.stop()
        socket = StreamSocket(self._streams, self._hub)
        self._transport.set_protocol(socket)
        socket.connection_made(self._transport)
        return socket


def _split(url: bytes) -> tuple[bytes, bytes]:
    """The path and what stands behind its question mark."""
    if not url.startswith(b"/"):
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise _Wrong from None
        return parsed.path or b"/", parsed.query or b""
    path, _, query = url.partition(b"#")[0].partition(b"?")
    return path, query
