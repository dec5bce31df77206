"""Queues: which there are, and what holds for each."""

from typing import Any, Final

from msgspec import UNSET

from ganger.core.errors import BadInput, Conflict, QueueNotFound
from ganger.core.ids import QueueId
from ganger.core.queue import Counts, Policy, Queue
from ganger.engine.queues import PLAIN
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import NO_CONTENT, Answer, Reply, answer_json
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route
from ganger.faces.v1.backend import Backend, sign
from ganger.faces.v1.flags import read_flag
from ganger.faces.v1.reports import count_states
from ganger.node.outbound import check_url
from ganger.wire.v1 import queues as wire
from ganger.wire.v1.answers import Names
from ganger.wire.v1.requests import decode

_PATH: Final = "/v1/queues"
_DROP: Final = frozenset({"drop"})


def list_queue_routes(backend: Backend) -> list[Route]:
    """Every address under `/v1/queues`."""
    of, one, told = QueueDoor(backend), f"{_PATH}/{{name}}", wire.QueueTold
    words = "Remove a queue that is empty; with drop=true its waiting tasks are cancelled first"
    return [
        Route("GET", _PATH, Need.READ, of.list_all, "List the queues", answer=list[told]),  # type: ignore[valid-type]
        Route("POST", _PATH, Need.ADMIN, of.add, "Add a queue", body=wire.QueueIn, answer=told, status=201),
        Route("GET", one, Need.READ, of.show, "Show a queue", answer=told),
        Route(
            "PATCH", one, Need.ADMIN, of.change, "Change, pause or resume a queue",
            body=wire.QueueChangeIn, answer=told,
        ),
        Route("DELETE", one, Need.ADMIN, of.remove, words, _DROP, status=204),
    ]  # fmt: skip


class QueueDoor:
    """The endpoints of `/v1/queues`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._queues = backend.engine.queues

    async def list_all(self, request: Request) -> Answer:
        """Every queue with its policy and its counts."""
        counts, names = await self._count(), await self._backend.name_queues()
        return answer_json([_tell(queue, counts.get(queue.id), names) for queue in await self._queues.all()])

    async def add(self, request: Request) -> Answer:
        """Make a queue, unless its name is taken."""
        said, grant = decode(await request.body(), wire.QueueIn), request.grant
        async with self._backend.writing:
            await self._refuse_taken(said.name)
            queue = await self._queues.ensure(said.name, await self._read_policy(PLAIN, said), by=sign(grant))
            await self._pause(queue, said, grant)
        return await self._show(said.name, 201)

    async def _refuse_taken(self, name: str) -> None:
        try:
            taken = await self._queues.named(name)
        except QueueNotFound:
            return
        raise Conflict(f"there is a queue {name!r:.80}: change it with PATCH", queue=taken.id)

    async def show(self, request: Request) -> Answer:
        return await self._show(request.values["name"])

    async def change(self, request: Request) -> Answer:
        """Change what holds for a queue, and then pause or resume it."""
        said = decode(await request.body(), wire.QueueChangeIn)
        if said == wire.QueueChangeIn():
            raise BadInput("the body changes nothing: see the description of this address")
        async with self._backend.writing:
            queue = await self._queues.named(request.values["name"])
            policy = await self._read_policy(queue.policy, said)
            if policy != queue.policy:
                await self._queues.change(queue.id, policy, by=sign(request.grant))
            await self._pause(queue, said, request.grant)
        return await self._show(queue.name)

    async def _read_policy(self, policy: Policy, said: wire.QueueChangeIn) -> Policy:
        becomes = policy.becomes
        if said.becomes is not UNSET:
            becomes = None if said.becomes is None else (await self._queues.named(said.becomes)).id
        for address in [] if said.webhooks is UNSET else said.webhooks:
            check_url(address, self._backend.outbound)
        return wire.change_policy(policy, said, becomes)

    async def _pause(self, queue: Queue, said: wire.QueueChangeIn, grant: Grant) -> None:
        if said.paused is False and said.pause is not UNSET:
            raise BadInput("paused is false and pause says for how long: give one of them", field="pause")
        if said.paused is False:
            await self._queues.resume(queue.id, by=sign(grant))
        elif said.paused is True or said.pause is not UNSET:
            await self._queues.pause(queue.id, None if said.pause is UNSET else said.pause, by=sign(grant))

    async def remove(self, request: Request) -> Answer:
        queue = await self._queues.named(request.values["name"])
        await self._queues.delete(queue.id, by=sign(request.grant), drop=read_flag(request.query, "drop"))
        return Reply(NO_CONTENT)

    async def _count(self) -> dict[QueueId, Counts]:
        return {each.queue: each for each in (await self._engine.counts())[0]}

    async def _show(self, name: str, status: int = 200) -> Answer:
        queue, counts = await self._queues.named(name), await self._count()
        return answer_json(_tell(queue, counts.get(queue.id), await self._backend.name_queues()), status)


def _tell(queue: Queue, counts: Counts | None, names: Names) -> dict[str, Any]:
    becomes = None if queue.policy.becomes is None else names.get(queue.policy.becomes)
    told = {"id": str(queue.id), "name": queue.name, "paused_until": queue.paused_until}
    return told | wire.tell_policy(queue.policy, becomes) | ({} if counts is None else count_states(counts))
