"""The SDK as a program uses it, its tasks run at once."""

import asyncio
import math
import threading
from collections.abc import Iterator
from datetime import date

import pytest

from ganger import Status, TaskFailed, TaskHeld
from ganger.assembly.client import EngineTransport
from ganger.client import Graph, Handle, Transport, command
from ganger.core.errors import BadInput
from ganger.testing.inline import Inline, assert_enqueued, inline
from tests.unit.client.shop import add, app, fan, halve, moody, next_year, opaque, refuse, total, where


@pytest.fixture
def stage() -> Iterator[Inline]:
    with inline(app) as stage:
        yield stage


def test_a_decorated_function_stays_what_it_was() -> None:
    assert add(1, b=2) == 3
    assert repr(add) == "<task function tests.unit.client.shop:add>"
    assert asyncio.run(next_year(date(2024, 1, 1))) == date(2025, 1, 1)


@pytest.mark.usefixtures("stage")
def test_a_delayed_call_has_a_result() -> None:
    handle = add.delay(1, b=2)

    assert handle.wait(60)
    assert (handle.result(60), handle.status) == (3, Status.SUCCEEDED)


@pytest.mark.usefixtures("stage")
def test_an_async_function_gives_a_result_of_its_own_type() -> None:
    assert next_year.delay(date(2024, 2, 1)).result(60) == date(2025, 2, 1)


@pytest.mark.usefixtures("stage")
def test_numbers_that_json_does_not_know_arrive_and_come_back() -> None:
    first = halve.delay([math.nan, math.inf, 4.0])

    assert str(first.result(60)) == "[nan, inf, 2.0]"
    with app.graph() as graph:
        last = graph.task(halve, graph.task(halve, [-math.inf]).result)
    assert last.handle.result(60) == [-math.inf]


@pytest.mark.usefixtures("stage")
def test_async_code_awaits_what_blocking_code_waits_for() -> None:
    async def ask() -> tuple[int, date, int]:
        async with asyncio.timeout(60):
            handle = await add.enqueue(2)
            many = await add.enqueue_map([1, 2])
            assert await handle.status() is Status.SUCCEEDED
            return await handle, await next_year.delay(date(2024, 2, 1)).aio, await many[1].result()

    assert asyncio.run(ask()) == (3, date(2025, 2, 1), 3)


@pytest.mark.usefixtures("stage")
def test_a_map_keeps_the_order() -> None:
    assert [handle.result(60) for handle in add.map(range(20))] == list(range(1, 21))


def test_many_are_waited_for_at_once(stage: Inline) -> None:
    handles = [*add.map([1, 2]), add.using(delay=1).delay(3)]

    async def wait() -> bool:
        return await app.async_wait([handle.aio for handle in handles], 5)

    assert not app.wait(handles, 0)
    stage.clock.advance(1_000)
    stage.work()
    assert app.wait(handles, 5)
    assert asyncio.run(wait())


@pytest.mark.usefixtures("stage")
def test_a_failed_task_raises_with_the_remote_traceback() -> None:
    with pytest.raises(TaskFailed, match=r"(?s)ended failed.*shop\.py.*ValueError: not that") as raised:
        refuse.delay("that").result(60)

    assert raised.value.status is Status.FAILED


@pytest.mark.usefixtures("stage")
def test_a_result_that_is_no_json_fails_the_task() -> None:
    with pytest.raises(TaskFailed, match="not JSON"):
        opaque.delay().result(60)


@pytest.mark.usefixtures("stage")
def test_an_argument_that_is_no_json_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match=r"the argument a: .* cannot be told"):
        add.delay(object())  # type: ignore[arg-type]


@pytest.mark.usefixtures("stage")
def test_a_function_inside_a_function_is_refused() -> None:
    @app.task
    def hidden() -> None: ...

    with pytest.raises(BadInput, match="inside a function"):
        hidden.delay()


@pytest.mark.usefixtures("stage")
def test_a_handle_as_an_argument_is_its_result() -> None:
    assert add.delay(add.delay(1)).result(60) == 3  # type: ignore[arg-type]


@pytest.mark.usefixtures("stage")
def test_bodies_run_in_the_thread_of_the_caller() -> None:
    assert where.delay().result(60) == threading.get_ident()


@pytest.mark.usefixtures("stage")
def test_a_body_may_submit_tasks_itself() -> None:
    assert [app.handle(task).result(60) for task in fan.delay(3).result(60)] == [0, 1, 2]


@pytest.mark.parametrize("mood", ["retry", "snooze", "an error"])
def test_what_comes_back_waits_until_it_is_due(stage: Inline, mood: str) -> None:
    handle = moody.delay(mood)

    before = handle.status
    stage.clock.advance(60_000)
    stage.work()
    assert (before, handle.status) == (Status.DELAYED, Status.SUCCEEDED)


def test_a_retry_counts_as_an_attempt_and_a_snooze_does_not(stage: Inline) -> None:
    retried, snoozed, spent = moody.delay("retry"), moody.delay("snooze"), moody.using(retries=0).delay("retry")

    stage.clock.advance(1_000)
    stage.work()
    assert (retried.result(60), snoozed.result(60)) == (2, 1)
    with pytest.raises(TaskFailed, match="tried again"):
        spent.result(60)


@pytest.mark.usefixtures("stage")
def test_a_body_that_cancels_itself_is_over() -> None:
    with pytest.raises(TaskFailed, match=r"(?s)terminated.*of no use"):
        moody.delay("cancel").result(60)


def test_a_delay_is_kept(stage: Inline) -> None:
    handle = add.using(delay=5).delay(1)

    assert not handle.wait(0)
    with pytest.raises(TimeoutError):
        handle.result(0)
    assert "not_due" in [reason.code for reason in handle.why().reasons]
    stage.clock.advance(5_000)
    assert handle.status is Status.DELAYED
    assert handle.result(60) == 2


@pytest.mark.usefixtures("stage")
def test_options_are_on_a_copy() -> None:
    urgent = add.using(queue="urgent", priority=1, retries=4, timeout=100)

    urgent_task, plain_task = urgent.delay(1).task(), add.delay(1).task()

    assert (urgent_task.priority, urgent_task.timeout, plain_task.timeout) == (1, 100_000, None)
    assert urgent_task.queue != plain_task.queue


@pytest.mark.usefixtures("stage")
def test_the_same_key_is_the_same_task() -> None:
    once = add.using(key="once")

    assert once.delay(1).id == once.delay(1).id
    with pytest.raises(BadInput, match="one key"):
        once.map([1, 2])


@pytest.mark.usefixtures("stage")
def test_results_flow_through_a_graph() -> None:
    with app.graph() as graph:
        first = graph.task(add, 1, 1)
        second = graph.task(add, first.result, b=first.result)
        third = graph.task(total, [first.result, second.result, 10])

    assert (second.handle.result(60), third.handle.result(60)) == (4, 16)


@pytest.mark.usefixtures("stage")
def test_an_edge_may_ask_for_a_failure() -> None:
    with app.graph() as graph:
        bad = graph.task(refuse)
        rescue = graph.task(add, 1, after=bad.failed)
        never = graph.task(add, 1, after=bad)
        after_all = graph.task(add, 2, after=[bad.finished, rescue])

    assert rescue.handle.result(60) == 2
    assert never.handle.status is Status.CANCELLED
    assert after_all.handle.result(60) == 3


def _fill(graph: Graph) -> None:
    graph.task(add, 1)
    graph.task(add, object())


def test_a_graph_whose_block_raises_is_not_submitted(stage: Inline) -> None:
    with pytest.raises(BadInput, match="cannot be told"), app.graph() as graph:
        _fill(graph)

    assert not stage.drafts


@pytest.mark.usefixtures("stage")
def test_a_graph_waits_for_tasks_outside_of_it() -> None:
    outside = add.using(delay=1).delay(1)
    failed = refuse.delay()

    with app.graph() as graph:
        lost = graph.task(add, 1, after=failed)
        waiting = graph.task(add, outside)
        below = graph.task(add, waiting.result)
        lost_below = graph.task(add, lost.result)

    assert (lost.handle.status, lost_below.handle.status) == (Status.CANCELLED, Status.CANCELLED)
    assert (waiting.handle.status, below.handle.status) == (Status.BLOCKED, Status.BLOCKED)


@pytest.mark.usefixtures("stage")
def test_tasks_of_two_graphs_do_not_mix() -> None:
    one, two = app.graph(), app.graph()
    task = one.task(add, 1)

    with pytest.raises(BadInput, match="another graph"):
        two.task(add, task.result)
    with pytest.raises(BadInput, match="graph"):
        add.delay(task.result)
    with pytest.raises(BadInput, match="before its graph"):
        assert isinstance(task.handle, Handle)


@pytest.mark.usefixtures("stage")
def test_a_group_ends_when_all_have_and_is_followed_by_one() -> None:
    group = app.group([add.bind(1), add.bind(2)], then=total)

    assert group.results(5) == [2, 3]
    assert group.then is not None
    assert group.then.result(60) == 5


@pytest.mark.usefixtures("stage")
def test_what_follows_a_group_is_called_though_a_member_failed() -> None:
    group = app.group([add.bind(1), refuse.bind()], then=total)

    assert group.then is not None
    assert group.then.result(60) == 2
    with pytest.raises(TaskFailed):
        group.results(5)


@pytest.mark.usefixtures("stage")
def test_a_waiting_command_is_cancelled_and_killed() -> None:
    first, second = app.send([command(["true"]), command(["true"], cwd="/")])

    assert first.cancel()
    assert not first.cancel()
    assert second.kill()
    assert {first.status, second.status} == {Status.CANCELLED}


@pytest.mark.usefixtures("stage")
def test_a_command_is_a_list() -> None:
    with pytest.raises(BadInput, match="a list"):
        app.command("echo hello")
    assert app.shell("echo hello", env={"A": "1"}).status is Status.QUEUED


def _hold(handle: Handle[int]) -> None:
    async def hold(transport: Transport) -> None:
        assert isinstance(transport, EngineTransport)
        await transport.engine.hold([handle.id], by="test", reason="look at it")

    app.bridge.run(hold)


@pytest.mark.usefixtures("stage")
def test_waiting_for_a_held_task_raises_with_the_reason() -> None:
    held = app.command(["true"])
    _hold(held)

    with pytest.raises(TaskHeld, match="look at it") as raised:
        held.result()
    assert raised.value.fields == {"task": held.id, "reason": "look at it"}
    with pytest.raises(TaskHeld):
        held.wait()
    with pytest.raises(TaskHeld):
        app.wait([held, add.delay(1)])
    with pytest.raises(TaskHeld):
        asyncio.run(_await(held))
    assert not held.wait(0.01, through_hold=True)
    with pytest.raises(TimeoutError):
        held.result(0.01, through_hold=True)
    assert not app.wait([held, app.command(["true"])], 0.01)


async def _await(handle: Handle[int]) -> int:
    return await handle.aio


def test_a_group_tells_that_a_member_is_held() -> None:
    with inline(app, run=False) as stage:
        group = app.group([add.bind(1), add.bind(2)])
        _hold(group.members[0])
        assert not group.wait(0.01)
        stage.work()
        with pytest.raises(TaskHeld):
            group.results()


def test_what_was_enqueued_can_be_asserted() -> None:
    with inline(app, run=False):
        handle = add.delay(1, 2)
        assert handle.status is Status.QUEUED
        assert_enqueued(app, add)
        assert_enqueued(app, add, a=1, b=2)
        with pytest.raises(AssertionError, match="not with"):
            assert_enqueued(app, add, 2)
        with pytest.raises(AssertionError, match="no call of"):
            assert_enqueued(app, total)
        with pytest.raises(TypeError, match="missing a required argument"):
            add.delay(c=3)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="within"):
        assert_enqueued(app, add)
