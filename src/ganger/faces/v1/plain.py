"""Single plain tasks: those that come while others are being stored wait for them, and are then stored together.

Most requests add one task that names no other. Stored by itself, each costs the store a step and the loop a task that
waits for it; a hundred together cost hardly more than one. Each is answered by itself: what is wrong with one is no
matter of the others. Nobody waits longer for it: the store writes one group at a time in any case. Where many send at
once, the first waits until no other comes: one that is stored just ahead of them would make all of them wait for it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from ganger.core.errors import GangerError
from ganger.core.task import NewTask
from ganger.engine.store import Submitted
from ganger.engine.submit import stands_alone
from ganger.engine.tracing import CONTEXT
from ganger.faces.http.express import Ride
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import Reply, answer_json
from ganger.faces.v1 import repeats
from ganger.faces.v1.backend import Backend
from ganger.wire.v1 import requests
from ganger.wire.v1.answers import tell_made

_TOGETHER: Final = 1_000
_MOMENT: Final = 0.002
_TRACE: Final = CONTEXT.encode()


class PlainNodes:
    """The short way of `POST /v1/nodes`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._waiting: list[tuple[NewTask, Ride]] = []
        self._storing: asyncio.Task[None] | None = None

    def add(self, grant: Grant, ride: Ride) -> bool:
        """Have the one task of a request stored; False if it is not one, not plain, or not in order."""
        headers = ride.headers
        if ride.body[:1] != b"{" or repeats.HEADER in headers or (self._backend.traces and _TRACE in headers):
            return False
        task = self._draft(grant, ride.body)
        if task is None:
            return False
        self._waiting.append((task, ride))
        if self._storing is None:
            self._storing = asyncio.get_running_loop().create_task(self._store())
        return True

    def _draft(self, grant: Grant, body: bytes) -> NewTask | None:
        try:
            nodes = requests.read_nodes(body)
            name = nodes[0].metadata.queue
            grant.demand(Need.SUBMIT, name)
            if (queue := self._engine.queues.peek_named(name)) is None:
                return None
            (draft,) = requests.draft_nodes(nodes, {name: queue.id})
        except GangerError:
            return None  # the long way says what is wrong
        is_plain = not (draft.data or draft.webhook) and stands_alone(draft.task)
        return draft.task if is_plain else None

    async def _store(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
                replies = await self._submit([task for task, _ in batch])
                for (_, ride), reply in zip(batch, replies, strict=True):
                    ride.tell(reply if isinstance(reply, GangerError) else _answer(reply))
        finally:
            self._storing = None

    async def _gather(self) -> None:
        """Wait while every turn of the loop brings another one, for a moment at most."""
        loop = asyncio.get_running_loop()
        until, seen = loop.time() + _MOMENT, 0
        while seen < len(self._waiting) < _TOGETHER and loop.time() < until:
            seen = len(self._waiting)
            await asyncio.sleep(0)

    async def _submit(self, tasks: list[NewTask]) -> Sequence[Submitted | GangerError]:
        try:
            return await self._engine.submit_each(tasks)
        except GangerError as error:
            return [error] * len(tasks)
        except Exception as error:
            # Those who wait are answered, whatever it was.
            self._backend.telemetry.event("request_failed", path="/v1/nodes", error=repr(error))
            return [GangerError("an error that nobody expected")] * len(tasks)


def _answer(made: Submitted) -> Reply:
    return answer_json([tell_made(made.ids[0], bool(made.existing))], 201)
