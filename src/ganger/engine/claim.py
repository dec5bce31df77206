"""A holder asks for tasks. What it does not take away is given back.

A claim that was asked for is made, whether or not the one who asked still waits for the answer: the connection broke,
the caller was cancelled. The lease of such a task would live as long as its node does, and nobody would run it. So the
question outlives the one who asked, and what comes of it is released at once.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, GangerError
from ganger.core.outcome import Release, settle
from ganger.core.task import Claimed
from ganger.engine.checks import check_delay, check_whole
from ganger.engine.limits import Limits
from ganger.engine.store import Claim, Exchange, Exchanged, Sociable, Store
from ganger.runtime.telemetry import Telemetry


def check_claim(claim: Claim, limits: Limits) -> None:
    if not (claim.queues or claim.ids):
        raise BadInput("a claim names queues or ids; this one names neither", field="queues")
    check_whole("most", claim.most, 1, limits.claim)
    check_whole("the number of ids", len(claim.ids), 0, limits.claim)
    check_delay("length", claim.length, limits.shortest_ttr)


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
        asked = asyncio.ensure_future(self._store.exchange(request))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            self._later(self._return_answer(asked))
            raise

    async def exchange_each(self, requests: Sequence[Exchange]) -> list[Exchanged | GangerError]:
        """Several exchanges at once, each as in `exchange`; a reply or an error for each."""
        asked = asyncio.ensure_future(self._exchange_each(requests))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            self._later(self._return_answers(asked))
            raise

    async def _exchange_each(self, requests: Sequence[Exchange]) -> list[Exchanged | GangerError]:
        if self._sociable is not None:
            return await self._sociable.exchange_each(requests)
        return await asyncio.gather(*map(self._exchange_alone, requests))

    async def _exchange_alone(self, request: Exchange) -> Exchanged | GangerError:
        try:
            return await self._store.exchange(request)
        except GangerError as error:
            return error

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
        try:
            reply = await asked
        except GangerError as error:
            self._telemetry.event("claim_unanswered", error=error.code)
        else:
            await self._return(reply.claimed)

    async def _return_answers(self, asked: "asyncio.Future[list[Exchanged | GangerError]]") -> None:
        for reply in await asked:
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
