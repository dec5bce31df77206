"""The application that the HTTP server runs: it lets a request in, hands it to its endpoint, and sends the answer.

In this order, so that a stranger costs as little as can be: the host that the request names (a page of another site
that resolves its own name to this machine names that), the route, the token, the scope, the parameters; only then is
a body read. Tokens come in a header that a browser sends for no other site, so no request can be forged from one.

Whatever an endpoint raises becomes a problem document. An answer is sent as fast as its client reads it: whoever reads
slowly fills a buffer of the kernel, and no memory of the server, and is cut off in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from math import ceil
from typing import Any, Final

from ganger.core.clock import Clock
from ganger.core.errors import GangerError, NotAllowed, NotAuthenticated, TooManyRequests
from ganger.faces.http.express import Headers, Ride
from ganger.faces.http.grants import Grant, Keeper, Need
from ganger.faces.http.limits import HttpLimits
from ganger.faces.http.pressure import FEW, Pressure
from ganger.faces.http.problem import answer_error
from ganger.faces.http.rates import Rates
from ganger.faces.http.reply import Answer, Reply, Streamed
from ganger.faces.http.request import ARRIVED, LET_IN, ClientGone, Receive, Request, read_query
from ganger.faces.http.routes import Route, Table
from ganger.faces.http.sockets import WEBSOCKET, deny, say_goodbye, send_messages
from ganger.faces.http.visits import Visits
from ganger.runtime.faults import name_fault
from ganger.runtime.respite import Respite
from ganger.runtime.telemetry import SILENT, Telemetry

Send = Callable[[Any], Awaitable[None]]
Scope = Mapping[str, Any]
_CLOSE: Final = (b"connection", b"close")
_LONGEST_TOKEN: Final = 200
BEHIND: Final = "more is asked for than can be done: send it again later"
_PUT_OFF: Final = frozenset({Need.SUBMIT, Need.READ})
"""What is refused by a server that is behind. Results are taken, and tasks killed, all the same."""


class HttpDoor:
    """An ASGI application over a table of routes. `hosts` are the names by which it may be called; None: by any."""

    def __init__(
        self,
        table: Table,
        keeper: Keeper,
        clock: Clock,
        visits: Visits,
        *,
        hosts: frozenset[str] | None,
        limits: HttpLimits,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self.table = table
        self.visits = visits
        self._keeper = keeper
        self._hosts = hosts
        self._limits = limits
        self._telemetry = telemetry
        self._failures = Rates(clock, limits.failures)
        self._rates = Rates(clock, limits.rate)
        self._pressures = {need: Pressure(limits.late, limits.slow) for need in _PUT_OFF}
        self._respite: Respite | None = None
        self.at_once = self._coming = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, self._limits)
        try:
            answer = await self._answer(request, scope, receive)
            if request.method == WEBSOCKET:
                await self._converse(answer, request, receive, send)
            elif isinstance(answer, Streamed):
                await self._stream(answer, request, scope, receive, send)
            else:
                await self._write(answer, request, send)
        except ClientGone:
            # Whoever has gone is told nothing.
            return

    async def _answer(self, request: Request, scope: Scope, receive: Receive) -> Answer:
        try:
            return await self._serve(request, scope, receive)
        except GangerError as error:
            return self._word(error, scope["path"])
        except ClientGone:
            raise
        except Exception as error:
            self._telemetry.event("request_failed", path=scope["path"], error=name_fault(error))
            return answer_error(GangerError("an error that nobody expected"))

    def _word(self, error: GangerError, path: str) -> Reply:
        answer = answer_error(error)
        if answer.status == 500:
            self._telemetry.event("request_failed", path=path, error=name_fault(error))
        return answer

    async def _serve(self, request: Request, scope: Scope, receive: Receive) -> Answer:
        self._check_host(request.headers)
        route, request.values = self.table.find(request.method, scope["raw_path"])
        request.grant = self._admit(route, request, scope)
        request.query = read_query(scope["query_string"], route.parameters)
        if route.waits in request.query:
            await request.load()
            return await self.visits.attend(_call(route, request), request.grant, receive)
        if self.at_once >= min(self._limits.crowd, self._limits.at_once):
            self._refuse_if_behind(route, scope)
        return await self._hurry(route, request, scope)

    def sheds(self, method: str, url: bytes) -> bool | None:
        """Is a request that comes this moment refused, whoever sends it? Asked before anything is made of it.

        None: that is to be seen when it begins.
        """
        loop = asyncio.get_running_loop()
        crowded = self.at_once + self._coming >= min(self._limits.crowd, self._limits.at_once)
        if not crowded and self._coming < FEW:
            self._count(loop)
            return None
        route = self.table.find_whole(method, url)
        if route is None or (pressure := self._pressures.get(route.need)) is None:
            return None
        if self._is_too_much(pressure, loop.time(), crowded):
            self._rest(loop)
            return True
        self._count(loop)
        return self.at_once >= self._limits.at_once if crowded else None

    def _is_too_much(self, pressure: Pressure, now: float, crowded: bool) -> bool:
        if crowded and pressure.is_full(self.at_once + self._coming, now):
            return True
        return pressure.is_hasty(self._coming, now)

    def _count(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those that come in one turn of the loop begin at the next, and are counted until then."""
        if not self._coming:
            loop.call_soon(self._begin_turn)
        self._coming += 1

    def _begin_turn(self) -> None:
        self._coming = 0

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leave the processor to those who work: whoever is refused can wait for a few milliseconds."""
        if self._respite is None:
            self._respite = Respite(loop, self._limits.respite)
        self._respite.ask()

    def _refuse_if_behind(self, route: Route, scope: Scope) -> None:
        """Beyond what can be done at once a refusal is quicker than a queue."""
        if self.at_once >= self._limits.at_once:
            raise TooManyRequests(f"{self.at_once} requests are being served: send it again later")
        arrived, pressure = scope.get(ARRIVED), self._pressures.get(route.need)
        if arrived is None or pressure is None:
            return
        now = asyncio.get_running_loop().time()
        if pressure.is_behind(now):
            refused = LET_IN not in scope and pressure.is_full(self.at_once, now)
        else:
            refused = pressure.is_late(arrived, now)
        if refused:
            raise TooManyRequests(BEHIND)

    async def _hurry(self, route: Route, request: Request, scope: Scope) -> Answer:
        self.at_once += 1
        try:
            return await route.endpoint(request)
        finally:
            self._note_end(route.need, scope.get(ARRIVED))

    def _note_end(self, need: Need, arrived: float | None) -> None:
        """A request is done."""
        self.at_once -= 1
        if arrived is None or self.at_once < self._limits.crowd // 2:
            return
        if (pressure := self._pressures.get(need)) is not None:
            pressure.note(arrived, asyncio.get_running_loop().time())

    def take(self, ride: Ride) -> bool:
        """Serve a request on its short way; False if it must go the long one: then nothing was done."""
        grant = None if self._misnamed(ride.headers) is not None else self._find_quickly(ride.headers)
        if grant is None or not self._may_ride(grant, ride.way.need) or not self._try(grant, ride):
            return False
        self.at_once += 1
        return True

    def _find_quickly(self, headers: Headers) -> Grant | None:
        try:
            return self._find_grant(headers)
        except GangerError:
            # The tokens cannot be read: the long way meets it again, and answers.
            return None

    def _try(self, grant: Grant, ride: Ride) -> bool:
        try:
            return ride.way.serve(grant, ride)
        except Exception as error:
            # The long way meets it again, and answers; the parser that calls this would take it for its client's fault.
            self._telemetry.event("request_failed", path=ride.way.path, error=name_fault(error))
            return False

    def _may_ride(self, grant: Grant, need: Need) -> bool:
        rate = self._limits.rate if grant.rate is None else grant.rate
        return grant.lease is None and not rate and grant.covers(need) and self.at_once < self._limits.at_once

    def end(self, ride: Ride, answer: Reply | GangerError) -> Reply:
        """What is sent to one that was taken."""
        self._note_end(ride.way.need, ride.arrived)
        return self._word(answer, ride.way.path) if isinstance(answer, GangerError) else answer

    def _check_host(self, headers: Headers) -> None:
        if (name := self._misnamed(headers)) is not None:
            raise NotAllowed(f"this server is not called {name!r:.80}: see the setting hosts", host=name[:200])

    def _misnamed(self, headers: Headers) -> str | None:
        """By which name the server is called, if that is none of its own."""
        if self._hosts is None:
            return None
        said = headers.get(b"host", b"").decode("latin-1").lower()
        name = said[: said.index("]") + 1] if said.startswith("[") and "]" in said else said.partition(":")[0]
        return None if name in self._hosts else name

    def _admit(self, route: Route, request: Request, scope: Scope) -> Grant:
        if route.need is Need.OPEN:
            return request.grant
        grant = self._find_grant(request.headers)
        if grant is None:
            raise self._turn_away(str((scope.get("client") or ("",))[0]))
        if not (route.family if grant.lease is not None else grant.covers(route.need)):
            raise NotAllowed(f"the token {grant.name!r} lacks the scope {route.need.value!r}", scope=route.need.value)
        self._slow_down(grant)
        return grant

    def _slow_down(self, grant: Grant) -> None:
        """Each token has its own measure, so that one busy client leaves room for the others."""
        rate = self._limits.rate if grant.rate is None else grant.rate
        if rate and (wait := self._rates.take(grant.id, rate)):
            seconds = ceil(wait)
            raise TooManyRequests(
                f"the token {grant.name!r} may make {rate:g} requests a second: come back in {seconds} s",
                retry_after=seconds,
            )

    def _turn_away(self, peer: str) -> GangerError:
        """Whoever tries tokens is slowed down; a good token is never held up by bad ones from the same address."""
        if self._failures.is_spent(peer):
            return TooManyRequests("too many wrong tokens from this address: wait a moment")
        self._failures.spend(peer)
        return NotAuthenticated("send a token that is known and has not expired: Authorization: Bearer <token>")

    def _find_grant(self, headers: Headers) -> Grant | None:
        said = headers.get(b"authorization", b"Bearer " + headers.get(b"x-api-key", b""))
        scheme, _, token = said.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or len(token) > _LONGEST_TOKEN:
            return None
        return self._keeper.find(token.strip())

    async def _write(self, reply: Reply, request: Request, send: Send) -> None:
        head = reply.head()
        if request.unread:
            await request.drain()
            # What is left of the body would be read and thrown away, however long it is.
            head += [_CLOSE] if request.unread else []
        await send({"type": "http.response.start", "status": reply.status, "headers": head})
        await send({"type": "http.response.body", "body": reply.body})

    async def _stream(self, reply: Streamed, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": reply.status, "headers": reply.head()})
            if request.method == "HEAD":
                await reply.pieces.aclose()
            else:
                await self.visits.attend(_send_pieces(reply, send), request.grant, receive)
        except ClientGone:
            raise
        except Exception as error:
            # The answer has begun: all that can be said is that it ends. The client asks again, and is told why.
            self._telemetry.event("stream_ended", path=scope["path"], error=name_fault(error))
        await send({"type": "http.response.body", "body": b""})

    async def _converse(self, answer: Answer, request: Request, receive: Receive, send: Send) -> None:
        if isinstance(answer, Reply):
            return await deny(answer, send)
        await send({"type": "websocket.accept"})
        sent_home = None
        try:
            await self.visits.attend(send_messages(answer, send), request.grant, receive)
        except GangerError as error:
            sent_home = error
        return await say_goodbye(send, sent_home)


async def _send_pieces(reply: Streamed, send: Send) -> None:
    async with aclosing(reply.pieces) as pieces:
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _call(route: Route, request: Request) -> Answer:
    return await route.endpoint(request)
