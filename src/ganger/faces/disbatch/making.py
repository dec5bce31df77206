"""The routes that make tasks."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from ganger.core.errors import BadInput
from ganger.core.queue import Queue
from ganger.faces.disbatch.answering import answer
from ganger.faces.disbatch.asking import ask
from ganger.faces.disbatch.backend import DisbatchBackend
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import Answer
from ganger.faces.http.request import Request
from ganger.wire.disbatch import making
from ganger.wire.disbatch.making import Template
from ganger.wire.disbatch.shapes import tell_inserts


class Making:
    """The endpoints under `/tasks` that take a POST. All tasks of a request are stored, or none."""

    def __init__(self, backend: DisbatchBackend) -> None:
        self._backend = backend

    async def take_order(self, request: Request) -> Answer:
        order = making.read_order(await ask(request))
        return await self._make(order.queue, order.lot, request.grant)

    async def take_array(self, request: Request) -> Answer:
        lot = making.check_array(await ask(request))
        return await self._make(request.values["queue"], lot, request.grant)

    async def take_template(self, request: Request) -> Answer:
        template = making.check_template(request.values["collection"], await ask(request))
        return await self._make(request.values["queue"], template, request.grant)

    async def _make(self, name: str, lot: Sequence[Any] | Template, grant: Grant) -> Answer:
        queue = await self._backend.find_queue(name)
        grant.demand(Need.SUBMIT, queue.name)
        plugin = _demand_plugin(queue)
        params = await self._fill(lot, grant) if isinstance(lot, Template) else lot
        made = await self._backend.engine.submit(making.make_tasks(queue.id, plugin, params))
        tasks = [task for task in await self._backend.engine.tasks(made.ids) if task is not None]
        return answer(tell_inserts(await self._backend.faces.name_tasks(tasks)))

    async def _fill(self, template: Template, grant: Grant) -> Sequence[Any]:
        """Whoever makes tasks from documents sees what is in them."""
        grant.demand(Need.READ)
        collections, most = self._backend.demand_collections(), self._backend.limits.documents
        lot: list[Any] = []
        async with aclosing(collections.find(template.collection, template.filter, template.fields)) as documents:
            async for document in documents:
                if len(lot) == most:
                    raise BadInput(f"more than {most} documents match: choose fewer with the filter", field="filter")
                lot.append(making.fill(template, document))
        if not lot:
            raise BadInput("no document matches, and no task was made", field="filter")
        return lot


def _demand_plugin(queue: Queue) -> str:
    if queue.policy.plugin is None:
        raise BadInput(
            f"the queue {queue.name!r} has no plugin: its tasks are commands and functions, and are made elsewhere",
            queue=queue.name,
        )
    return queue.policy.plugin
