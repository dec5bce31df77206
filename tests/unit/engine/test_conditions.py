"""Conditions with the real engine, on memory and on SQLite: times, expressions, probes, branches, deadlines."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ganger.core.clock import Moment
from ganger.core.errors import BadInput, StoreUnavailable
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import TaskId
from ganger.core.outcome import Fail, Succeed
from ganger.core.queue import Queue
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.conditions import NOT_YET, PROBES_AT_ONCE, Judge, new_condition
from ganger.engine.store import Change, Edit
from ganger.testing.clock import FakeClock
from ganger.wire.specs import (
    AfterDelay,
    AtTime,
    CommandExits,
    ConditionSpec,
    Expression,
    FileThere,
    PlacedProbe,
    PortAnswers,
    Probe,
    encode,
)
from tests.unit.engine.both import STORES, Play, play_on
from tests.unit.engine.stage import Stage, play

S, C, Q, B, F, H = (
    Status.SUCCEEDED, Status.CANCELLED, Status.QUEUED, Status.BLOCKED, Status.FAILED, Status.HELD,
)  # fmt: skip


@pytest.fixture(params=STORES)
def on_both(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    return play_on(request.param, tmp_path)


class Place:
    """A prober whose answers a test gives."""

    def __init__(self, *answers: bool | Exception, labels: Sequence[str] = ()) -> None:
        self.answers = list(answers)
        self.asked: list[PlacedProbe] = []
        self.labels = set(labels)
        self.open = asyncio.Event()
        self.open.set()
        self.was_asked = asyncio.Event()

    def takes(self, probe: PlacedProbe, queue: Queue, requires: Sequence[str]) -> bool:
        return set(requires) <= self.labels

    async def probe(self, probe: PlacedProbe) -> bool:
        self.asked.append(probe)
        self.was_asked.set()
        await self.open.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def put(
    stage: Stage, probe: Probe, parents: tuple[Edge, ...] = (), *, fields: Any = None, **terms: Any
) -> TaskId:
    spec = ConditionSpec(probe, **terms)
    (task,) = await stage.submit(new_condition(stage.queue.id, spec, parents=parents, **(fields or {})))
    return task


async def settle_probes(judge: Judge) -> None:
    await asyncio.gather(*judge._asking.values())


def test_a_time_comes_and_the_children_go(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        at = stage.clock.wall() + 5_000
        wait = await put(stage, AtTime(at))
        (child,) = await stage.submit(stage.task(parents=(Edge(wait),)))
        assert (await judge.step()).next_at == at
        assert [await stage.status(each) for each in (wait, child)] == [B, B]
        stage.fake.advance(5_000)
        assert (await judge.step()).done == 1
        assert [await stage.status(each) for each in (wait, child)] == [S, Q]
        assert judge.waiting == 0

    on_both(scenario)


def test_a_delay_begins_when_the_parents_are_done(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        (parent,) = await stage.submit_many(1)
        wait = await put(stage, AfterDelay(1_000), (Edge(parent),))
        await judge.step()
        stage.fake.advance(5_000)
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        ended = stage.clock.wall()
        stage.fake.advance(300)
        await judge.step()
        stepped = await judge.step()
        assert (await stage.status(wait), stepped.next_at) == (B, ended + 1_000)
        stage.fake.advance(700)
        await judge.step()
        assert await stage.status(wait) == S

    on_both(scenario)


def test_if_then_else_and_join(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        for result in (b"0", b"7"):
            (parent,) = await stage.submit_many(1)
            spec = ConditionSpec(Expression("parent[-1].result == 0"), wait=False)
            choice, then, other, join = await stage.submit(
                new_condition(stage.queue.id, spec, parents=(Edge(parent),)),
                stage.task(parents=(Edge(-1, On.THEN),)),
                stage.task(parents=(Edge(-1, On.ELSE),)),
                stage.task(parents=(Edge(-2, On.FINISHED), Edge(-3, On.FINISHED))),
            )
            await judge.step()
            await stage.engine.settle([(await stage.take_one(), Succeed(result))])
            await judge.step()
            chosen, skipped = (then, other) if result == b"0" else (other, then)
            assert [await stage.status(each) for each in (choice, chosen, skipped, join)] == [S, Q, C, B]
            assert (await stage.get(skipped)).reason == "skipped"
            await stage.engine.settle([(await stage.take_one(), Succeed())])
            claimed = await stage.take_one()
            assert claimed.id == join
            await stage.engine.settle([(claimed, Succeed())])

    on_both(scenario)


def test_an_expression_reads_statuses_and_parts_of_results(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        good, bad = await stage.submit_many(2)
        text = f'parent[{good}].result["rows"] > 3 and parent[{bad}].status == 7'
        choice = await put(stage, Expression(text), (Edge(good), Edge(bad, On.FINISHED)))
        first, second = await stage.take(2)
        await stage.engine.settle([(first, Succeed(b'{"rows":4}')), (second, Fail(7))])
        await judge.step()
        seen = await stage.get(choice)
        assert (seen.status, seen.branch) == (S, True)

    on_both(scenario)


@pytest.mark.parametrize("otherwise", [False, True])
def test_a_wait_for_what_cannot_come_true_fails_or_goes_the_other_way(otherwise: bool) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        (parent,) = await stage.submit_many(1)
        wait = await put(stage, Expression("parent.result == 1"), (Edge(parent),), otherwise=otherwise)
        await stage.engine.settle([(await stage.take_one(), Succeed(b"0"))])
        await judge.step()
        seen = await stage.get(wait)
        assert (seen.status, seen.branch) == ((S, False) if otherwise else (F, True))

    play(scenario)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (b'{"probe":{"if":"expression","text":"parent[9].status"}}', "not one of its parents"),
        (b'{"probe":{"if":"expression","text":"open(1)"}}', "expression"),
        (b'{"probe":{"if":"moon"}}', "spec"),
        (b"{", "spec"),
    ],
)
def test_a_condition_that_says_nothing_sensible_fails_with_the_reason(spec: bytes, word: str) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        (task,) = await stage.submit(stage.task(kind=Kind.CONDITION, spec=spec))
        await judge.step()
        seen = await stage.get(task)
        assert seen.status == F
        assert word in (seen.reason or "")

    play(scenario)


def test_a_bad_expression_is_refused_before_it_is_submitted() -> None:
    with pytest.raises(BadInput):
        new_condition(Stage, ConditionSpec(Expression("open(1)")))  # type: ignore[arg-type]


def test_a_probe_is_asked_until_it_says_yes(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        place = Place(False, OSError("broken"), True)
        judge = Judge(stage.engine, stage.clock, place)
        wait = await put(stage, FileThere("/flag"), every=2_000)
        for _ in range(3):
            await judge.step()
            await settle_probes(judge)
            assert (await judge.step()).done == 0
            stage.fake.advance(2_000)
        assert (await stage.status(wait), len(place.asked)) == (S, 3)

    on_both(scenario)


def test_a_deadline_ends_the_asking(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        place = Place(*[False] * 10)
        judge = Judge(stage.engine, stage.clock, place)
        fails = await put(stage, FileThere("/flag"), every=400, deadline=1_000)
        turns = await put(stage, FileThere("/flag"), every=400, deadline=1_000, otherwise=True)
        for _ in range(4):
            await judge.step()
            await settle_probes(judge)
            stage.fake.advance(400)
        seen = [await stage.get(each) for each in (fails, turns)]
        assert [(each.status, each.branch) for each in seen] == [(F, True), (S, False)]
        assert "deadline" in (seen[0].reason or "")
        assert judge.waiting == 0

    on_both(scenario)


def test_an_if_over_a_probe_asks_once_and_a_broken_answer_is_no_no() -> None:
    async def scenario(stage: Stage) -> None:
        place = Place(False, OSError("broken"), BadInput("no such scheme"))
        judge = Judge(stage.engine, stage.clock, place)
        ids = [await put(stage, PortAnswers("localhost", 1), wait=False) for _ in range(3)]
        await judge.step()
        await settle_probes(judge)
        seen = [await stage.get(each) for each in ids]
        assert [(each.status, each.branch) for each in seen] == [(S, False), (F, True), (F, True)]
        assert [each.reason for each in seen][2] == "no such scheme"

    play(scenario)


def test_an_if_whose_probe_could_not_be_asked_is_asked_again() -> None:
    async def scenario(stage: Stage) -> None:
        place = Place(StoreUnavailable("the guardian was killed"), True)
        judge = Judge(stage.engine, stage.clock, place)
        task = await put(stage, CommandExits(["true"]), wait=False)
        for status in (B, S):
            await judge.step()
            await settle_probes(judge)
            assert (await stage.get(task)).status == status
            stage.fake.advance(NOT_YET)

    play(scenario)


def test_commands_in_line_keep_no_file_waiting() -> None:
    async def scenario(stage: Stage) -> None:
        place = Place(*[True] * (PROBES_AT_ONCE + 2))
        place.open.clear()
        judge = Judge(stage.engine, stage.clock, place)
        for _ in range(PROBES_AT_ONCE + 1):
            await put(stage, CommandExits(["true"]))
        await put(stage, FileThere("/there"))
        await judge.step()
        await asyncio.sleep(0)
        assert FileThere("/there") in place.asked
        place.open.set()
        await settle_probes(judge)

    play(scenario)


def test_a_slow_probe_keeps_no_other_condition_waiting() -> None:
    async def scenario(stage: Stage) -> None:
        place = Place(True)
        place.open.clear()
        judge = Judge(stage.engine, stage.clock, place)
        slow = await put(stage, FileThere("/slow"))
        quick = await put(stage, AtTime(0))
        await judge.step()
        assert [await stage.status(each) for each in (slow, quick)] == [B, S]
        place.open.set()
        await settle_probes(judge)
        assert await stage.status(slow) == S

    play(scenario)


def test_a_probe_with_labels_is_left_to_those_who_have_them() -> None:
    async def scenario(stage: Stage) -> None:
        deaf, near = Judge(stage.engine, stage.clock), Judge(stage.engine, stage.clock, Place(True, labels=["lab"]))
        task = await put(stage, FileThere("/flag"), fields={"requires": ("lab",)})
        for judge in (deaf, Judge(stage.engine, stage.clock, Place(True)), near):
            assert await stage.status(task) == B
            await judge.step()
            await settle_probes(judge)
        assert await stage.status(task) == S

    play(scenario)


def test_a_held_condition_waits_for_its_kick(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        early, late = Judge(stage.engine, stage.clock), Judge(stage.engine, stage.clock)
        task = await put(stage, AtTime(stage.clock.wall() + 1_000))
        await early.step()
        await stage.engine.hold([task], by="ann")
        stage.fake.advance(1_000)
        for judge in (early, late):
            await judge.step()
            assert (await stage.status(task), judge.waiting) == (H, 1)
        await stage.engine.kick([task], by="ann")
        await early.step()
        await late.step()
        assert (await stage.status(task), early.waiting) == (S, 0)

    on_both(scenario)


def test_two_judges_conclude_a_condition_once() -> None:
    async def scenario(stage: Stage) -> None:
        judges = [Judge(stage.engine, stage.clock) for _ in range(3)]
        ids = [await put(stage, AtTime(0)) for _ in range(20)]
        await asyncio.gather(*(judge.step() for judge in judges))
        assert [await stage.status(each) for each in ids] == [S] * 20
        assert (await stage.engine.counts())[1][stage.queue.id]["settled"] == 20
        for judge in judges:
            await judge.step()
            assert judge.waiting == 0

    play(scenario)


def test_a_cancelled_or_removed_condition_is_forgotten() -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        at = stage.clock.wall() + 1_000
        cancelled, removed = await put(stage, AtTime(at)), await put(stage, AtTime(at))
        await judge.step()
        await stage.engine.cancel([cancelled], by="ann")
        await stage.engine.remove(removed, by="ann")
        stage.fake.advance(1_000)
        await judge.step()
        assert judge.waiting == 0

    play(scenario)


def test_after_a_failure_of_the_store_everything_is_found_again() -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        ids = [await put(stage, AtTime(0)), await put(stage, AtTime(stage.clock.wall() + 1_000))]
        stage.store.faults["exchange"] = StoreUnavailable("away")
        with pytest.raises(ExceptionGroup):
            await judge.step()
        stage.store.faults.clear()
        await judge.step()
        stage.fake.advance(1_000)
        await judge.step()
        assert [await stage.status(each) for each in ids] == [S, S]

    play(scenario)


def test_a_time_that_is_edited_counts_at_once(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        now = stage.clock.wall()
        task, other = await put(stage, AtTime(now + 9_000)), await put(stage, AtTime(now + 9_000))
        assert (await judge.step()).next_at == now + 9_000
        stage.fake.advance(1_000)
        sooner = Change(spec=encode(ConditionSpec(AtTime(now + 2_000))))
        await stage.engine.edit([Edit(task, change=sooner)], by="ann")
        for chore in (judge, Judge(stage.engine, stage.clock)):
            await chore.step()
            assert (await chore.step()).next_at == now + 2_000
        stage.fake.advance(1_000)
        await judge.step()
        assert [await stage.status(each) for each in (task, other)] == [S, B]

    on_both(scenario)


class SlowClock(FakeClock):
    """A clock on which every look at it takes a while."""

    def now(self) -> Moment:
        self._now += 7
        return super().now()


def test_looks_at_what_is_not_free_are_rare_and_nothing_is_asked_while_nothing_happens() -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        (parent,) = await stage.submit_many(1)
        await put(stage, AtTime(0), (Edge(parent),))
        assert (await judge.step()).next_at is None
        asked = stage.store.asked["tasks"]
        assert (await judge.step()).next_at is not None
        assert stage.store.asked["tasks"] == asked

    play(scenario, clock=SlowClock())


def test_an_any_join_is_judged_with_its_first_parent(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        judge = Judge(stage.engine, stage.clock)
        first, second = await stage.submit_many(2)
        choice = await put(stage, AtTime(0), (Edge(first), Edge(second)), fields={"join": Join.ANY})
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        await judge.step()
        assert await stage.status(choice) == S

    on_both(scenario)


def test_the_loop_hears_of_new_conditions_and_ends_its_probes_with_itself() -> None:
    async def scenario(stage: Stage) -> None:
        place = Place()
        place.open.clear()
        judge = Judge(stage.engine, stage.clock, place)
        await judge.start()
        await put(stage, FileThere("/never"))
        quick = await put(stage, AtTime(0))
        assert (await stage.engine.wait([quick], 5)).statuses == [S]
        await place.was_asked.wait()
        await judge.stop()
        assert not judge._asking

    play(scenario)
