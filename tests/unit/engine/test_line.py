"""Waiting for work: in order, without polling, without a crowd at the store, and without losing a wake-up."""

import asyncio
from collections.abc import Sequence

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import NodeGone, StoreUnavailable
from ganger.core.ids import NodeId
from ganger.core.node import Node
from ganger.core.outcome import Fail, Succeed
from ganger.core.retry import Fixed, Retry, to_text
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind
from ganger.engine.line import IDLE_PARTIES
from ganger.engine.party import Party
from ganger.engine.store import Exchanged
from ganger.runtime.clock import SystemClock
from tests.unit.engine.stage import Stage, play, settle_down

Waiting = asyncio.Task[list[Claimed]]


async def line_up(
    stage: Stage, nodes: Sequence[Node | None], timeout: float | None = None, most: int = 1
) -> list[Waiting]:
    waiting = []
    for node in nodes:
        waiting.append(asyncio.create_task(stage.engine.wait_claim(stage.ask(most, node), timeout)))
        await settle_down()
    return waiting


async def dismiss(waiting: Sequence[Waiting]) -> None:
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def served(waiting: Sequence[Waiting]) -> list[int]:
    return [index for index, one in enumerate(waiting) if one.done()]


def test_what_is_ready_is_given_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(3)
        assert [one.id for one in await stage.engine.wait_claim(stage.ask(2))] == ids[:2]

    play(scenario)


def test_who_got_less_than_it_asked_for_asks_again_only_when_something_came() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        assert len(await stage.engine.wait_claim(stage.ask(2))) == 1
        asked = stage.store.asked["exchange"]
        (waiting,) = await line_up(stage, [stage.node], most=2)
        assert stage.store.asked["exchange"] == asked
        await stage.submit_many(1)
        assert len(await waiting) == 1

    play(scenario)


def test_whoever_came_first_is_served_first() -> None:
    async def scenario(stage: Stage) -> None:
        bob = await stage.join("bob")
        waiting = await line_up(stage, [stage.node, bob, stage.node, bob, stage.node])
        for turn in range(5):
            await stage.submit_many(1)
            await settle_down()
            assert served(waiting) == list(range(turn + 1))

    play(scenario)


def test_a_batch_serves_as_many_as_it_has_tasks_in_the_order_of_the_line() -> None:
    async def scenario(stage: Stage) -> None:
        waiting = await line_up(stage, [None] * 20)
        ids = await stage.submit_many(13)
        await settle_down()
        assert served(waiting) == list(range(13))
        assert [waiting[n].result()[0].id for n in range(13)] == ids
        await dismiss(waiting)

    play(scenario)


def test_those_who_wait_ask_the_store_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        nodes = [await stage.join(f"node {n}") for n in range(50)]
        waiting = await line_up(stage, nodes)
        stage.store.asked.clear()
        await settle_down(500)
        assert not stage.store.asked
        await dismiss(waiting)

    play(scenario)


def test_a_crowd_costs_the_store_a_few_questions_and_not_one_each() -> None:
    async def scenario(stage: Stage) -> None:
        nodes = [await stage.join(f"node {n}") for n in range(200)]
        waiting = [asyncio.create_task(stage.engine.wait_claim(stage.ask(1, node))) for node in nodes for _ in range(5)]
        await settle_down()
        stage.store.asked.clear()
        await stage.submit_many(1)
        await settle_down()
        assert served(waiting) == [0]
        assert stage.store.asked["exchange"] <= 5
        await dismiss(waiting)

    play(scenario)


def test_tasks_that_come_in_a_stream_are_taken_by_a_few_questions() -> None:
    async def scenario(stage: Stage) -> None:
        got = 0

        async def take() -> None:
            nonlocal got
            while got < 300:
                got += len(await stage.engine.wait_claim(stage.ask(100)))

        taking = asyncio.create_task(take())
        await settle_down()
        stage.store.asked.clear()
        for _ in range(300):
            await stage.submit_many(1)
            await asyncio.sleep(0)
        await asyncio.wait_for(taking, 60)
        assert stage.store.asked["exchange"] <= 100

    play(scenario)


def test_while_there_is_enough_more_and_more_ask_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        waiting = await line_up(stage, [None] * 40)
        stage.store.most_at_once.clear()
        await stage.submit_many(40)
        await asyncio.gather(*waiting)
        assert stage.store.most_at_once["exchange"] >= 8

    play(scenario)


def test_a_waiter_that_came_later_does_not_ask_when_the_line_knows_there_is_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        bob, eve = await stage.join("bob"), await stage.join("eve")
        waiting = await line_up(stage, [stage.node, bob])
        stage.store.asked.clear()
        waiting += await line_up(stage, [eve, stage.node, bob])
        assert not stage.store.asked
        await dismiss(waiting)

    play(scenario)


def test_the_time_limit_ends_a_wait_with_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.engine.wait_claim(stage.ask(), 0.01) == []
        (task,) = await stage.submit_many(1)
        assert (await stage.take_one()).id == task

    play(scenario)


def test_a_time_limit_of_nothing_still_gives_what_is_ready() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        assert [one.id for one in await stage.engine.wait_claim(stage.ask(), 0)] == [task]
        assert await stage.engine.wait_claim(stage.ask(), 0) == []

    play(scenario)


def test_a_cancelled_wait_leaves_the_line_and_what_it_got_goes_back() -> None:
    async def scenario(stage: Stage) -> None:
        first, second = await line_up(stage, [None, None])
        stage.store.gates["exchange"] = asyncio.Event()
        stage.store.entered.clear()
        (task,) = await stage.submit_many(1)
        await stage.store.entered.wait()
        first.cancel()
        stage.store.gates.pop("exchange").set()
        ((claimed,),) = await asyncio.gather(second)
        assert (claimed.id, claimed.fence) == (task, 2)
        assert (await stage.get(task)).releases == 1

    play(scenario)


@pytest.mark.parametrize("ticks", range(12))
def test_a_wait_that_is_cancelled_at_any_instant_loses_no_task(ticks: int) -> None:
    async def scenario(stage: Stage) -> None:
        (waiting,) = await line_up(stage, [None])
        (task,) = await stage.submit_many(1)
        await settle_down(ticks)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await settle_down()
        assert waiting.cancelled() == (await stage.status(task) == Status.QUEUED)

    play(scenario)


def test_a_wake_up_during_the_look_is_not_lost() -> None:
    async def scenario(stage: Stage) -> None:
        stage.store.gates["exchange"] = gate = asyncio.Event()
        (waiting,) = await line_up(stage, [None])
        await stage.store.entered.wait()
        ids = await stage.submit_many(1)
        gate.set()
        assert [one.id for one in await waiting] == ids

    play(scenario)


def test_holders_of_other_kinds_are_not_hidden_by_those_before_them() -> None:
    async def scenario(stage: Stage) -> None:
        shells = [await stage.join(f"shell {n}", kinds=(Kind.SHELL,)) for n in range(5)]
        caller = await stage.join("caller", kinds=(Kind.FUNCTION,))
        waiting = await line_up(stage, [*shells, caller])
        await stage.submit_many(1, kind=Kind.FUNCTION)
        await settle_down()
        assert served(waiting) == [5]
        await dismiss(waiting)

    play(scenario)


def test_a_task_that_avoids_the_eldest_goes_to_the_next() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(retry=to_text(Retry(5, Fixed(0))))
        bob = await stage.join("bob")
        await stage.submit_many(1)
        failed = await stage.take_one()
        waiting = await line_up(stage, [stage.node, stage.node, bob])
        await stage.engine.settle([(failed, Fail())])
        await settle_down()
        assert served(waiting) == [2]
        await dismiss(waiting)

    play(scenario)


def test_a_task_that_avoids_the_only_one_who_waits_is_its_own_when_the_other_node_leaves() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(retry=to_text(Retry(5, Fixed(0))))
        bob = await stage.join("bob")
        await stage.submit_many(1)
        failed = await stage.take_one()
        (waiting,) = await line_up(stage, [stage.node])
        await stage.engine.settle([(failed, Fail())])
        await settle_down()
        assert not waiting.done()
        await stage.engine.nodes.leave(bob.id, "token of bob")
        assert [one.id for one in await waiting] == [failed.id]

    play(scenario)


def test_the_due_time_that_one_learnt_is_not_forgotten_when_another_learns_of_none() -> None:
    party = Party("key", ("queue:1",), personal=False)
    party.got_nothing(NodeId(1), Exchanged([], [], Wall(5_000)), 0)
    party.got_nothing(NodeId(2), Exchanged([], []), 0)
    assert party.due == 5_000
    party.wake()
    assert party.due is None


def test_one_who_leaves_while_tasks_are_gathered_sends_nobody_else_away() -> None:
    async def scenario(stage: Stage) -> None:
        other = await stage.engine.queues.create("other", by="test")
        (elsewhere,) = await line_up(stage, [None])
        stage.store.gates["exchange"] = asyncio.Event()
        asking = asyncio.create_task(stage.engine.wait_claim(stage.ask(2, queues=(other.id,))))
        await stage.store.entered.wait()
        await stage.submit_many(1, queue=other.id)
        await settle_down()
        stage.store.gates.pop("exchange").set()
        await settle_down()
        await dismiss([asking])
        serving = stage.engine._line._serving
        assert serving is not None
        await serving
        assert not elsewhere.done()
        await stage.submit_many(1)
        assert len(await elsewhere) == 1

    play(scenario)


def test_a_delayed_task_comes_when_it_is_due() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(1, delay=60)
        assert [one.id for one in await stage.engine.wait_claim(stage.ask(), 5)] == ids

    play(scenario, clock=SystemClock())


def test_a_delayed_task_that_comes_while_one_waits_is_given_when_it_is_due() -> None:
    async def scenario(stage: Stage) -> None:
        waiting = await line_up(stage, [None, None], timeout=5)
        ids = await stage.submit_many(2, delay=60)
        assert [one.id for claimed in await asyncio.gather(*waiting) for one in claimed] == ids

    play(scenario, clock=SystemClock())


def test_one_who_comes_back_to_a_due_time_that_is_known_is_woken_by_it() -> None:
    async def scenario(stage: Stage) -> None:
        other = await stage.engine.queues.create("other", by="test")
        ids = await stage.submit_many(1, delay=150)
        assert await stage.engine.wait_claim(stage.ask(), 0.01) == []
        assert await stage.engine.wait_claim(stage.ask(queues=(other.id,)), 0.01) == []
        assert [one.id for one in await stage.engine.wait_claim(stage.ask(), 5)] == ids

    play(scenario, clock=SystemClock())


def test_a_paused_queue_gives_when_its_pause_ends_or_is_ended() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        await stage.engine.queues.pause(stage.queue.id, 60, by="test")
        assert len(await stage.engine.wait_claim(stage.ask(), 5)) == 1
        await stage.engine.queues.pause(stage.queue.id, by="test")
        (waiting,) = await line_up(stage, [None])
        assert not waiting.done()
        await stage.engine.queues.resume(stage.queue.id, by="test")
        assert len(await waiting) == 1

    play(scenario, clock=SystemClock())


def test_a_limit_that_is_raised_or_freed_lets_the_line_go_on() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(max_active=1)
        await stage.submit_many(3)
        held = await stage.take_one()
        waiting = await line_up(stage, [None, None])
        await stage.engine.settle([(held, Succeed())])
        await settle_down()
        (first,) = await waiting[0]
        assert not waiting[1].done()
        await stage.set_policy(max_active=2)
        (second,) = await waiting[1]
        assert {first.id, second.id} == {2, 3}

    play(scenario)


def test_slots_that_become_free_in_another_queue_are_noticed() -> None:
    async def scenario(stage: Stage) -> None:
        other = await stage.engine.queues.create("other", by="test")
        busy = await stage.join("busy", slots=1)
        await stage.submit_many(1)
        held = await stage.take_one(busy)
        (waiting,) = await line_up_for(stage, busy, other.id)
        await stage.submit_many(1, queue=other.id)
        await settle_down()
        assert not waiting.done()
        await stage.engine.settle([(held, Succeed())])
        assert len(await waiting) == 1

    async def line_up_for(stage: Stage, node: Node, queue: int) -> list[Waiting]:
        waiting = asyncio.create_task(stage.engine.wait_claim(stage.ask(1, node, queues=(queue,))))
        await settle_down()
        return [waiting]

    play(scenario)


def test_one_who_lost_its_registration_learns_it_and_the_others_go_on() -> None:
    async def scenario(stage: Stage) -> None:
        bob = await stage.join("bob")
        waiting = await line_up(stage, [bob, stage.node])
        await stage.engine.nodes.leave(bob.id, "token of bob")
        await stage.submit_many(1)
        assert len(await waiting[1]) == 1
        with pytest.raises(NodeGone):
            await waiting[0]

    play(scenario)


def test_a_store_that_cannot_serve_is_told_to_all_who_wait() -> None:
    async def scenario(stage: Stage) -> None:
        waiting = await line_up(stage, [None] * 5)
        stage.store.faults["exchange"] = StoreUnavailable("gone")
        await stage.submit_many(1)
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        stage.store.faults.clear()
        assert len(await stage.engine.wait_claim(stage.ask())) == 1

    play(scenario)


def test_after_a_reset_everybody_looks_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.store.deaf = True
        (waiting,) = await line_up(stage, [None])
        await stage.submit_many(1)
        await settle_down()
        assert not waiting.done()
        stage.store.reset()
        assert len(await waiting) == 1

    play(scenario)


def test_parties_that_nobody_is_in_are_forgotten_after_a_while() -> None:
    async def scenario(stage: Stage) -> None:
        nodes = [await stage.join(f"n{n}", labels=(f"l{n}",)) for n in range(20)]
        line = stage.engine._line
        assert IDLE_PARTIES >= 100
        for node in nodes:
            assert await stage.engine.wait_claim(stage.ask(1, node), 0) == []
        assert len(line._idle) == len(line._parties) == 20
        for party in list(line._parties.values()):
            line._idle.pop(party.key)
            line._dismiss(party)
        assert set(line._unlisten) == {"queues", "nodes", "reset"}

    play(scenario)


def test_closing_sends_everybody_home() -> None:
    async def scenario(stage: Stage) -> None:
        waiting = await line_up(stage, [None, None])
        await stage.engine.close()
        assert await asyncio.gather(*waiting) == [[], []]

    play(scenario)


def test_many_producers_and_many_who_wait_lose_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        nodes = [await stage.join(f"n{n}") for n in range(4)]
        done: set[int] = set()

        async def work(node: Node) -> None:
            while len(done) < 400:
                for one in await stage.engine.wait_claim(stage.ask(3, node), 0.2):
                    assert one.id not in done
                    await stage.engine.settle([(one, Succeed())])
                    done.add(one.id)

        async def produce() -> None:
            for _ in range(50):
                await stage.submit_many(2)
                await asyncio.sleep(0)

        await asyncio.gather(*(work(node) for node in nodes for _ in range(5)), *(produce() for _ in range(4)))
        assert len(done) == 400

    play(scenario)
