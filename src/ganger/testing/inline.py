"""An app whose tasks run at once in the caller, on a store in memory, for tests of code that submits tasks.

Bodies run in the thread, and for async callers in the event loop, that submitted them, before the submit returns: a
debugger stops in them, and what the test patched is patched there too. Nothing else is pretended: the tasks are those
of a real engine, with its retries, graphs, keys, delays, conditions and schedules. Time is a fake clock: what is due
later waits until the test lets time pass. Commands and shell scripts are submitted, and wait: nothing here runs them,
nor the commands that conditions ask. Their files, ports and addresses are really looked at.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from io import StringIO
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from ganger.assembly.client import EngineTransport
from ganger.assembly.registry import open_parts
from ganger.assembly.settings import Settings
from ganger.client.app import App
from ganger.client.bridge import Shortcut, ThreadBridge, Work
from ganger.client.function import Function
from ganger.client.references import encode
from ganger.client.transport import Draft, Transport
from ganger.core.clock import Clock
from ganger.core.errors import BadInput
from ganger.core.ids import Position, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Outcome
from ganger.core.span import Span, to_ms
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.conditions import Judge
from ganger.engine.engine import Engine
from ganger.engine.schedules import TICK, Scheduler
from ganger.engine.store import Claim, Query, Tend
from ganger.node.functions.binding import find
from ganger.node.functions.context import CURRENT, Context, Pen
from ganger.node.functions.execution import Said, call, explain, read_spec, succeed
from ganger.node.functions.judging import judge
from ganger.node.functions.messages import Result
from ganger.node.functions.references import resolve
from ganger.node.probes import Probes
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.wire.specs import FunctionSpec, decode

R = TypeVar("R")
_NODE: Final = Registration("inline", "inline", kinds=(Kind.FUNCTION,))


class Job(NamedTuple):
    """A claimed task, and its spec with the results that it asks for in their places."""

    claimed: Claimed
    spec: bytes


class InlineTransport(EngineTransport):
    """The transport of an inline app: it also hands out what is to be run, and remembers what was submitted."""

    def __init__(self, engine: Engine, clock: Clock, probes: Probes) -> None:
        super().__init__(engine, clock)
        self.drafts: list[Draft] = []
        self._judge = Judge(engine, clock, probes)
        self._scheduler = Scheduler(engine, clock)
        self._seen = Position(0)

    async def submit(self, drafts: Any) -> list[TaskId]:
        ids = await super().submit(drafts)
        self.drafts += drafts
        return ids

    async def take(self) -> Job | None:
        """The next function that is ready, if any is; conditions are judged before the answer is none."""
        job = await self._claim()
        if job is None:
            await self._stir()
            job = await self._claim()
        return job

    async def _claim(self) -> Job | None:
        node = await self.engine.nodes.register(_NODE)
        queues = tuple(queue.id for queue in await self.engine.queues.all())
        for claimed in await self.engine.claim(Claim(node.id, queues, start=True)) if queues else ():
            try:
                return Job(claimed, await resolve(await self._spec(claimed), self._result))
            except BadInput as error:
                await self.settle(claimed, Fail(reason=str(error), again=False))
                return await self._claim()
        return None

    async def _spec(self, claimed: Claimed) -> bytes:
        return claimed.spec or (await self.engine.read_data(claimed.id, "spec", 0, self.engine.limits.payload)).body

    async def _result(self, task: TaskId) -> bytes:
        return (await self.engine.read_data(task, "result", 0, self.engine.limits.payload)).body

    async def settle(self, claimed: Claimed, outcome: Outcome) -> None:
        await self.engine.settle([(claimed, outcome)])

    async def promote(self) -> None:
        while (await self.engine.store.tend(Tend(promote=True))).more:
            pass

    async def _stir(self) -> None:
        """Make the ticks that are due, and judge conditions until none is decided any more."""
        while (await self._scheduler.step()).done:
            await self._note_ticks()
        while (await self._judge.step()).done:
            await self._judge.answered()

    async def _note_ticks(self) -> None:
        names = {queue.id: queue.name for queue in await self.engine.queues.all()}
        async for task in self.engine.walk(Query(after=self._seen)):
            self._seen = task.position
            if task.key is not None and task.key.startswith(TICK):
                spec = (await self.engine.read_data(task.id, "spec", 0, self.engine.limits.payload)).body
                self.drafts.append(Draft(names[task.queue], NewTask(task.queue, task.kind, spec, key=task.key)))


class Inline:
    """A `Bridge` that runs what is ready in the caller. `clock` is in the hands of the test."""

    def __init__(self, *, run: bool = True) -> None:
        self.clock = FakeClock()
        self._runs = run
        self._bridge = ThreadBridge(self._open)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Transport]:
        async with open_parts(Settings(store="memory:"), self.clock, SeededEntropy()) as parts:
            engine, probes = Engine(parts.store, parts.clock, parts.entropy, blobs=parts.blobs), Probes()
            try:
                yield InlineTransport(engine, parts.clock, probes)
            finally:
                probes.close()
                await engine.close()

    @property
    def drafts(self) -> list[Draft]:
        """What was submitted, in its order; the tasks of ticks are among it."""
        return self._bridge.run(_drafts)

    def work(self) -> None:
        """Run all that is ready by now."""
        self._bridge.run(_promote)
        while (job := self._bridge.run(_take)) is not None:
            outcome = _perform(job)
            self._bridge.run(_settling(job, outcome))

    async def awork(self) -> None:
        """Run all that is ready by now, async functions in the caller's event loop."""
        await self._bridge.arun(_promote)
        while (job := await self._bridge.arun(_take)) is not None:
            outcome = await _aperform(job)
            await self._bridge.arun(_settling(job, outcome))

    def advance(self, span: Span) -> None:
        """Let time pass: what is due by then is ready. Run it with `work`, or by the next use of the app."""
        self.clock.advance(to_ms(span, "span"))

    def run(self, work: Work[R], shortcut: Shortcut[R] | None = None) -> R:
        answer = self._bridge.run(work)
        if self._runs:
            self.work()
        return answer

    async def arun(self, work: Work[R]) -> R:
        answer = await self._bridge.arun(work)
        if self._runs:
            await self.awork()
        return answer

    def close(self) -> None:
        self._bridge.close()


@contextmanager
def inline(app: App, *, run: bool = True) -> Iterator[Inline]:
    """Within this block the app submits to a store in memory, and runs its functions at once unless `run` is False."""
    before, stage = app.bridge, Inline(run=run)
    app.bridge = stage
    try:
        yield stage
    finally:
        app.bridge = before
        stage.close()


def assert_scheduled(
    app: App, function: Function[..., Any, Any], *, cron: str | None = None, every: Span | None = None
) -> None:
    """Fail unless the app declares that it calls this function again and again, then or after such a time if given."""
    plans = [plan for plan in app.schedules if plan.draft.task.kind == Kind.FUNCTION]
    found = [plan.schedule for plan in plans if decode(plan.draft.task.spec, FunctionSpec).path == function.path]
    if not found:
        raise AssertionError(
            f"no schedule calls {function.path}, but {[plan.schedule.name for plan in plans]} are there"
        )
    interval = None if every is None else to_ms(every, "every")
    if not any(cron in (None, one.cron) and interval in (None, one.every) for one in found):
        times = [one.cron or f"every {one.every} ms" for one in found]
        raise AssertionError(f"{function.path} is called at {times}, not at {cron or f'every {interval} ms'}")


def assert_enqueued(app: App, function: Function[..., Any, Any], *args: Any, **kwargs: Any) -> None:
    """Fail unless a call with these arguments was submitted within `inline`; without arguments any call will do.

    What waits behind a condition was submitted too, and so was what a tick made.
    """
    if not isinstance(app.bridge, Inline):
        raise BadInput("assert_enqueued looks at what was submitted within `with inline(app):`")
    path = function.path
    specs = [decode(draft.task.spec, FunctionSpec) for draft in app.bridge.drafts if draft.task.kind == Kind.FUNCTION]
    calls = [_bound(function, spec.args, spec.kwargs) for spec in specs if spec.path == path]
    if not calls:
        raise AssertionError(f"no call of {path} was submitted, but {sorted({spec.path for spec in specs})}")
    if not (args or kwargs):
        return
    wanted: FunctionSpec = decode(encode(function.prepare(list(args), kwargs).spec).spec, FunctionSpec)
    if _bound(function, wanted.args, wanted.kwargs) not in calls:
        raise AssertionError(f"{path} was submitted with {calls}, not with {args} {kwargs}")


def _bound(function: Function[..., Any, Any], args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names of their parameters, so that it does not matter how they were given."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
    except TypeError:
        # A call that the function cannot take is submitted all the same, and fails when it runs.
        given = {"*": args, **kwargs}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given, enc_hook=repr))
    return plain


async def _drafts(transport: Transport) -> list[Draft]:
    return list(_inline(transport).drafts)


async def _promote(transport: Transport) -> None:
    await _inline(transport).promote()


async def _take(transport: Transport) -> Job | None:
    return await _inline(transport).take()


def _settling(job: Job, outcome: Outcome) -> Work[None]:
    return lambda transport: _inline(transport).settle(job.claimed, outcome)


def _inline(transport: Transport) -> InlineTransport:
    assert isinstance(transport, InlineTransport)
    return transport


class _Deaf:
    """Where a body's progress goes: nowhere; nobody asks it to stop."""

    def open(self, context: Context, stream: str) -> Pen:
        """A log is for those who look from outside."""
        return StringIO()

    def say(self, seq: int, percent: float | None, info: str | None) -> None:
        """Progress is for those who look from outside."""

    def is_unwanted(self, seq: int) -> bool:
        return False


@contextmanager
def _context(claimed: Claimed) -> Iterator[None]:
    token = CURRENT.set(Context(_Deaf(), 0, claimed.id, claimed.fence, claimed.attempts + 1))
    try:
        yield
    finally:
        CURRENT.reset(token)


def _perform(job: Job) -> Outcome:
    with _context(job.claimed):
        try:
            spec = read_spec(job.spec)
            target = find(spec.path)
            answer = call(spec, target)
            answer = _finish(answer) if inspect.isawaitable(answer) else answer
            said = succeed(spec.path, answer, target.parameters.returns)
        except (Exception, SystemExit) as error:
            said = explain(error)
    return _judge(said)


async def _aperform(job: Job) -> Outcome:
    with _context(job.claimed):
        try:
            spec = read_spec(job.spec)
            target = find(spec.path)
            answer = call(spec, target)
            answer = await answer if inspect.isawaitable(answer) else answer
            said = succeed(spec.path, answer, target.parameters.returns)
        except (Exception, SystemExit) as error:
            said = explain(error)
    return _judge(said)


def _judge(said: Said) -> Outcome:
    return judge(Result(0, said.how, said.body), None).outcome


def _finish(awaitable: Awaitable[Any]) -> Any:
    """Run it to its end, in a loop of its own; where a loop runs already, in a thread of its own too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_await(awaitable))
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _await(awaitable)).result()


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
