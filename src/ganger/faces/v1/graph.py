"""The graph: tasks and the edges between them, all of it or what is below one task, in pages."""

from typing import Any, Final

from ganger.core.graph import Edge
from ganger.core.ids import Position, TaskId
from ganger.core.task import Task
from ganger.engine.descent import Descent
from ganger.engine.store import Query
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.flags import read_limit
from ganger.wire.v1.answers import Names, Node, tell_node
from ganger.wire.v1.pages import name_question, read_position
from ganger.wire.v1.words import read_id

PARAMETERS: Final = frozenset({"root", "start", "pid", "pagid", "limit"})
_TOLD: Final = ("type", "state", "phase", "queue", "description")
Found = list[tuple[Task, tuple[Edge, ...]]]


class Graph:
    """The endpoint `/v1/graph`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def show(self, request: Request) -> Answer:
        """A page of the graph: each edge comes with the task that waits."""
        asked = request.query
        page_id = name_question(self._backend.tag, "graph", asked.get("root"))
        place = read_position(asked.get("start"), asked.get("pid", asked.get("pagid")), page_id)
        most = read_limit(asked.get("limit"), self._backend.limits.page)
        if "root" in asked:
            found, following = await self._read_below(read_id(asked["root"], "root"), place or Position(0), most)
        else:
            page = await self._engine.find(Query(after=place, most=most, with_parents=True))
            found, following = list(zip(page.tasks, page.parents, strict=True)), page.next
        told = _tell(found, await self._backend.name_queues())
        if following is not None:
            told["pagination"] = {"next": str(following), "pid": page_id}
        return answer_json(told)

    async def _read_below(self, root: TaskId, place: Position, most: int) -> tuple[Found, Position | None]:
        """The next members by id: those that come later have larger ones, so none is seen twice or left out."""
        descent = Descent(self._engine.store, root)
        await descent.open()
        left = sorted(task for task in descent.members if task > place)
        some = left[:most]
        parents = dict(await descent.find_parents(some))
        tasks = [task for task in await self._engine.tasks(some) if task is not None]
        found = [(task, tuple(parents.get(task.id, ()))) for task in tasks]
        return found, Position(some[-1]) if len(left) > most else None


def _tell(found: Found, queues: Names) -> dict[str, Any]:
    return {
        "nodes": [tell_node(Node(task, parents, queues), _TOLD) for task, parents in found],
        "edges": [
            {"parent": str(edge.parent), "child": str(task.id), "on": edge.on}
            for task, parents in found
            for edge in parents
        ],
    }
