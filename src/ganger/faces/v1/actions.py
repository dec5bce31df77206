"""What operators do to many tasks at once, named by their ids or by what they have in common."""

from collections.abc import Sequence
from typing import Final

from ganger.core.errors import BadInput, GangerError, WrongStatus
from ganger.core.ids import TaskId
from ganger.core.state import Verdict
from ganger.core.task import Task
from ganger.engine.operate import Moved
from ganger.faces.http.grants import Grant
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend, sign
from ganger.faces.v1.finding import FILTERS, Finder
from ganger.wire.v1.requests import ActionIn, decode
from ganger.wire.v1.words import read_id

MOST: Final = 10_000


class Actions:
    """The endpoint `/v1/actions`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._finder = Finder(backend)

    async def act(self, request: Request) -> Answer:
        """Do one thing to all of them, each by itself; those that cannot be done are told with the reason."""
        said = decode(await request.body(), ActionIn)
        ids, more = await self._choose(said)
        moved = await self._do(said, ids, request.grant)
        refused = [{"id": str(task), "why": why} for task, why in moved.refused]
        return answer_json({"done": [str(task) for task in moved.done], "refused": refused, "more": more})

    async def _choose(self, said: ActionIn) -> tuple[list[TaskId], bool]:
        """The tasks that are meant, and whether there are more of them than are done at once."""
        given = {name: value for name in FILTERS if (value := getattr(said, name)) is not None}
        if bool(said.ids) == bool(given):
            raise BadInput("name the tasks by ids, or by some of type, state, queue, parent, group, key", field="ids")
        if said.ids:
            return [read_id(one, "ids") for one in dict.fromkeys(said.ids)][:MOST], len(said.ids) > MOST
        found = await self._finder.gather(await self._finder.read_filters(given), MOST)
        return [task.id for task, _ in found.tasks], found.next is not None

    async def _do(self, said: ActionIn, ids: Sequence[TaskId], grant: Grant) -> Moved:
        match said.action:
            case "hold":
                return await self._engine.hold(ids, by=sign(grant), reason=said.reason)
            case "kick":
                return await self._engine.kick(ids, by=sign(grant))
            case "cancel":
                return await self._engine.cancel(ids, by=sign(grant))
            case "kill":
                return await self._engine.kill(ids, by=sign(grant))
            case "retry":
                return await self._retry(ids, grant)

    async def _retry(self, ids: Sequence[TaskId], grant: Grant) -> Moved:
        """Each that has ended is tried again as a new task, whose id is told."""
        moved = Moved([], [])
        for number, task in zip(ids, await self._engine.tasks(ids), strict=True):
            try:
                moved.done.append(await self._retry_one(number, task, grant))
            except GangerError as error:
                moved.refused.append((number, error.code))
        return moved

    async def _retry_one(self, number: TaskId, task: Task | None, grant: Grant) -> TaskId:
        if task is None:
            raise WrongStatus(f"there is no task {number}", task=number, verdict=Verdict.GONE.value)
        await self._backend.demand_again(grant, task)
        return await self._engine.retry_final(number, by=sign(grant))
