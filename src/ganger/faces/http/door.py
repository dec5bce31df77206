"""Lets a request in, hands it to its endpoint, and has its answer.

In this order, so that a stranger costs as little as can be: the host that the request names (a page of another site
that resolves its own name to this machine names that), the route, the token, the scope, the parameters; only then is
a body read. Tokens come in a header that a browser sends for no other site, so no request can be forged from one.

Whatever an endpoint raises becomes a problem document. An answer is sent as fast as its client reads it: whoever reads
slowly fills a buffer of the kernel, and no memory of the server, and is cut off in the end.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from math import ceil
from typing import Any, Final

from ganger.core.clock import Clock
from ganger.core.errors import GangerError, NotAllowed, NotAuthenticated, TooManyRequests
from ganger.faces.http.grants import Grant, Keeper, Need
from ganger.faces.http.limits import HttpLimits
from ganger.faces.http.pressure import FEW, Pressure
from ganger.faces.http.problem import answer_error
from ganger.faces.http.rates import Rates
from ganger.faces.http.reply import Answer, Reply
from ganger.faces.http.request import ClientGone, Request, read_query
from ganger.faces.http.routes import Route, Table
from ganger.faces.http.visits import Visits
from ganger.runtime.faults import name_fault
from ganger.runtime.respite import Respite
from ganger.runtime.telemetry import SILENT, Telemetry

Headers = Mapping[bytes, bytes]
_LONGEST_TOKEN: Final = 200
BEHIND: Final = "more is asked for than can be done: send it again later"
_PUT_OFF: Final = frozenset({Need.SUBMIT, Need.READ})
"""What is refused by a server that is behind. Results are taken, and tasks killed, all the same."""


class HttpDoor:
    """A table of routes behind its checks. `hosts` are the names by which it may be called; None: by any."""

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

    async def answer(self, request: Request) -> Answer:
        """The answer to a request, whatever becomes of it; ClientGone if nobody waits for it any more."""
        try:
            return await self._serve(request)
        except GangerError as error:
            return self._word(error, request.head.path)
        except ClientGone:
            raise
        except Exception as error:
            self._telemetry.event("request_failed", path=_show(request.head.path), error=name_fault(error))
            return answer_error(GangerError("an error that nobody expected"))

    async def accompany(self, sending: Coroutine[Any, Any, None], request: Request) -> bool:
        """Have an answer sent that has begun, until its end, or that of the client, its token or the server.

        False if it did not come to its end. ClientGone.
        """
        try:
            await self.visits.attend(sending, request.grant, request.gone)
            return True
        except ClientGone:
            raise
        except Exception as error:
            # The answer has begun: all that can be said is that it ends. The client asks again, and is told why.
            self._telemetry.event("stream_ended", path=_show(request.head.path), error=name_fault(error))
            return False

    def _word(self, error: GangerError, path: bytes) -> Reply:
        answer = answer_error(error)
        if answer.status == 500:
            self._telemetry.event("request_failed", path=_show(path), error=name_fault(error))
        return answer

    async def _serve(self, request: Request) -> Answer:
        self._check_host(request.headers)
        route, request.values = self.table.find(request.method, request.head.path)
        request.grant = self._admit(route, request)
        request.query = read_query(request.head.query, route.parameters)
        if route.waits in request.query:
            await request.load()
            return await self.visits.attend(_call(route, request), request.grant, request.gone)
        if self.at_once >= min(self._limits.crowd, self._limits.at_once):
            self._refuse_if_behind(route, request)
        return await self._hurry(route, request)

    def sheds(self, request: Request) -> bool | None:
        """Is a request that comes this moment refused, whoever sends it? Asked before anything is made of it.

        None: that is to be seen when it begins.
        """
        loop = asyncio.get_running_loop()
        crowded = self.at_once + self._coming >= min(self._limits.crowd, self._limits.at_once)
        if not crowded and self._coming < FEW:
            self._count(loop)
            return None
        route = self.table.find_whole(request.method, request.head.path)
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

    def _refuse_if_behind(self, route: Route, request: Request) -> None:
        """Beyond what can be done at once a refusal is quicker than a queue."""
        if self.at_once >= self._limits.at_once:
            raise TooManyRequests(f"{self.at_once} requests are being served: send it again later")
        if (pressure := self._pressures.get(route.need)) is None:
            return
        now = asyncio.get_running_loop().time()
        if pressure.is_behind(now):
            refused = not request.let_in and pressure.is_full(self.at_once, now)
        else:
            refused = pressure.is_late(request.head.arrived, now)
        if refused:
            raise TooManyRequests(BEHIND)

    async def _hurry(self, route: Route, request: Request) -> Answer:
        self.at_once += 1
        try:
            return await route.endpoint(request)
        finally:
            self.note_end(route.need, request.head.arrived)

    def note_end(self, need: Need, arrived: float) -> None:
        """A request is done."""
        self.at_once -= 1
        if self.at_once < self._limits.crowd // 2:
            return
        if (pressure := self._pressures.get(need)) is not None:
            pressure.note(arrived, asyncio.get_running_loop().time())

    def _check_host(self, headers: Headers) -> None:
        if self._hosts is None:
            return
        said = headers.get(b"host", b"").decode("latin-1").lower()
        name = said[: said.index("]") + 1] if said.startswith("[") and "]" in said else said.partition(":")[0]
        if name not in self._hosts:
            raise NotAllowed(f"this server is not called {name!r:.80}: see the setting hosts", host=name[:200])

    def _admit(self, route: Route, request: Request) -> Grant:
        if route.need is Need.OPEN:
            return request.grant
        grant = self._find_grant(request.headers)
        if grant is None:
            raise self._turn_away(request.head.peer)
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


async def _call(route: Route, request: Request) -> Answer:
    return await route.endpoint(request)


def _show(path: bytes) -> str:
    return path.decode("latin-1")
