"""Results on their way into the store: those that were gathered go in one call, and each worker is told of its own."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ganger.core.errors import NodeGone
from ganger.core.outcome import Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.settle import Settled
from ganger.engine.store import Claim
from ganger.faces.jobs.gathering import Expected, Gathering


class Brought(NamedTuple):
    """The result of a job (None if it is a blob, and stored), the claim of the next, and who is told what came of it.

    `told` is called once, and must not raise; `near` may be called before, when the result is about to be safe.
    """

    job: Claimed
    result: bytes | None
    claim: Claim
    near: Callable[[], None]
    told: Callable[[Settled | Exception], None]


class Storing:
    """Takes results in, from all workers."""

    def __init__(self, engine: Engine) -> None:
        self.gathering: Gathering[Brought] = Gathering(self._send)
        self._engine = engine
        self._going: set[asyncio.Task[None]] = set()

    def _send(self, brought: list[Brought]) -> None:
        task = asyncio.ensure_future(self._store(brought))
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    async def _store(self, brought: list[Brought]) -> None:
        items = [(each.job, Succeed(each.result), each.claim) for each in brought]
        try:
            replies: list[Settled | Exception] = [*await self._engine.settle_each(items, partial(_tell_near, brought))]
        except Exception as error:
            replies = [error] * len(brought)
        for each, reply in zip(brought, replies, strict=True):
            each.told(await self._store_last(each) if isinstance(reply, NodeGone) else reply)

    async def _store_last(self, brought: Brought) -> Settled | Exception:
        """Somebody drains its worker, which gets nothing more; what it has done counts all the same."""
        try:
            return await self._engine.settle([(brought.job, Succeed(brought.result))])
        except Exception as error:
            return error


def _tell_near(brought: list[Brought]) -> None:
    for each in brought:
        each.near()


class Passage:
    """The way of one worker's results into the store, one at a time. `told` is called with what came of each.

    `near` is called with nothing, when that is known and about to be safe, or not at all.
    """

    def __init__(self, storing: Storing, near: Callable[[], None], told: Callable[[Settled | Exception], None]) -> None:
        self.is_taken = False
        self._near = near
        self._gathering = storing.gathering
        self._expected = Expected()
        self._told = told
        self._news: asyncio.Future[None] | None = None

    def expect(self) -> None:
        """The worker was given a job."""
        self._gathering.expect(self._expected)

    def forget(self) -> None:
        """It has none, or nobody waits for its result any more."""
        self._gathering.forget(self._expected)

    def send(self, job: Claimed, result: bytes | None, claim: Claim) -> None:
        self.is_taken = True
        self._gathering.bring(self._expected, Brought(job, result, claim, self._near, self._arrive))

    def _arrive(self, reply: Settled | Exception) -> None:
        self.is_taken = False
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        self._told(reply)

    async def wait(self) -> None:
        """Until nothing is on its way."""
        if self.is_taken:
            self._news = asyncio.get_running_loop().create_future()
            await self._news
