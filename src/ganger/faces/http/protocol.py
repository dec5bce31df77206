"""The server's connection, with what the server lacks: bounds on the head of a request, and on the time of both sides.

A client that sends a header a minute, or headers without end, holds a connection and memory for as long as it likes,
if nobody counts. So from the first byte of a request (and from the opening of a connection) a clock runs until the
head is whole, and its bytes are counted. What follows the head is bounded where the body is read. A client that does
not read its answer is cut off after a while: until then it fills a small buffer, and no more is written to it.

A server that is behind has no time to make something of a request only to refuse it: such a one is answered as soon as
its head is there, and what follows of it is dropped.
"""

import asyncio
from typing import Any, Final, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ganger.core.errors import GangerError, TooManyRequests
from ganger.faces.http.door import BEHIND, HttpDoor
from ganger.faces.http.express import ANSWERED, Ride, is_usual, write_answer
from ganger.faces.http.limits import PLAIN_LIMITS, HttpLimits
from ganger.faces.http.outlet import Outlet
from ganger.faces.http.problem import answer_error
from ganger.faces.http.reply import PROBLEM, Reply
from ganger.faces.http.request import ARRIVED, LET_IN, WHOLE
from ganger.faces.http.streams import StreamSocket

_RECEIVED_AT_ONCE: Final = 256 << 10
"""The tail of a body may come together with the next head, at most so much of it."""


_SOON: Final = 0.05
"""Many clients send a head and its body apart. A body that comes later than so goes the long way, which is patient."""

_DROPPED: Final = 64 << 10
"""A body that is not larger is dropped; whoever sends more is told to stop, which costs more."""


_SAID_ONCE: Final = frozenset({b"host", b"authorization", b"x-api-key"})
"""Who is called, and who calls: of two answers a proxy may believe the one and we the other."""


class _HeadTooLarge(Exception):
    """Stops the parser."""


class _SaidTwice(Exception):
    """Stops the parser."""


class GuardedProtocol(HttpToolsProtocol):
    """A connection whose requests have bounded heads."""

    limits: HttpLimits = PLAIN_LIMITS
    streams: type[StreamSocket] | None = None
    door: HttpDoor | None = None
    refusal: bytes = b""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = self._seen = 0
        self._open = True
        self._wrong = "this is not HTTP/1.1"
        self._ride: Ride | None = None
        self._slow: asyncio.TimerHandle | None = None
        self._outlet: Outlet
        self._clock: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._outlet = Outlet(transport, self.loop, self.limits.write)
        super().connection_made(cast(asyncio.Transport, self._outlet))
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self._unstick()
        self._leave_ride()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._go_long()
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unstick()
        self._stuck = self.loop.call_later(self.limits.write, self.transport.abort)

    def resume_writing(self) -> None:
        self._unstick()
        super().resume_writing()

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(self.limits.head_time, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408, "too_slow", f"the head of the request took more than {self.limits.head_time:g} s")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._seen = 0
        self._open = True
        self._stop_clock()

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        if self._head > self.limits.head:
            raise _HeadTooLarge
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """As the server does it, and counted. Spelt out for its heat."""
        self._head += len(name) + len(value)
        if self._head > self.limits.head:
            raise _HeadTooLarge
        if not self._open:
            # A trailer: it comes behind the body, where nobody has looked who sends it, and says nothing here.
            return
        name = name.lower()
        if name in _SAID_ONCE and any(name == known for known, _ in self.headers):
            self._wrong = f"the header {name.decode()} is there twice"
            raise _SaidTwice
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._open = False
        self._stop_clock()
        method = self.parser.get_method().decode("ascii")
        sheds = None if self.door is None else self.door.sheds(method, self.url)
        if sheds and self._shed():
            return
        if sheds is False:
            self.scope[LET_IN] = True  # type: ignore[typeddict-unknown-key]
        self.scope[ARRIVED] = now = self.loop.time()  # type: ignore[typeddict-unknown-key]
        way = None if self.door is None else self.door.table.find_express(method, self.url)
        if way is not None and is_usual(headers := dict(self.headers)) and self._is_plain():
            self._ride = Ride(way, headers, now, self._tell)
        else:
            super().on_headers_complete()

    def _is_plain(self) -> bool:
        """Has the connection nothing else to do, and does it stay open?"""
        idle = self.cycle is None or self.cycle.response_complete
        lasting = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        return idle and lasting and not self.flow.write_paused

    def on_body(self, body: bytes) -> None:
        if self._ride is None:
            super().on_body(body)
        else:
            self._ride.body += body

    def on_message_complete(self) -> None:
        if self._ride is not None and self.door is not None and self.door.take(self._ride):
            self.cycle = cast(RequestResponseCycle, self._leave_ride())
            return
        self._go_long()
        super().on_message_complete()
        self.scope[WHOLE] = True  # type: ignore[typeddict-unknown-key]

    def _go_long(self) -> None:
        """A request that is not for the short way begins anew, with what has come of it."""
        if (ride := self._leave_ride()) is not None:
            super().on_headers_complete()
            if ride.body:
                super().on_body(ride.body)

    def _leave_ride(self) -> Ride | None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        ride, self._ride = self._ride, None
        return ride

    def _tell(self, ride: Ride, answer: Reply | GangerError) -> None:
        assert self.door is not None
        reply = self.door.end(ride, answer)
        ride.response_complete = True
        if ride.disconnected:
            return
        self._outlet.write_whole(write_answer(reply, self.server_state.default_headers, close=not ride.keep_alive))
        if not ride.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _shed(self) -> bool:
        """Refuse the request at once, if it is a plain one."""
        said = dict(self.headers)
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or b"upgrade" in said or b"expect" in said or not self.parser.should_keep_alive():
            return False
        if not (length := said.get(b"content-length", b"0")).isdigit() or int(length) > _DROPPED:
            return False
        self.cycle = cast(RequestResponseCycle, ANSWERED)
        lines = [b"%b: %b\r\n" % pair for pair in self.server_state.default_headers]
        self._outlet.write_whole(b"".join([STATUS_LINE[429], *lines, self.refusal]))
        self.on_response_complete()
        return True

    def handle_websocket_upgrade(self) -> None:
        """Some addresses have websockets of their own sort."""
        if self.streams is not None and self.streams.plan.owns(self.url.partition(b"?")[0].decode("latin-1")):
            self.ws_protocol_class = self.streams
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._ride is not None and self._slow is None:
            self._slow = self.loop.call_later(_SOON, self._go_long)
        if self._open and not self.transport.is_closing():
            self._await_head(len(data))

    def _await_head(self, came: int) -> None:
        """A head that is not whole yet. Most come in one piece, and for those no clock is ever set."""
        if self._clock is None:
            self._start_clock()
        # The parser keeps an unfinished header to itself: until it is whole, what came counts as it came.
        self._seen += came
        if self._seen > self.limits.head + _RECEIVED_AT_ONCE:
            self._refuse(431, "payload_too_large", f"the head has more than {self.limits.head} bytes")

    def send_400_response(self, msg: str) -> None:
        if self._head > self.limits.head:
            self._refuse(431, "payload_too_large", f"the head has more than {self.limits.head} bytes")
        else:
            self._refuse(400, "bad_input", self._wrong)

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer what never became a request, and close. In the middle of another answer nothing can be said."""
        self._stop_clock()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        told = {"type": f"urn:ganger:error:{code}", "title": code.replace("_", " "), "status": status, "code": code}
        body = msgspec.json.encode(told | {"detail": detail})
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (PROBLEM, len(body))
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def guard(
    limits: HttpLimits, streams: type[StreamSocket] | None = None, door: HttpDoor | None = None
) -> type[GuardedProtocol]:
    """The protocol with these limits, in front of that door."""
    told = {"limits": limits, "streams": streams, "refusal": _write_refusal(), "door": door}
    return type("GuardedProtocol", (GuardedProtocol,), told)


def _write_refusal() -> bytes:
    reply = answer_error(TooManyRequests(BEHIND))
    return b"".join([*(b"%b: %b\r\n" % pair for pair in reply.head()), b"\r\n", reply.body])
