"""Conditions are judged: found when they are free, asked when it is time, and concluded with the branch they choose.

There may be a hundred thousand of them that wait for a time, so nothing is kept in memory but a time and an id for
each; what a condition says is read when it is due. Whoever submits a wait for a time gives it as the task's `due` too
(`new_condition` does), and it is not even read before.

*How a condition is found.* A new one by its position, behind the last one that was seen. One that waits for its
parents, or that somebody holds, is remembered by its id, and looked at again whenever something has happened in the
store; the more there are, the longer is the rest between two such looks, so that they never take more than a twentieth
of the time. One that was edited is looked for when its queue's tally of edits has grown. Nothing is right only because
of what is remembered: after a failure all is forgotten and found anew.

*Who judges.* Anybody, several at once too: a conclusion is a move that only a blocked condition can make, so the second
one is refused. Times and expressions are judged here. Files, ports, URLs and commands are questions about a place: they
go to the `Prober` that was handed in, if it takes the condition's labels; without one they are left to others. Where
several may ask, each does, and the first yes counts. A slow answer keeps no other condition waiting.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, assert_never

from ganger.core import expression
from ganger.core.clock import Clock, Wall
from ganger.core.condition import Answer, AskAgain, Choose, Elder, Fail, Ruling, Terms, free_since, rule
from ganger.core.errors import BadInput, NodeGone, NotAllowed, NotFound, StoreUnavailable, WrongStatus
from ganger.core.event import Fact
from ganger.core.ids import Position, QueueId, TaskId
from ganger.core.queue import Queue
from ganger.core.showing import say_error
from ganger.core.state import Status, is_final
from ganger.core.task import Kind, NewTask, Task
from ganger.engine.agenda import Agenda
from ganger.engine.engine import Engine
from ganger.engine.store import Query
from ganger.engine.upkeep import ALONE, Chore, LeaderGate, Stepped
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire import values
from ganger.wire.questions import check_condition
from ganger.wire.specs import (
    AfterDelay,
    AtTime,
    CommandExits,
    ConditionSpec,
    Expression,
    FileThere,
    PlacedProbe,
    PortAnswers,
    UrlAnswers,
    decode,
    due_of,
    encode,
)
from ganger.wire.unreadable import UNREADABLE

PAGE: Final = 1_000
SLICE: Final = 200
"""So many are judged at once; their conclusions share transactions."""

MOST_PARENTS: Final = 1_000
LARGEST_SPEC: Final = 64 << 10
LARGEST_RESULT: Final = 1 << 20
PROBES_AT_ONCE: Final = 64
PROBES_IN_LINE: Final = 1_000
NOT_YET: Final = 1_000
"""In milliseconds: when there is no room for a probe, or no store to take its answer, it is asked this much later."""

EDIT_SLACK: Final = 60_000
LOOK_SHARE: Final = 20
LONGEST_REST: Final = 30_000


class Prober(Protocol):
    """Asks about a place."""

    def takes(self, probe: PlacedProbe, queue: Queue, requires: Sequence[str]) -> bool:
        """May this be asked here, for a condition of this queue that requires these labels?"""
        ...

    async def probe(self, probe: PlacedProbe) -> bool:
        """The answer, within some seconds: what does not answer is False. BadInput, NotAllowed: it can never be asked.

        StoreUnavailable or NodeGone: it could not be asked now, which says nothing about the answer.
        """
        ...


def new_condition(queue: QueueId, spec: ConditionSpec, **fields: Any) -> NewTask:
    """A condition to be submitted. BadInput if it can never be asked."""
    check_condition(spec)
    fields.setdefault("due", plan_condition(spec))
    return NewTask(queue, Kind.CONDITION, encode(spec), **fields)


def plan_condition(spec: ConditionSpec) -> Wall | None:
    """The time before which nobody need look at it, to be stored as its `due`."""
    due = due_of(spec)
    return None if due is None else Wall(due)


class Above(NamedTuple):
    """A parent, and what the edge from it asks."""

    on: str
    task: Task


class _Line:
    """Questions of one sort that are being asked, or wait for it. Commands have their own: they may take minutes."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(PROBES_AT_ONCE)
        self.length = 0


class Judge(Chore):
    """Concludes conditions that are free and decided."""

    quiet = 100

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        prober: Prober | None = None,
        *,
        gate: LeaderGate = ALONE,
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__(engine.store, clock, gate=gate, telemetry=telemetry)
        self._engine = engine
        self._prober = prober
        self._agenda = Agenda()
        self._closed: set[TaskId] = set()
        self._seen = Position(0)
        self._edits: dict[QueueId, int] = {}
        self._checked = 0
        self._look_at = 0
        self._put_off_look = False
        self._asking: dict[TaskId, asyncio.Task[None]] = {}
        self._places, self._commands = _Line(), _Line()

    @property
    def waiting(self) -> int:
        """How many conditions it knows of."""
        return len(self._agenda) + len(self._closed) + len(self._asking)

    async def answered(self) -> None:
        """Wait until every question that is being asked has its answer."""
        while asking := list(self._asking.values()):
            await asyncio.gather(*asking, return_exceptions=True)

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self._hush()

    async def _hush(self) -> None:
        asking = list(self._asking.values())
        for question in asking:
            question.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._forget()

    async def step(self) -> Stepped:
        """Find what is new, look again at what was not free, judge what is due. Uses: find, tasks, counts, value,
        look, exchange.
        """
        try:
            await self._find_new()
            await self._look_again()
            judged = await self._judge_due()
        except BaseException:
            self._forget()
            raise
        wall = self._clock.wall()
        first = self._agenda.next()
        return Stepped(judged, first is not None and first <= wall, self._next_at(first, wall))

    def _next_at(self, first: int | None, wall: int) -> int | None:
        if not self._put_off_look:
            return first
        look = wall + max(0, self._look_at - self._clock.now())
        return look if first is None else min(look, first)

    def _forget(self) -> None:
        self._agenda.clear()
        self._closed.clear()
        self._edits.clear()
        self._seen = Position(0)
        self._look_at = 0
        self._put_off_look = False

    async def _find_new(self) -> None:
        newest = (await self._store.find(Query(newest_first=True, most=1))).tasks
        top = newest[0].position if newest else Position(0)
        query = Query(statuses=(Status.BLOCKED, Status.HELD), kind=Kind.CONDITION, most=PAGE)
        while self._seen < top:
            page = await self._store.find(query._replace(after=self._seen))
            for task in page.tasks:
                self._enter(task)
            self._seen = top if page.next is None else page.next

    def _enter(self, task: Task) -> None:
        if task.id in self._agenda or task.id in self._asking:
            return
        if _is_free(task):
            self._closed.discard(task.id)
            # What was changed since it was made may say another time than it was given as its due.
            self._agenda.plan(task.id, task.due or 0 if task.modified == task.created else 0)
        elif is_final(task.status):
            self._closed.discard(task.id)
        else:
            self._closed.add(task.id)

    async def _look_again(self) -> None:
        began = self._clock.now()
        self._put_off_look = began < self._look_at
        if self._put_off_look:
            return
        await self._look_at_closed()
        await self._look_at_edited()
        ended = self._clock.now()
        self._look_at = ended + min(LOOK_SHARE * (ended - began), LONGEST_REST)

    async def _look_at_closed(self) -> None:
        """Those that waited for their parents, or were held."""
        ids = iter(sorted(self._closed))
        while page := list(islice(ids, PAGE)):
            for task, found in zip(page, await self._store.tasks(page), strict=True):
                if found is None:
                    self._closed.discard(task)
                else:
                    self._enter(found)

    async def _look_at_edited(self) -> None:
        """Those that say something else now: looked for only in queues whose tally of edits has grown."""
        since, self._checked = min(self._checked, self._clock.wall()) - EDIT_SLACK, self._clock.wall()
        _, tallies = await self._store.counts()
        edits = {queue: told.get(Fact.EDITED, 0) for queue, told in tallies.items()}
        grown = [queue for queue, count in edits.items() if self._edits.get(queue, count) != count]
        self._edits = edits
        for queue in grown:
            query = Query(queue=queue, statuses=(Status.BLOCKED,), kind=Kind.CONDITION, most=PAGE)
            async for task in self._engine.walk(query):
                if task.modified >= since and task.id in self._agenda:
                    self._agenda.plan(task.id, 0)

    async def _judge_due(self) -> int:
        due = self._agenda.take(self._clock.wall(), SLICE)
        tasks = [task for task in await self._store.tasks(due) if task is not None] if due else []
        async with asyncio.TaskGroup() as together:
            for task in tasks:
                together.create_task(self._judge(task))
        return len(tasks)

    async def _judge(self, task: Task) -> None:
        if not _is_free(task):
            self._enter(task)
            return
        try:
            await self._consider(task, await self._read_spec(task.id))
        except NotFound as error:
            # It, or what it asks about, was removed meanwhile: the next look tells which.
            self._put_off(task.id, error)
        except BadInput as error:
            await self._follow(task.id, Fail(error.message))

    def _put_off(self, task: TaskId, error: Exception) -> None:
        self._tell.event("condition_put_off", task=task, error=name_fault(error))
        self._agenda.plan(task, self._clock.wall() + NOT_YET)

    async def _read_spec(self, task: TaskId) -> ConditionSpec:
        part = await self._engine.read_data(task, "spec", most=LARGEST_SPEC)
        if part.size > LARGEST_SPEC:
            raise BadInput(f"the spec of a condition has at most {LARGEST_SPEC} bytes, this one {part.size}")
        spec: ConditionSpec = decode(part.body, ConditionSpec)
        return spec

    async def _consider(self, task: Task, spec: ConditionSpec) -> None:
        probe, wall = spec.probe, self._clock.wall()
        if isinstance(probe, FileThere | PortAnswers | UrlAnswers | CommandExits):
            await self._ask(task, probe, await self._terms(task, spec))
            return
        match probe:
            case AtTime(at=at):
                answer = Answer(wall >= at, at)
            case AfterDelay(ms=ms):
                at = await self._since(task) + ms
                answer = Answer(wall >= at, at)
            case Expression(text=text):
                answer = await self._evaluate(task, text)
            case _:
                assert_never(probe)
        await self._follow(task.id, rule(await self._terms(task, spec), answer, wall))

    async def _terms(self, task: Task, spec: ConditionSpec) -> Terms:
        deadline = None if spec.deadline is None else await self._since(task) + spec.deadline
        return Terms(spec.wait, spec.every, deadline, spec.otherwise)

    async def _since(self, task: Task) -> int:
        elders = [Elder(on, up.status, up.branch, up.ended) for on, up in await self._above(task)]
        return free_since(task.created, task.join, elders)

    async def _above(self, task: Task) -> list[Above]:
        parents = (await self._engine.look(task.id, MOST_PARENTS)).family.parents
        found = await self._store.tasks([parent for parent, _ in parents]) if parents else []
        return [Above(on, up) for (_, on), up in zip(parents, found, strict=True) if up is not None]

    async def _evaluate(self, task: Task, text: str) -> Answer:
        above = [up for _, up in await self._above(task)]
        reads = expression.names_results(text)
        parents = {
            int(up.id): expression.Parent(up.status, await self._read_result(up.id) if reads else None) for up in above
        }
        return Answer(expression.evaluate(text, parents), fixed=all(is_final(up.status) for up in above))

    async def _read_result(self, parent: TaskId) -> Any:
        part = await self._engine.read_data(parent, "result", most=LARGEST_RESULT)
        if part.size > LARGEST_RESULT:
            raise BadInput(f"the result of task {parent} is too large for an expression: {part.size} bytes")
        try:
            return values.decode(part.body)
        except UNREADABLE:
            return part.body.decode("utf-8", "replace")

    async def _follow(self, task: TaskId, ruling: Ruling) -> None:
        match ruling:
            case Choose(branch):
                await self._conclude(task, branch, None)
            case Fail(reason):
                await self._conclude(task, True, reason)
            case AskAgain(at):
                self._agenda.plan(task, at)
            case _:
                assert_never(ruling)

    async def _conclude(self, task: TaskId, branch: bool, failed: str | None) -> None:
        try:
            await self._engine.conclude(task, branch, failed)
        except WrongStatus:
            # Somebody held it, or was quicker: the next look tells which.
            self._closed.add(task)
        except NotFound:
            return

    async def _ask(self, task: Task, probe: PlacedProbe, terms: Terms) -> None:
        prober = self._prober
        if prober is None or not prober.takes(probe, await self._engine.queues.get(task.queue), task.requires):
            return
        line = self._commands if isinstance(probe, CommandExits) else self._places
        if line.length >= PROBES_IN_LINE:
            self._agenda.plan(task.id, self._clock.wall() + NOT_YET)
            return
        line.length += 1
        question = self._asking[task.id] = asyncio.create_task(self._probe(line, prober, task.id, probe, terms))
        question.add_done_callback(lambda _: self._leave(line, task.id))

    def _leave(self, line: _Line, task: TaskId) -> None:
        line.length -= 1
        del self._asking[task]
        self._woken.set()

    async def _probe(self, line: _Line, prober: Prober, task: TaskId, probe: PlacedProbe, terms: Terms) -> None:
        try:
            async with line.room:
                ruling = await self._answer(prober, probe, terms)
            await self._follow(task, ruling)
        except Exception as error:
            self._put_off(task, error)

    async def _answer(self, prober: Prober, probe: PlacedProbe, terms: Terms) -> Ruling:
        try:
            truth = await prober.probe(probe)
        except (BadInput, NotAllowed) as error:
            return Fail(error.message)
        except Exception as error:
            # A probe that breaks has not answered; one that is asked only once must not be taken for a no.
            self._tell.event("probe_broke", probe=type(probe).__name__, error=name_fault(error))
            if not terms.wait and isinstance(error, StoreUnavailable | NodeGone):
                raise
            if not terms.wait:
                return Fail(f"the probe broke: {say_error(error, 200)}")
            truth = False
        return rule(terms, Answer(truth), self._clock.wall())


def _is_free(task: Task) -> bool:
    return task.status == Status.BLOCKED and not task.waits
