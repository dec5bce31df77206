"""What comes in is checked once, and refused with an error that says what to do."""

import asyncio
from typing import Any

import pytest

from ganger.core.errors import (
    BadInput,
    BadName,
    BadNumber,
    BadPolicy,
    CycleFound,
    DuplicateKey,
    GangerError,
    PayloadTooLarge,
    StaleLease,
    UnknownGroup,
    UnknownParent,
)
from ganger.core.graph import Edge, On
from ganger.core.ids import QueueId
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from ganger.core.task import Kind, NewTask
from ganger.core.token import Attempt
from ganger.engine.limits import Limits
from ganger.engine.store import Submitted
from ganger.engine.submit import check_tasks
from ganger.engine.witness import Committed, SubmitCommitted
from tests.unit.engine.stage import Stage, play

LIMITS = Limits()
Q = QueueId(1)


def plain(**fields: Any) -> NewTask:
    return NewTask(Q, fields.pop("kind", Kind.FUNCTION), **fields)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"kind": "elf"}, BadInput),
        ({"kind": "plugin:"}, BadName),
        ({"kind": "plugin:a\nb"}, BadName),
        ({"kind": 7}, BadInput),
        ({"spec": "text"}, BadInput),
        ({"spec": b"x" * (LIMITS.payload + 1)}, PayloadTooLarge),
        ({"priority": -1}, BadNumber),
        ({"priority": 1 << 32}, BadNumber),
        ({"priority": "7"}, BadNumber),
        ({"priority": True}, BadNumber),
        ({"delay": -1}, BadNumber),
        ({"delay": 1 << 60}, BadNumber),
        ({"due": -1}, BadNumber),
        ({"join": "some"}, BadInput),
        ({"key": "a\nb"}, BadName),
        ({"key": ""}, BadName),
        ({"key": "k" * 10_000}, BadName),
        ({"on_conflict": "replace"}, BadInput),
        ({"description": "\0"}, BadName),
        ({"description": "x" * 10_001}, BadName),
        ({"retry": "often"}, BadPolicy),
        ({"retry": '["a",[1,"fixed"],[],3,1,false]'}, BadPolicy),
        ({"retry": '[-1,[1,"fixed"],[],3,1,false]'}, BadPolicy),
        ({"timeout": 0}, BadNumber),
        ({"renewal": "prayer"}, BadInput),
        ({"ttr": 999}, BadNumber),
        ({"limit_key": " a"}, BadName),
        ({"requires": ("gpu", "\t")}, BadName),
        ({"requires": ("x",) * 101}, BadNumber),
        ({"open_group": True}, BadInput),
        ({"retry_of": 0}, BadNumber),
        ({"parents": (Edge(1, "maybe"),)}, BadInput),
        ({"parents": (Edge(0),)}, UnknownParent),
        ({"parents": (Edge(1 << 63),)}, UnknownParent),
        ({"parents": (Edge(5), Edge(5, On.FAILED))}, BadInput),
        ({"parents": (Edge(-4),)}, UnknownParent),
        ({"group": -4}, UnknownGroup),
        ({"group": -1}, UnknownGroup),
        ({"parents": (Edge(5),), "group": 5}, CycleFound),
    ],
)
def test_bad_input_is_refused_with_the_place_of_the_task(fields: dict[str, Any], error: type[GangerError]) -> None:
    with pytest.raises(error) as caught:
        check_tasks([plain(), plain(**fields), plain()], LIMITS)

    assert caught.value.fields["index"] == 1
    assert str(caught.value).startswith("task 1 of the submission: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "plugin:resize"},
        {"spec": b"x" * LIMITS.payload},
        {"priority": 0},
        {"priority": (1 << 32) - 1},
        {"delay": 0},
        {"description": "line one\nline two"},
        {"key": "order 7"},
        {"ttr": 1_000, "renewal": "touch"},
        {"kind": Kind.GROUP, "open_group": True},
        {"requires": ("gpu", "big")},
        {"parents": (Edge(12), Edge(13, On.FINISHED))},
    ],
)
def test_what_is_allowed_passes(fields: dict[str, Any]) -> None:
    check_tasks([plain(**fields)], LIMITS)


def test_a_payload_that_is_too_large_is_sent_to_a_blob() -> None:
    with pytest.raises(PayloadTooLarge, match="put it into a blob"):
        check_tasks([plain(spec=b"x" * 2_000)], Limits(payload=1_000))


def test_too_many_tasks_at_once_are_refused() -> None:
    with pytest.raises(BadNumber, match="from 0 to 3"):
        check_tasks([plain()] * 4, Limits(tasks_per_submit=3))


def waits(*parents: int, **fields: Any) -> NewTask:
    return plain(parents=tuple(map(Edge, parents)), **fields)


@pytest.mark.parametrize(
    "tasks",
    [
        [waits(-1)],
        [waits(-2), waits(-1)],
        [waits(-3), waits(-1), waits(-2), plain()],
        [plain(kind=Kind.GROUP), waits(-3, group=-1), waits(-1)],
        [plain(kind=Kind.GROUP, group=-2), plain(kind=Kind.GROUP, group=-1)],
        [plain(kind=Kind.GROUP, group=-1)],
        [plain(kind=Kind.GROUP), plain(group=-1, parents=(Edge(-3),)), waits(-4), waits(-1)],
        [plain(kind=Kind.GROUP), waits(-1), waits(-2, group=-1)],
    ],
    ids=[
        "itself",
        "two",
        "three",
        "own group",
        "groups in each other",
        "group in itself",
        "around a group",
        "backward",
    ],
)
def test_tasks_that_wait_for_each_other_are_refused(tasks: list[NewTask]) -> None:
    with pytest.raises(CycleFound):
        check_tasks(tasks, LIMITS)


@pytest.mark.parametrize(
    "tasks",
    [
        [plain(), waits(-1), waits(-1, -2)],
        [waits(-2), plain()],
        [plain(kind=Kind.GROUP), plain(group=-1), waits(-1)],
        [plain(group=-2), plain(kind=Kind.GROUP), waits(-2)],
        [plain(kind=Kind.GROUP), plain(kind=Kind.GROUP, group=-1), plain(group=-2), waits(-1)],
    ],
    ids=["backward", "forward", "after a group", "group later", "nested groups"],
)
def test_graphs_without_a_cycle_pass_in_any_order(tasks: list[NewTask]) -> None:
    check_tasks(tasks, LIMITS)


def test_a_submission_is_stored_together_and_can_be_taken() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit(stage.task(spec=b"a"), stage.task(spec=b"b", parents=(Edge(-1),)))
        first = await stage.take_one()
        assert (first.id, first.spec) == (ids[0], b"a")
        assert await stage.status(ids[1]) == Status.BLOCKED
        await stage.engine.settle([(first, Succeed())])
        assert await stage.status(ids[1]) == Status.QUEUED

    play(scenario)


def test_a_refused_submission_stores_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit(stage.task(key="a"))
        with pytest.raises(DuplicateKey):
            await stage.submit(stage.task(), stage.task(key="a"))
        (counts,), _ = await stage.engine.counts()
        assert counts.by_status == {Status.QUEUED: 1}

    play(scenario)


def test_a_submission_under_a_lost_lease_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        claimed = await stage.take_one()
        below, attempt = stage.task(parents=(Edge(claimed.id),)), Attempt(claimed.lease)
        await stage.engine.submit([below], under=attempt)
        await stage.engine.settle([(claimed, Succeed())])
        with pytest.raises(StaleLease):
            await stage.engine.submit([below], under=attempt)

    play(scenario)


class Slow:
    """A witness that a test lets go on."""

    def __init__(self) -> None:
        self.seen: list[Committed] = []
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def witnessed(self, change: Committed) -> None:
        self.seen.append(change)
        self.called.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error


def test_a_submit_is_acknowledged_only_when_it_was_witnessed() -> None:
    witness = Slow()

    async def scenario(stage: Stage) -> None:
        submitting = asyncio.create_task(stage.engine.submit([stage.task()]))
        await witness.called.wait()
        (seen,) = witness.seen
        assert isinstance(seen, SubmitCommitted)
        assert await stage.status(seen.reply.ids[0]) == Status.QUEUED
        assert not submitting.done()
        witness.go_on.set()
        assert await submitting == Submitted(seen.reply.ids, [])

    play(scenario, witness=witness)


def test_a_witness_that_fails_leaves_the_caller_without_an_acknowledgement() -> None:
    witness = Slow()
    witness.go_on.set()
    witness.error = ConnectionError("no peer")

    async def scenario(stage: Stage) -> None:
        with pytest.raises(ConnectionError):
            await stage.engine.submit([stage.task()])
        (counts,), _ = await stage.engine.counts()
        assert counts.total == 1

    play(scenario, witness=witness)
