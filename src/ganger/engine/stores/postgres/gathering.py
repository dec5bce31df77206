"""Exchanges of one node that wait at one moment, run as one step.

A step costs a transaction, a round trip or several, a receipt and a commit, whether it ends one task or a hundred. A
node with many slots asks for the same again and again: the end of what it ran, and the next of the same queues. So only
some such exchanges are under way at once; those that come meanwhile are gathered, and run as one when a step is back.

What can go wrong, and why this is right:

Somebody gets another's task, or the verdict of another's move. The claims of one line differ in nothing but how many
they ask for, and what they get is dealt out in the order in which they came; moves keep their order. All moves are
successes, and are made before the first claim: what they make room for goes to the same node in any case.

One of them is refused as a whole. Nothing of the step is stored then, and each runs by itself. Where nobody knows
what was stored, all are told so: to run them again would find their own leases ended. Those who still wait are told as
well that the server is gone, and do not wait for as long again.

Somebody who waits is cancelled. One that has not begun is left out. One that has begun is stored with the others, as a
step is that is cancelled in its last moment: whoever asks for tasks lets the question outlive himself.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from ganger.core.errors import GangerError, StoreUnavailable
from ganger.engine.store import Claim, Exchange, Exchanged

SIDE_BY_SIDE: Final = 2
"""So many steps of a line are under way at once: the server works at one while the other is here."""
LARGEST: Final = 400
"""Tasks in a step that is made of several: a larger one gains nothing more, and holds others up."""


class Waiting(NamedTuple):
    request: Exchange
    reply: "asyncio.Future[Exchanged]"

    @property
    def size(self) -> int:
        return max(len(self.request.moves), 0 if self.request.claim is None else self.request.claim.most)


@dataclass(slots=True)
class Line:
    """Those who ask for the same: how many steps are under way, and who waits."""

    busy: int = 0
    waiting: deque[Waiting] = field(default_factory=deque)


class Gathering:
    def __init__(self, exchange: Callable[[Exchange], Awaitable[Exchanged]]) -> None:
        self._exchange = exchange
        self._lines: dict[Claim, Line] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def exchange(self, request: Exchange) -> Exchanged:
        """By itself if it can go at once, else together with those who wait as well."""
        if request.claim is None or not _joins(request):
            return await self._exchange(request)
        key = request.claim._replace(most=0)
        line = self._lines.setdefault(key, Line())
        if line.busy >= SIDE_BY_SIDE:
            waiting = Waiting(request, asyncio.get_running_loop().create_future())
            line.waiting.append(waiting)
            return await waiting.reply
        line.busy += 1
        try:
            return await self._try(line, request)
        finally:
            self._go_on(key, line)

    async def _try(self, line: Line, request: Exchange) -> Exchanged:
        try:
            return await self._exchange(request)
        except StoreUnavailable as error:
            _refuse(line.waiting, error)
            raise

    def _go_on(self, key: Claim, line: Line) -> None:
        """A step is back: the next one is of those who wait."""
        line.busy -= 1
        if group := list(_take(line.waiting)):
            line.busy += 1
            task = asyncio.create_task(self._serve(key, line, group))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        elif not line.busy:
            del self._lines[key]

    async def _serve(self, key: Claim, line: Line, group: Sequence[Waiting]) -> None:
        try:
            await self._run(line, group)
        finally:
            self._go_on(key, line)
            for waiting in group:
                waiting.reply.cancel()

    async def _run(self, line: Line, group: Sequence[Waiting]) -> None:
        requests = [waiting.request for waiting in group]
        try:
            reply = await self._try(line, _join(requests))
        except GangerError as error:
            if len(group) == 1 or isinstance(error, StoreUnavailable):
                _refuse(group, error)
                return
            for waiting in group:
                await self._run(line, [waiting])
        else:
            for waiting, share in zip(group, _deal(requests, reply), strict=True):
                if not waiting.reply.done():
                    waiting.reply.set_result(share)


def _joins(request: Exchange) -> bool:
    """Is it but the success of some tasks, and a claim of whatever is ready?"""
    plain = not (request.notes or request.act or request.all_or_nothing or (request.claim and request.claim.ids))
    return plain and all(move.rule == "succeed" for move in request.moves)


def _take(waiting: deque[Waiting]) -> Iterator[Waiting]:
    """The next group: those that still wait, in their order, as many as make no step too large, but one at least."""
    size = 0
    while waiting:
        first = waiting[0]
        if size and size + first.size > LARGEST:
            return
        waiting.popleft()
        if not first.reply.done():
            size += first.size
            yield first


def _join(requests: Sequence[Exchange]) -> Exchange:
    if len(requests) == 1:
        return requests[0]
    claims = [request.claim for request in requests if request.claim is not None]
    claim = claims[0]._replace(most=sum(claim.most for claim in claims))
    return Exchange(tuple(move for request in requests for move in request.moves), claim)


def _deal(requests: Sequence[Exchange], reply: Exchanged) -> Iterator[Exchanged]:
    """For each request the verdicts of its own moves and its share of the tasks; when to look again, if it is short."""
    claimed, verdicts, first = iter(reply.claimed), dict(reply.refused), 0
    for request in requests:
        own = range(first, first + len(request.moves))
        first = own.stop
        refused = [(index - own.start, verdicts[index]) for index in own if index in verdicts]
        most = 0 if request.claim is None else request.claim.most
        share = Exchanged(refused, list(islice(claimed, most)))
        yield share if len(share.claimed) == most else share._replace(next_due=reply.next_due, waiting=reply.waiting)


def _refuse(group: Iterable[Waiting], error: GangerError) -> None:
    for waiting in group:
        if not waiting.reply.done():
            waiting.reply.set_exception(error)
