"""The SDK over an engine in the same process.

A graph in which results go from task to task cannot be stored in one step: a spec names the tasks whose results it
wants by their ids, and those are known only when the tasks are stored. So such a graph is stored behind a *gate*, a
group that is still open and that every first task waits for: nothing of it can run. Then one edit, all or nothing,
puts the ids in their places and closes the gate. A program that dies between the two leaves a graph that never begins;
it can be seen, blocked behind its gate, and cancelled. What it can not be is half run.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ganger.assembly.embedded import open_engine
from ganger.assembly.location import locate
from ganger.assembly.locks import TTL, AppLock, Locks
from ganger.assembly.registry import open_inbox
from ganger.assembly.settings import load
from ganger.client.app import DEFAULT_NAME, App
from ganger.client.bridge import ThreadBridge
from ganger.client.calls import Call
from ganger.client.conditions import fill_in as fill_in_condition
from ganger.client.inbox import Inbox
from ganger.client.outbox import Row, row_for
from ganger.client.references import fill_in
from ganger.client.transport import Draft, Piece, Plan, Reason, Synced, TaskEvent, Transport, Why
from ganger.core.clock import Clock
from ganger.core.errors import BadInput, QueueNotFound, TaskHeld, WrongStatus
from ganger.core.graph import Edge, Join
from ganger.core.ids import Position, QueueId, TaskId
from ganger.core.span import Span
from ganger.core.state import is_final
from ganger.core.task import GATE, Kind, NewTask, Task
from ganger.engine.declared import Declared, sync
from ganger.engine.engine import Engine
from ganger.engine.live import take_so_far
from ganger.engine.schedules import Schedules, Work
from ganger.engine.store import Change, Edit
from ganger.engine.ticks import check as check_schedule
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

BY: Final = "client"
"""Who it was, in the audit log."""

_PART: Final = 1 << 20
_TRIES: Final = 10


class EngineTransport:
    """A `Transport` to an engine of the same event loop."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self.engine = engine
        self._clock = clock or SystemClock()

    async def submit(self, drafts: Sequence[Draft]) -> list[TaskId]:
        if any(draft.refers for draft in drafts):
            return await self._submit_gated(drafts)
        return (await self.engine.submit(await self._tasks(drafts))).ids

    def post_now(self, drafts: Sequence[Draft]) -> Callable[[], list[TaskId]] | None:
        tasks: list[NewTask] = []
        # One is the usual number: nothing is made ready for many.
        for draft in drafts:
            queue = self.engine.queues.peek_named(draft.queue)
            if queue is None or draft.refers:
                return None
            tasks.append(NewTask(queue.id, *draft.task[1:]))
        posted = self.engine.post_now(tasks)
        return None if posted is None else lambda: posted().ids

    async def _tasks(self, drafts: Sequence[Draft]) -> list[NewTask]:
        queues = {name: await self._queue(name) for name in {draft.queue for draft in drafts}}
        return [NewTask(queues[draft.queue], *draft.task[1:]) for draft in drafts]

    async def _queue(self, name: str) -> QueueId:
        return (await self.engine.queues.ensure(name, by=BY)).id

    async def _submit_gated(self, drafts: Sequence[Draft]) -> list[TaskId]:
        tasks = await self._tasks(drafts)
        gate = NewTask(tasks[0].queue, Kind.GROUP, description=GATE, open_group=True)
        submitted = await self.engine.submit([*_gated(tasks), gate])
        *ids, opening = submitted.ids
        existing = set(submitted.existing)
        specs = {
            ids[place]: _fill_in(draft, ids)
            for place, draft in enumerate(drafts)
            if draft.refers and place not in existing
        }
        try:
            await self._open_gate(opening, specs)
        except BaseException:
            # Nothing of it has run. If the gate did open, and only the answer was lost, this changes nothing.
            await self.engine.cancel([opening], by=BY)
            raise
        return ids

    async def _open_gate(self, gate: TaskId, specs: Mapping[TaskId, bytes]) -> None:
        """Those that have ended already (a parent outside failed, somebody cancelled them) are not looked for."""
        for tries_left in reversed(range(_TRIES)):
            found = await self.engine.tasks(list(specs))
            alive = [task.id for task in found if task is not None and not is_final(task.status)]
            edits = [Edit(task, change=Change(spec=specs[task])) for task in alive]
            try:
                return await self.engine.edit([*edits, Edit(gate, close_group=True)], by=BY)
            except WrongStatus:
                if not tries_left:
                    raise
        raise AssertionError("the loop returns or raises")

    async def wait(self, ids: Sequence[TaskId], timeout: float | None, *, through_hold: bool = False) -> bool:
        waited = await self.engine.wait(ids, timeout, until_held=not through_hold)
        if waited.held:
            raise await self._tell_held(waited.held[0])
        return waited.done

    async def _tell_held(self, task: TaskId) -> TaskHeld:
        (found,) = await self.engine.tasks([task])
        reason = found.reason if found is not None and found.reason else "nobody said why"
        said = f"task {task} is held until it is kicked or cancelled, so this would wait for ever: {reason}"
        return TaskHeld(said, task=task, reason=reason)

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> None:
        fields = dict(changes)
        if (becomes := fields.get("becomes")) is not None:
            fields["becomes"] = (await self.engine.queues.named(becomes)).id
        queue = await self.engine.queues.ensure(name, by=BY)
        policy = queue.policy._replace(**fields)
        if policy != queue.policy:
            await self.engine.queues.change(queue.id, policy, by=BY)

    async def follow_events(self, after: int | None) -> AsyncGenerator[TaskEvent, None]:
        behind = None if after is None else Position(after)
        async with aclosing(self.engine.subscribe(behind)) as events:
            async for event in events:
                at = datetime.fromtimestamp(event.at / 1_000, UTC)
                tasks = tuple(entry.task for entry in event.entries)
                yield TaskEvent(event.position, at, event.fact, await self._name_of(event.queue), tasks)

    async def _name_of(self, queue: QueueId) -> str | None:
        """None for the queue of an event that is about a node, and for one that is gone."""
        try:
            return (await self.engine.queues.get(queue)).name if queue else None
        except QueueNotFound:
            return None

    async def sync_schedules(self, plans: Sequence[Plan], owner: str, *, remove: bool) -> Synced:
        queues = {name: await self._queue(name) for name in {plan.draft.queue for plan in plans}}
        declared = [Declared(plan.schedule, _work(plan.draft, queues[plan.draft.queue])) for plan in plans]
        return Synced(*await sync(Schedules(self.engine, self._clock), declared, owner, remove=remove))

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return await self.engine.tasks(ids)

    async def read_data(self, task: TaskId, key: str, start: int) -> Piece:
        part = await self.engine.read_data(task, key, start, _PART)
        return Piece(part.body, part.size)

    async def read_output(self, task: TaskId, stream: str, start: int) -> Piece:
        part = await self.engine.read_output(task, stream, start, _PART)
        return Piece(part.body, part.size)

    async def follow_output(
        self, task: TaskId, streams: Sequence[str], *, so_far: bool = False
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        async with aclosing(self.engine.follow_output(task, streams)) as pieces:
            async for piece in take_so_far(pieces) if so_far else pieces:
                yield piece.stream, piece.body

    async def cancel(self, ids: Sequence[TaskId]) -> list[TaskId]:
        return (await self.engine.cancel(ids, by=BY)).done

    async def kill(self, ids: Sequence[TaskId]) -> list[TaskId]:
        return (await self.engine.kill(ids, by=BY)).done

    async def explain(self, task: TaskId) -> Why:
        why = await self.engine.explain(task)
        return Why(why.status, tuple(Reason(reason.code, reason.sentence) for reason in why.reasons))


def _work(draft: Draft, queue: QueueId) -> Work:
    """What each tick submits: those fields of the task that a schedule keeps."""
    task = draft.task._replace(queue=queue)
    return Work(**{field: getattr(task, field) for field in Work.__struct_fields__})


def _fill_in(draft: Draft, ids: Sequence[TaskId]) -> bytes:
    if draft.task.kind == Kind.CONDITION:
        return fill_in_condition(draft.task.spec, dict(draft.names), ids)
    return fill_in(draft.task.spec, ids)


def _gated(tasks: Sequence[NewTask]) -> list[NewTask]:
    """The tasks of a graph behind its gate, which is the one after them."""
    # A task with a key may be there already, and have ended: it holds nothing back.
    firm = {-place for place, task in enumerate(tasks, 1) if task.key is None}
    return [_behind(task, len(tasks) + 1, firm) for task in tasks]


def _behind(task: NewTask, gate: int, firm: Set[int]) -> NewTask:
    """The task, behind the gate if nothing else of the graph holds it back."""
    inside = any(edge.parent < 0 for edge in task.parents)
    if task.join == Join.ANY and task.parents and (not inside or any(edge.parent > 0 for edge in task.parents)):
        raise BadInput("in a graph that hands on results, a join of any can wait for tasks of that graph alone")
    if (
        task.kind == Kind.GROUP
        or (task.join == Join.ANY and inside)
        or any(edge.parent in firm for edge in task.parents)
    ):
        return task
    return task._replace(parents=(*task.parents, Edge(-gate)))


@asynccontextmanager
async def open_transport(store: str | None, *, upkeep: bool = True) -> AsyncIterator[Transport]:
    """A transport to the store of this URL."""
    async with open_engine(store, upkeep=upkeep) as engine:
        yield EngineTransport(engine)


class Ganger(App):
    """An app on the store of this URL: `sqlite:<path>`, `memory:`, `http://...` (that of a server), or None for the one
    that the settings name.

    The store is opened at the first use and closed by `close` or at the end of a `with` block. `upkeep`: while it is
    open, this process also takes back lost leases and promotes what is due; any number of processes may do that.
    `name` is whose the schedules are that it declares: where several programs share a store, each has its own.
    """

    def __init__(self, store: str | None = None, *, name: str = DEFAULT_NAME, upkeep: bool = True) -> None:
        super().__init__(ThreadBridge(lambda: open_transport(store, upkeep=upkeep)), name, check_schedule)
        self.store = store
        self._locks = Locks(store)

    @property
    def file(self) -> Path | None:
        found = locate(load(Path.cwd(), store=self.store))
        return None if found is None else found.database

    def lock(self, name: str, *, wait: Span | None = None, ttl: Span = TTL) -> AppLock:
        """A lock that one program at a time holds, on whatever machine: `with app.lock("nightly") as lock:`.

        See `assembly/locks.py` for what it can be asked. `wait` is how long to wait for it, None as long as it takes.
        """
        return self._locks.lock(name, wait, ttl)

    def semaphore(self, name: str, slots: int, *, wait: Span | None = None, ttl: Span = TTL) -> AppLock:
        """As `lock`, for so many programs at a time; all of them have to agree upon how many."""
        return self._locks.semaphore(name, slots, wait, ttl)

    def leader(self, name: str, *, wait: Span | None = None, ttl: Span = TTL) -> AppLock:
        """As `lock`: its holder leads, as `ganger leader` shows, and who waits for it looks seldom."""
        return self._locks.leader(name, wait, ttl)

    def close(self) -> None:
        """Let go of the store. The next use opens it again."""
        self._locks.close()
        super().close()

    def outbox_row(self, call: Call[Any]) -> Row:
        """The row to be inserted into the application's own outbox: see `client/outbox.py`."""
        return row_for(call, SystemEntropy())

    def using(self, connection: Any) -> Inbox:
        """Where calls are written in a transaction of the application's own: see `client/inbox.py`.

        BadInput if the store is not in a PostgreSQL database.
        """
        return open_inbox(load(Path.cwd(), store=self.store), connection)
