"""What is done to tasks, queues and nodes from afar, in the engine's own words.

Each of these is one operation of the engine, which checks all of it again: a client is believed nothing. Who it was is
the token's name, whatever the client says.
"""

from typing import Final, assert_never

from ganger.core.audit import Act
from ganger.core.errors import BadInput, NodeGone, NodeNotFound
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.queue import FOREVER, Queue
from ganger.engine.operate import Moved
from ganger.engine.queues import PLAIN
from ganger.engine.store import Configured, Edit, QueueChange
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import NO_CONTENT, Answer, Reply, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend, sign
from ganger.faces.v1.engine_reads import need_lease, read_body
from ganger.wire.v1 import remote

_KNOWN_ACTS: Final = frozenset({"schedule.add"})


class EngineActs:
    """The endpoints under `/v1/engine` that change something."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def submit(self, request: Request) -> Answer:
        given = await read_body(request, remote.SubmitIn)
        for index, key, _ in given.data:
            if not 0 <= index < len(given.tasks):
                raise BadInput(f"the value {key!r:.80} is of task {index}, and there is none", field="data")
        await self._backend.demand_new(request.grant, given.tasks)
        act = None if given.act is None else _sign_act(given.act, request.grant)
        return answer_json(
            await self._engine.submit(given.tasks, under=request.grant.attempt, act=act, data=given.data)
        )

    async def edit(self, request: Request) -> Answer:
        edits = await read_body(request, list[Edit])
        if any(edit.datum is not None and edit.datum.value is None for edit in edits):
            raise BadInput("a value is sent as its bytes", field="datum")
        if request.grant.lease is None and any(edit.kill or edit.remove for edit in edits):
            request.grant.demand(Need.CANCEL)
        await self._backend.edit(edits, request.grant)
        return Reply(NO_CONTENT)

    async def progress(self, request: Request) -> Answer:
        """The attempt that speaks says how far it is."""
        given = await read_body(request, remote.ProgressIn)
        await self._engine.progress(need_lease(request.grant), given.percent, given.info)
        return Reply(NO_CONTENT)

    async def act(self, request: Request) -> Answer:
        given, by = await read_body(request, remote.ActIn), sign(request.grant)
        ids = [TaskId(one) for one in given.ids]
        match given.action:
            case "hold":
                moved = await self._engine.hold(ids, by=by, reason=given.reason)
            case "kick":
                moved = await self._engine.kick(ids, by=by)
            case "cancel":
                moved = await self._engine.cancel(ids, by=by)
            case "kill":
                moved = await self._engine.kill(ids, by=by)
            case "remove":
                moved = await self._remove(ids, given, by)
            case "kick_queue":
                moved = await self._engine.kick_queue(QueueId(given.queue), given.most, by=by)
            case _:
                assert_never(given.action)
        return answer_json(moved)

    async def _remove(self, ids: list[TaskId], given: remote.ActIn, by: str) -> Moved:
        for task in ids:
            await self._engine.remove(task, by=by, descendants=given.descendants, kill=given.kill)
        return Moved(ids, [])

    async def retry(self, request: Request) -> Answer:
        task = await self._backend.find_task(TaskId((await read_body(request, remote.RetryIn)).task))
        await self._backend.demand_again(request.grant, task)
        return answer_json(await self._engine.retry_final(task.id, by=sign(request.grant)))

    async def put_datum(self, request: Request) -> Answer:
        given = await read_body(request, remote.DatumIn)
        task = await self._backend.find_task(TaskId(given.task))
        await self._backend.demand_submit(request.grant, task.queue)
        await self._engine.put_data(task.id, given.key, given.value, only_if_unset=given.only_if_unset)
        return Reply(NO_CONTENT)

    async def configure_queue(self, request: Request) -> Answer:
        """Whoever may submit to a queue may have it made, as queues are by themselves; all else is an operator's."""
        change = await read_body(request, QueueChange)
        plain = QueueChange(name=change.name, policy=change.policy, if_absent=True)
        if change == plain and change.name is not None and change.policy in (None, PLAIN):
            request.grant.demand(Need.SUBMIT, change.name)
        else:
            request.grant.demand(Need.ADMIN)
        return answer_json(Configured(queue=await self._change_queue(change, sign(request.grant))))

    async def _change_queue(self, change: QueueChange, by: str) -> Queue | None:
        queues = self._engine.queues
        if change.delete:
            await queues.delete(change.id, by=by, drop=change.drop)
            return None
        if change.paused_until == 0:
            return await queues.resume(change.id, by=by)
        if change.paused_until is not None:
            return await self._pause(change, by)
        if not change.id and change.name is not None:
            make = queues.ensure if change.if_absent else queues.create
            return await make(change.name, change.policy or PLAIN, by=by)
        if change.name is not None:
            return await queues.rename(change.id, change.name, by=by)
        if change.policy is None:
            raise BadInput("a change of a queue says what to change", field="policy")
        return await queues.change(change.id, change.policy, by=by)

    async def _pause(self, change: QueueChange, by: str) -> Queue:
        """A client sends the length of a pause, since its wall clock is not ours."""
        length = change.paused_until
        return await self._engine.queues.pause(change.id, None if length == FOREVER else length, by=by)

    async def drain(self, request: Request) -> Answer:
        given = await read_body(request, remote.DrainIn)
        name = next((node.name for node in await self._engine.nodes.all() if node.id == NodeId(given.node)), None)
        if name is None:
            raise NodeGone(f"node {given.node} is not here", node=given.node)
        try:
            operate = self._engine.nodes.resume if given.resume else self._engine.nodes.drain
            return answer_json(Configured(node=await operate(name, by=sign(request.grant))))
        except NodeNotFound as error:
            raise NodeGone(error.message, **error.fields) from None


def _sign_act(act: Act, grant: Grant) -> Act:
    if act.action not in _KNOWN_ACTS:
        raise BadInput(f"no client writes {act.action!r:.80} into the audit log", field="act")
    return act._replace(who=sign(grant))
