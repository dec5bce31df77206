"""The scheduler: kill, wait, and what runs now."""

from collections.abc import AsyncIterator
from typing import Any

from ganger.core.errors import BadInput
from ganger.core.graph import Edge
from ganger.core.ids import TaskId
from ganger.core.state import LEASED, Verdict
from ganger.core.task import Task
from ganger.engine.store import Query
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend, sign
from ganger.wire.v1.answers import Node, read_fields, tell_node
from ganger.wire.v1.words import name_phase, name_state, read_ids

_REMOVED = "removed"


class Scheduler:
    """The endpoints under `/v1/scheduler`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def kill(self, request: Request) -> Answer:
        """Begin to kill what runs; what has not started is cancelled."""
        ids = read_given(request)
        await self._backend.check_all(ids)
        moved = await self._engine.kill(ids, by=sign(request.grant))
        ended = [str(task) for task, verdict in moved.refused if verdict == Verdict.WRONG_STATUS]
        return answer_json({"killing": [str(task) for task in moved.done], "ended": ended}, 202)

    async def wait(self, request: Request) -> Answer:
        """Answers when all of these have ended, with their states."""
        ids = read_given(request)
        await self._backend.check_all(ids)
        waited = await self._engine.wait(ids)
        return answer_json([_tell(task, code) for task, code in zip(ids, waited.statuses, strict=True)])

    async def list_running(self, request: Request) -> Answer:
        """The tasks that run now."""
        query = Query(statuses=tuple(map(int, LEASED)), with_parents=True)
        queues = await self._backend.name_queues()
        fields, told = read_fields(request.query.get("metadata")), []
        for holder in [node.id for node in await self._engine.nodes.all()]:
            async for task, parents in self._walk(query._replace(holder=holder, most=self._backend.limits.page)):
                told.append(tell_node(Node(task, parents, queues), fields))
        return answer_json(sorted(told, key=lambda node: int(node["id"])))

    async def _walk(self, query: Query) -> AsyncIterator[tuple[Task, tuple[Edge, ...]]]:
        while True:
            page = await self._engine.find(query)
            for pair in zip(page.tasks, page.parents, strict=True):
                yield pair
            if page.next is None:
                return
            query = query._replace(after=page.next)


def read_given(request: Request) -> list[TaskId]:
    if "id" not in request.query:
        raise BadInput("say which tasks: id=22 or id=22,23", field="id")
    return read_ids(request.query["id"])


def _tell(task: TaskId, code: int | None) -> dict[str, Any]:
    if code is None:
        return {"id": str(task), "state": _REMOVED}
    return {"id": str(task), "state": name_state(code), "phase": name_phase(code), "code": code}
