"""The routes of queues."""

from ganger.core import names
from ganger.core.errors import Conflict, QueueInUse
from ganger.core.queue import Policy, Queue
from ganger.core.state import is_final
from ganger.faces.disbatch.answering import answer
from ganger.faces.disbatch.asking import ask
from ganger.faces.disbatch.backend import DisbatchBackend, sign
from ganger.faces.http.reply import Answer
from ganger.faces.http.request import Request
from ganger.wire.disbatch import queues, shapes
from ganger.wire.disbatch.params import demand_object


class Queues:
    """The endpoints under `/queues`."""

    def __init__(self, backend: DisbatchBackend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def list_queues(self, request: Request) -> Answer:
        return answer(await self._report(await self._engine.queues.all()))

    async def show(self, request: Request) -> Answer:
        queue = await self._backend.find_queue(request.values["queue"])
        return answer((await self._report([queue]))[0])

    async def _report(self, found: list[Queue]) -> list[shapes.QueueReport]:
        counts, faces = await self._backend.count(), await self._backend.faces.name_queues()
        return [queues.report(faces.get(queue.id, ""), queue, counts.get(queue.id)) for queue in found]

    async def create(self, request: Request) -> Answer:
        """Make a queue. Its name must be free: a request that is sent twice makes one queue."""
        said = demand_object(await ask(request), "name and plugin required")
        wish = queues.read_new(said, await self._backend.list_plugins())
        name = names.check("queue", wish.name or "")
        await self._refuse_taken(name)
        made = await self._engine.queues.ensure(name, wish.policy, by=sign(request.grant))
        if made.policy != wish.policy:
            raise Conflict(f"a queue is called {name!r} already", name=name)
        return answer(shapes.tell_insert((await self._backend.faces.name_queues())[made.id]))

    async def _refuse_taken(self, name: str) -> None:
        if any(queue.name == name for queue in await self._engine.queues.all()):
            raise Conflict(f"a queue is called {name!r} already", name=name)

    async def change(self, request: Request) -> Answer:
        queue = await self._backend.find_queue(request.values["queue"])
        said = demand_object(await ask(request), "no params")
        wish = queues.read_change(said, await self._backend.list_plugins(), queue.policy)
        if wish.policy.plugin != queue.policy.plugin:
            await self._refuse_orphans(queue)
        if wish.name is not None and wish.name != queue.name:
            await self._refuse_taken(names.check("queue", wish.name))
        changed = await self._apply(queue, wish.name, wish.policy, sign(request.grant))
        return answer(shapes.tell_update(changed))

    async def _apply(self, queue: Queue, name: str | None, policy: Policy, by: str) -> bool:
        # The policy first: if the second of the two steps is lost, the name is still the one that was asked for.
        changes, renames = policy != queue.policy, name not in (None, queue.name)
        if changes:
            await self._engine.queues.change(queue.id, policy, by=by)
        if renames and name is not None:
            await self._engine.queues.rename(queue.id, name, by=by)
        return changes or renames

    async def _refuse_orphans(self, queue: Queue) -> None:
        """A task is for the plugin that its queue had: with another one nobody would run it."""
        counts = (await self._backend.count()).get(queue.id)
        waits = sum(n for code, n in counts.by_status.items() if not is_final(code)) if counts is not None else 0
        if waits:
            raise Conflict(
                f"{waits} tasks of the queue {queue.name!r} are for the plugin {queue.policy.plugin!r}: "
                "let them end, or make another queue",
                queue=queue.name,
            )

    async def delete(self, request: Request) -> Answer:
        """Remove a queue and its ended tasks; one with tasks that have not ended is refused."""
        queue = await self._backend.find_queue(request.values["queue"])
        try:
            await self._engine.queues.delete(queue.id, by=sign(request.grant))
        except QueueInUse as error:
            raise QueueInUse(f"{error.message}: let them end or cancel them first", **error.fields) from None
        return answer(shapes.tell_delete())
