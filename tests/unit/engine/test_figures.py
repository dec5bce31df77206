"""How much there is to do: depth, age, rates, wanted workers."""

import pytest

from ganger.core.node import Registration, Vitals
from ganger.core.outcome import Release, Succeed
from ganger.core.queue import Policy
from ganger.core.state import Status
from ganger.engine.figures import WINDOW, Figures, Meter
from ganger.engine.store import Page, Query, Store
from tests.unit.engine.stage import Stage, play


async def read(stage: Stage, slots: int | None = None, meter: Meter | None = None) -> Figures:
    (figures,) = await (meter or Meter(stage.store, stage.clock)).read(slots)
    return figures


def test_an_empty_queue_wants_nobody_and_costs_no_search() -> None:
    async def scenario(stage: Stage) -> None:
        figures = await read(stage)
        assert (figures.ready, figures.running, figures.oldest) == (0, 0, None)
        assert (figures.wanted_slots, figures.wanted_workers, dict(figures.rates)) == (0, 0, {})
        assert stage.store.asked["find"] == 0

    play(scenario)


def test_the_age_is_that_of_the_first_task_that_is_ready() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        stage.fake.advance(5_000)
        await stage.submit_many(2)
        stage.fake.advance(1_000)
        assert (await read(stage)).oldest == 6_000
        await stage.take()
        figures = await read(stage)
        assert (figures.ready, figures.running, figures.claimed, figures.oldest) == (2, 0, 1, 1_000)

    play(scenario)


@pytest.mark.parametrize(("slots", "workers"), [(None, 10), (4, 3), (100, 1)])
def test_workers_are_wanted_when_none_is_there_at_all(slots: int | None, workers: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        await stage.submit_many(10)
        figures = await read(stage, slots)
        assert (figures.wanted_slots, figures.wanted_workers) == (10, workers)

    play(scenario)


def test_those_who_are_there_say_how_many_slots_a_worker_has() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        await stage.engine.nodes.register(Registration("four", "x", slots=4))
        await stage.engine.nodes.register(Registration("other", "x", slots=100, queues=("elsewhere",)))
        await stage.submit_many(10)
        assert (await read(stage)).wanted_workers == 3

    play(scenario)


@pytest.mark.parametrize(
    ("policy", "slots", "workers"),
    [
        (Policy(max_active=6), 6, 2), (Policy(max_per_node=1), 10, 10), (Policy(max_per_node=0), 10, 0),
        (Policy(pin=("a", "b")), 10, 2), (Policy(max_active=0), 0, 0),
    ],
)  # fmt: skip
def test_limits_of_the_queue_bound_what_is_wanted(policy: Policy, slots: int, workers: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(10)
        await stage.engine.queues.change(stage.queue.id, policy, by="test")
        figures = await read(stage, 4)
        assert (figures.wanted_slots, figures.wanted_workers) == (slots, workers)

    play(scenario)


def test_a_paused_queue_wants_those_that_run_alone() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(10)
        claimed, _ = await stage.take(2)
        await stage.engine.start([claimed.lease])
        await stage.engine.queues.pause(stage.queue.id, 60_000, by="test")
        figures = await read(stage)
        assert (figures.paused, figures.running, figures.claimed, figures.wanted_slots) == (True, 1, 1, 2)

    play(scenario)


def test_rates_are_differences_of_counters_over_the_last_minute() -> None:
    async def scenario(stage: Stage) -> None:
        meter = Meter(stage.store, stage.clock)
        meter.sample((await stage.engine.counts())[1])
        assert dict((await read(stage, meter=meter)).rates) == {}
        await stage.submit_many(20)
        stage.fake.advance(10_000)
        for _ in range(5):
            await stage.engine.settle([(await stage.take_one(), Succeed())])
        rates = (await read(stage, meter=meter)).rates
        assert (rates["submitted"], rates["settled"]) == (2, 0.5)
        stage.fake.advance(WINDOW)
        assert dict((await read(stage, meter=meter)).rates) == {}

    play(scenario)


class Walking:
    """A store that looks at a few tasks at a time, and says how often it was asked."""

    def __init__(self, store: Store, step: int = 10) -> None:
        self._store = store
        self._step = step
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def find(self, query: Query) -> Page:
        self.asked += 1
        seen = await self._store.find(Query(query.queue, after=query.after, most=self._step))
        ready = [task for task in seen.tasks if task.status == Status.QUEUED][: query.most]
        if len(ready) == query.most:
            return Page(ready, ready[-1].position)
        return Page(ready, seen.next)


def test_a_long_search_goes_on_where_it_ended() -> None:
    async def scenario(stage: Stage) -> None:
        walking = Walking(stage.memory)
        meter = Meter(walking, stage.clock)  # type: ignore[arg-type]
        await stage.submit_many(200)
        for claimed in await stage.take(199):
            await stage.engine.settle([(claimed, Succeed())])
        stage.fake.advance(1_000)
        ages = [(await read(stage, meter=meter)).oldest for _ in range(5)]
        assert ages == [None, None, None, 1_000, 1_000]
        assert walking.asked <= 5 * 10

    play(scenario)


def test_what_is_tried_again_is_found_although_the_search_has_passed_it() -> None:
    async def scenario(stage: Stage) -> None:
        meter = Meter(Walking(stage.memory), stage.clock)  # type: ignore[arg-type]
        await stage.submit_many(100)
        first, *others = await stage.take(99)
        for claimed in others:
            await stage.engine.settle([(claimed, Succeed())])
        for _ in range(3):
            await read(stage, meter=meter)
        await stage.engine.settle([(first, Release())])
        stage.fake.advance(1_000)
        await stage.engine.settle([(claimed, Succeed()) for claimed in await stage.take(1) if claimed.id != first.id])
        ages = [(await read(stage, meter=meter)).oldest for _ in range(4)]
        assert ages[-1] == 1_000

    play(scenario)


def test_one_that_came_back_does_not_hide_those_that_have_waited_for_longer() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        claimed = await stage.take_one()
        stage.fake.advance(5_000)
        await stage.engine.settle([(claimed, Release())])
        stage.fake.advance(1_000)
        assert (await read(stage)).oldest == 6_000

    play(scenario)


def test_workers_have_the_slots_that_they_tell_of_themselves() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(10)
        await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=5))
        assert (await read(stage)).wanted_workers == 2

    play(scenario)
