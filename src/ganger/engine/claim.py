"""A holder asks for tasks. What it does not take away is given back.

A claim that was asked for is made, whether or not the one who asked still waits for the answer: the connection broke,
the caller was cancelled. The lease of such a task would live as long as its node does, and nobody would run it. So the
question outlives the one who asked, and what comes of it is released at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, GangerError
from ganger.core.outcome import Release, settle
from ganger.core.task import Claimed
from ganger.engine.checks import check_delay, check_whole
from ganger.engine.limits import Limits
from ganger.engine.store import Claim, Exchange, Exchanged, Sociable, Store
from ganger.runtime.telemetry import Telemetry

T = TypeVar("T")


def check_claim(claim: Claim, limits: Limits) -> None:
    if not (claim.queues or claim.ids):
        raise BadInput("a claim names queues or ids; this one names neither", field="queues")
    check_whole("most", claim.most, 1, limits.claim)
    check_whole("the number of ids", len(claim.ids), 0, limits.claim)
    check_delay("length", claim.length, limits.shortest_ttr)


async def answer_or_error(asking: Awaitable[T]) -> T | GangerError:
    """What is asked for, each by itself: an error of one is its answer."""
    try:
        return await asking
    except GangerError as error:
        return error


class Desk:
    """Where claims are asked for."""

    def __init__(self, store: Store, clock: Clock, telemetry: Telemetry) -> None:
        self._store = store
        self._sociable = store if isinstance(store, Sociable) else None
        self._clock = clock
        self._telemetry = telemetry
        self._returning: set[asyncio.Task[None]] = set()

    async def exchange(self, request: Exchange) -> Exchanged:
        """The store's exchange, which goes on if the caller is cancelled; what it claims then is given back."""
        return await self._outlive(self._store.exchange(request), self._return_answer)

    async def exchange_each(
        self, requests: Sequence[Exchange], near: Callable[[], None] | None = None
    ) -> list[Exchanged | GangerError]:
        """Several exchanges at once, each as in `exchange`; a reply or an error for each. `near` as in `Sociable`."""
        sociable = self._sociable
        asking = self._exchange_alone(requests) if sociable is None else sociable.exchange_each(requests, near)
        return await self._outlive(asking, self._return_answers)

    async def _outlive(
        self, asking: Coroutine[Any, Any, T], give_back: "Callable[[asyncio.Future[T]], Coroutine[Any, Any, None]]"
    ) -> T:
        asked = asyncio.ensure_future(asking)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            self._later(give_back(asked))
            raise

    async def _exchange_alone(self, requests: Sequence[Exchange]) -> list[Exchanged | GangerError]:
        return await asyncio.gather(*(answer_or_error(self._store.exchange(request)) for request in requests))

    def give_back(self, claimed: Sequence[Claimed]) -> None:
        """Release these soon: nobody is there to run them."""
        if claimed:
            self._later(self._return(claimed))

    async def close(self) -> None:
        """Wait until everything is given back."""
        while self._returning:
            await asyncio.wait(self._returning)

    def _later(self, returning: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(returning)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return_answer(self, asked: "asyncio.Future[Exchanged]") -> None:
        await self._return_reply(await answer_or_error(asked))

    async def _return_answers(self, asked: "asyncio.Future[list[Exchanged | GangerError]]") -> None:
        replies = await answer_or_error(asked)
        for reply in [replies] if isinstance(replies, GangerError) else replies:
            await self._return_reply(reply)

    async def _return_reply(self, reply: Exchanged | GangerError) -> None:
        if isinstance(reply, GangerError):
            self._telemetry.event("claim_unanswered", error=reply.code)
        elif reply.claimed:
            await self._return(reply.claimed)

    async def _return(self, claimed: Sequence[Claimed]) -> None:
        moves = tuple(settle(one, Release(), self._clock.wall(), 0.0) for one in claimed)
        try:
            await self._store.exchange(Exchange(moves))
        except GangerError as error:
            self._telemetry.event("claims_not_given_back", error=error.code, tasks=[one.id for one in claimed])
        else:
            self._telemetry.event("claims_given_back", tasks=[one.id for one in claimed])
