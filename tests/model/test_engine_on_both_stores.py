"""The real engine does the same over SQLite as over the model: outcomes, retries, crashes, operators, upkeep."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ganger.core.errors import GangerError
from ganger.core.graph import Edge, On
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Crashed, Fail, Hold, Killed, Outcome, Release, Succeed
from ganger.core.queue import OnLost, Policy, with_retry
from ganger.core.retry import Delays, Exponential, Fixed, Retry
from ganger.core.task import Claimed, NewTask
from ganger.engine.engine import Engine
from ganger.engine.store import Change, Claim, Edit, Store, Tend
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.upkeep import Promoter, Reaper, Releaser
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.picture import Side, differ
from tests.folders import folder_in_memory

OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    [Succeed(), Succeed(b"r"), Fail(), Fail(7, "seven"), Fail(3, again=False), Fail(delay=900), Release(),
     Release(1_000, 3), Hold("aside"), Killed("asked"), Crashed("boom")]
)  # fmt: skip
BACKOFFS = st.sampled_from([Fixed(0), Fixed(500), Delays((100, 1_000)), Exponential(200, jitter=0.5)])
RETRIES = st.builds(
    Retry,
    st.integers(0, 3),
    BACKOFFS,
    st.just(((7, 2, Fixed(50)),)),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
)
PICK = st.integers(0, 1_000)
Ask = Callable[["Stage"], Awaitable[Any]]


class Stage:
    """One engine over one store, with the tasks that it was given."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.side = Side(store)
        self.engine = Engine(store, clock, SeededEntropy(7))
        self.chores = [chore(store, clock) for chore in (Reaper, Promoter, Releaser)]
        self.nodes: list[NodeId] = []
        self.claimed: list[Claimed] = []


class EngineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.stages = self.runner.run(self._open())

    async def _open(self) -> list[Stage]:
        folder = self.stack.enter_context(folder_in_memory())
        sqlite = await SqliteStore.open(folder / "store.db", self.clock, SeededEntropy(2))
        self.stack.push_async_callback(sqlite.close)
        stages = [Stage(store, self.clock) for store in (MemoryStore(self.clock, SeededEntropy(1)), sqlite)]
        for stage in stages:
            self.stack.push_async_callback(stage.engine.close)
        return stages

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def both(self, ask: Ask) -> Any:
        expected, found = (self.runner.run(self._ask(stage, ask)) for stage in self.stages)
        assert found == expected, f"over SQLite the engine answers\n{found}\nand over the model\n{expected}"
        return expected

    async def _ask(self, stage: Stage, ask: Ask) -> Any:
        try:
            return await ask(stage)
        except GangerError as error:
            return error.code

    @invariant()
    def both_look_the_same(self) -> None:
        expected, found = (self.runner.run(self._draw(stage)) for stage in self.stages)
        assert found == expected, "\n".join(differ(expected, found))

    async def _draw(self, stage: Stage) -> Any:
        await stage.side.learn()
        return await stage.side.draw()

    @initialize(retry=RETRIES, limit=st.none() | st.integers(1, 3), on_lost=st.sampled_from(OnLost))
    def begin(self, retry: Retry, limit: int | None, on_lost: OnLost) -> None:
        policy = with_retry(Policy(max_active=limit, max_per_key=1, on_lost=on_lost), retry)

        async def ask(stage: Stage) -> None:
            stage.side.queues.append((await stage.engine.queues.create("q", policy, by="test")).id)
            for name, lease in (("long", 600_000), ("short", 2_000)):
                node = await stage.engine.nodes.register(Registration(name, name, lease=lease))
                stage.nodes.append(node.id)
                stage.side.nodes.append(node.id)

        self.both(ask)

    @rule(
        shape=st.lists(st.tuples(st.none() | PICK, st.sampled_from(On), st.booleans(), st.integers(0, 900)), max_size=4)
    )
    def submit(self, shape: list[tuple[int | None, On, bool, int]]) -> None:
        async def ask(stage: Stage) -> int:
            known = stage.side.tasks
            tasks = [
                NewTask(
                    stage.side.queues[0], "function", delay=delay if delay > 600 else 0,
                    limit_key="k" if keyed else None,
                    parents=() if above is None or not known else (Edge(known[above % len(known)], on),),
                )
                for above, on, keyed, delay in shape
            ]  # fmt: skip
            stage.side.tasks += (submitted := (await stage.engine.submit(tasks)).ids)
            return len(submitted)

        self.both(ask)

    @rule(node=st.integers(0, 1), most=st.integers(1, 4), start=st.booleans())
    def claim(self, node: int, most: int, start: bool) -> None:
        async def ask(stage: Stage) -> Any:
            claimed = await stage.engine.claim(Claim(stage.nodes[node], (stage.side.queues[0],), most, start=start))
            stage.claimed += claimed
            return stage.side.draw_claimed(claimed)

        self.both(ask)

    @precondition(lambda self: self.stages[0].claimed)
    @rule(picks=st.lists(st.tuples(PICK, OUTCOMES), min_size=1, max_size=3), again=st.booleans())
    def settle(self, picks: list[tuple[int, Outcome]], again: bool) -> None:
        async def ask(stage: Stage) -> Any:
            items = [(stage.claimed[-1 - pick % len(stage.claimed)], outcome) for pick, outcome in picks]
            claim = Claim(stage.nodes[0], (stage.side.queues[0],), 2) if again else None
            settled = await stage.engine.settle(items, claim)
            stage.claimed += settled.claimed
            return settled.refused, stage.side.draw_claimed(settled.claimed), settled.next_due

        self.both(ask)

    @precondition(lambda self: self.stages[0].claimed)
    @rule(pick=PICK)
    def start_one(self, pick: int) -> None:
        self.both(lambda stage: stage.engine.start([stage.claimed[pick % len(stage.claimed)].lease]))

    @precondition(lambda self: self.stages[0].side.tasks)
    @rule(pick=PICK, what=st.sampled_from(["cancel", "hold", "kick", "kill", "change", "remove", "why", "again"]))
    def operate(self, pick: int, what: str) -> None:
        self.both(lambda stage: self._operate(stage.engine, stage.side.tasks[pick % len(stage.side.tasks)], what))

    async def _operate(self, engine: Engine, task: TaskId, what: str) -> Any:
        match what:
            case "cancel" | "hold" | "kick" | "kill":
                moved = await getattr(engine, what)([task], by="test")
                return len(moved.refused)
            case "change":
                await engine.edit([Edit(task, change=Change(priority=1))], by="test")
            case "remove":
                await engine.remove(task, by="test")
            case "again":
                return (await engine.retry_final(task, by="test")) is not None
            case _:
                return [reason.code for reason in (await engine.explain(task)).reasons]
        return None

    @rule(which=st.integers(0, 2))
    def tend(self, which: int) -> None:
        self.both(lambda stage: stage.chores[which].step())

    @rule(node=st.integers(0, 1))
    def beat(self, node: int) -> None:
        name = ("long", "short")[node]

        async def ask(stage: Stage) -> int:
            return len((await stage.engine.nodes.beat(stage.nodes[node], name)).kills)

        self.both(ask)

    @rule(milliseconds=st.sampled_from([1, 60, 700, 2_500]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)

    @rule()
    def come_back(self) -> None:
        async def ask(stage: Stage) -> None:
            node = await stage.engine.nodes.register(Registration("short", "short", lease=2_000))
            stage.nodes[1] = node.id
            if node.id not in stage.side.nodes:
                stage.side.nodes.append(node.id)
            await stage.engine.store.tend(Tend(lapse=True))

        self.both(ask)


TestEngineOnBothStores = pytest.mark.timeout(600)(pytest.mark.slow(EngineMachine.TestCase))
TestEngineOnBothStores.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
