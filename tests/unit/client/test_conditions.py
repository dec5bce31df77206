"""Conditions as a program writes them, judged inline by the real judge."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ganger import Status, TaskFailed
from ganger.client import Condition, GraphTask, wait_until, when
from ganger.core.errors import BadInput, BadNumber
from ganger.testing.inline import Inline, assert_enqueued, inline
from ganger.wire.specs import AfterDelay, AtTime, CommandExits, ConditionSpec, FileThere, PortAnswers, Probe, UrlAnswers
from tests.unit.client.shop import add, app, refuse, total

SKIPPED = Status.CANCELLED


@pytest.fixture
def stage() -> Iterator[Inline]:
    with inline(app) as stage:
        yield stage


def statuses(*tasks: GraphTask[Any]) -> list[Status | None]:
    return [task.handle.status for task in tasks]


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize("there", [True, False])
def test_both_ways_of_an_if_meet_again(tmp_path: Path, there: bool) -> None:
    file = tmp_path / "ready"
    if there:
        file.touch()

    with app.graph() as graph:
        yes, no = graph.task(add, 1), graph.task(add, 2)
        graph.when(file=file, then=yes, otherwise=[no])
        join = graph.task(add, 3, after=[yes.finished, no.finished])

    assert statuses(yes, no) == ([Status.SUCCEEDED, SKIPPED] if there else [SKIPPED, Status.SUCCEEDED])
    assert join.handle.result(60) == 4


def test_a_file_is_waited_for_without_a_slot(stage: Inline, tmp_path: Path) -> None:
    file = tmp_path / "ready"
    choice = app.wait_until(file=file, every=2, then=add.bind(1))

    stage.clock.advance(2_000)
    stage.work()
    assert choice.then[0].status is Status.BLOCKED
    file.touch()
    stage.work()
    assert choice.then[0].status is Status.BLOCKED
    stage.clock.advance(2_000)
    stage.work()
    assert choice.then[0].result(60) == 2


def test_at_its_deadline_a_wait_fails_or_goes_the_other_way(stage: Inline, tmp_path: Path) -> None:
    never = tmp_path / "never"
    with app.graph() as graph:
        fails = graph.wait_until(file=never, deadline=timedelta(seconds=3))
        behind = graph.task(add, 1, after=fails)
        turns = graph.wait_until(file=never, deadline=3)
        rescue = graph.task(add, 2, after=turns.otherwise)

    for _ in range(3):
        stage.clock.advance(1_000)
        stage.work()

    assert rescue.handle.result(60) == 3
    assert statuses(behind, turns) == [Status.CANCELLED, Status.SUCCEEDED]
    with pytest.raises(TaskFailed, match="deadline"):
        fails.handle.result(60)


def test_times_are_waited_for_by_the_clock(stage: Inline) -> None:
    start = datetime.fromtimestamp(stage.clock.wall() / 1000, UTC)
    at = app.wait_until(at=start + timedelta(minutes=1), then=add.bind(1))
    with app.graph() as graph:
        first = graph.task(add, 1)
        later = graph.task(add, 2, after=graph.wait_until(delay=30, after=first))

    assert statuses(first, later) == [Status.SUCCEEDED, Status.BLOCKED]
    stage.clock.advance(30_000)
    stage.work()
    assert (later.handle.status, at.then[0].status) == (Status.SUCCEEDED, Status.BLOCKED)
    stage.clock.advance(30_000)
    stage.work()
    assert at.then[0].status is Status.SUCCEEDED


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("size.result > 3 and other.status == 1", False),
        ("size.result + 0 == 2 or size.result == 2", None),
        ("size.result == 2 and parent['other'].result == 5", True),
        ("parent[-1].result == 2", True),
    ],
)
def test_an_expression_knows_its_parents_by_name(text: str, truth: bool | None) -> None:
    with app.graph() as graph:
        size, other = graph.task(add, 1), graph.task(total, [2, 3])
        if truth is None:
            with pytest.raises(BadInput, match="arithmetic"):
                graph.when(expression=text, parents={"size": size, "other": other})
            return
        check = graph.when(expression=text, parents={"size": size, "other": other})
        yes, no = graph.task(add, 1, after=check.then), graph.task(add, 2, after=check.otherwise)

    assert statuses(yes, no) == ([Status.SUCCEEDED, SKIPPED] if truth else [SKIPPED, Status.SUCCEEDED])


@pytest.mark.usefixtures("stage")
def test_the_only_parent_needs_no_name_wherever_it_is() -> None:
    outside = add.delay(4)

    with app.graph() as graph:
        bad = graph.task(refuse)
        inside = graph.when(expression="parent.status == 1", after=bad.finished, then=add.bind(1))
        far = graph.when(expression="parent.result == 5", after=outside)
        result = graph.task(add, graph.task(add, 1).result, after=far.then)
        lost = graph.task(add, 1, after=inside.then)

    assert (result.handle.result(60), lost.handle.status) == (3, SKIPPED)


@pytest.mark.usefixtures("stage")
def test_a_task_that_was_there_already_is_named_by_its_own_id() -> None:
    once = add.using(key="once")
    old = once.delay(1)
    newer = add.delay(7)

    with app.graph() as graph:
        again = graph.add(once.bind(1))
        check = graph.when(expression="old.result == 2 and new.result == 8", parents={"old": again, "new": newer})
        yes = graph.task(add, again.result, after=check.then)

    assert again.handle.id == old.id
    assert yes.handle.result(60) == 3


@pytest.mark.usefixtures("stage")
def test_a_condition_alone_is_about_tasks_outside() -> None:
    outside = add.delay(1)
    choice = app.when(
        expression="outside.result == 2", parents={"outside": outside}, then=[add.bind(1), add.bind(2)],
        otherwise=add.bind(3),
    )  # fmt: skip

    assert [handle.result(60) for handle in choice.then] == [2, 3]
    assert choice.otherwise[0].status is SKIPPED
    assert choice.handle.result(60) is None


@pytest.mark.usefixtures("stage")
def test_async_code_asks_as_well(tmp_path: Path) -> None:
    async def ask() -> tuple[int, int]:
        async with asyncio.timeout(60):
            gone = await app.enqueue_when(gone=tmp_path / "x", then=add.bind(1))
            there = await app.enqueue_wait_until(file=tmp_path, then=add.bind(2))
            return await gone.then[0].aio, await there.then[0].aio

    assert asyncio.run(ask()) == (2, 3)


def test_what_waits_behind_a_condition_was_enqueued(stage: Inline) -> None:
    app.wait_until(file="/never/there", then=add.bind(1, 2), key="gate")
    app.send([when(command=["true"])])

    assert_enqueued(app, add, 1, 2)
    assert len(stage.drafts) == 3


@pytest.mark.usefixtures("stage")
def test_a_condition_as_a_call_is_added_like_any_other() -> None:
    with app.graph() as graph:
        first = graph.task(add, 1)
        check = graph.add(when(expression="parent.result == 2"), after=first)
    assert isinstance(check, Condition)
    assert check.handle.result(60) is None
    with pytest.raises(BadInput, match="in a graph"):
        app.send([when(expression="parent.result == 2")])


def probe_of(**question: Any) -> Probe:
    spec = when(**question).spec
    assert isinstance(spec, ConditionSpec)
    return spec.probe


def test_each_question_becomes_its_probe() -> None:
    assert probe_of(file="/a") == FileThere("/a")
    assert probe_of(gone=Path("/a")) == FileThere("/a", gone=True)
    assert probe_of(port=("localhost", 80)) == PortAnswers("localhost", 80)
    assert probe_of(url="http://a/", status=204) == UrlAnswers("http://a/", 204)
    assert probe_of(command=["test", "-e", "a"], timeout=5, cwd="/") == CommandExits(["test", "-e", "a"], 5_000, "/")
    assert probe_of(at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == AtTime(1_000)
    assert probe_of(at=1.5) == AtTime(1_500)
    assert probe_of(delay=timedelta(seconds=1)) == AfterDelay(1_000)
    assert wait_until(file="/a", every=5, deadline="9s").spec == ConditionSpec(
        FileThere("/a"), every=5_000, deadline=9_000
    )


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "one thing"),
        ({"file": "/a", "gone": "/b"}, "one thing"),
        ({"file": "a"}, "absolute"),
        ({"file": "/a", "status": 200}, "goes with url"),
        ({"command": "true"}, "list"),
        ({"at": datetime(2024, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is what is refused
    ],
)
def test_a_question_that_is_none_is_refused(question: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        when(**question)


def test_numbers_and_names_that_are_none_are_refused() -> None:
    with pytest.raises(BadNumber):
        when(port=("localhost", 0))
    with pytest.raises(BadNumber):
        wait_until(file="/a", deadline=-1)
    with pytest.raises(TypeError, match="every"):
        when(file="/a", every=5)  # type: ignore[call-arg]
    graph, other = app.graph(), app.graph()
    task = graph.task(add, 1)
    with pytest.raises(BadInput, match="another graph"):
        other.when(file="/a", after=task)
    with pytest.raises(BadInput, match="own graph"):
        other.when(file="/a", then=task)
    with pytest.raises(BadInput, match="one branch"):
        graph.when(file="/a", then=task, otherwise=task)
    with pytest.raises(BadInput, match="not one of its parents"):
        graph.when(expression="other.result == 1", parents={"task": task})
