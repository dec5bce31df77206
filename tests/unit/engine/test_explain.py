"""Why is this task not running? Each reason is brought about, and must be the one that is told."""

import re
from pathlib import Path
from typing import Any

import pytest

from ganger.core.errors import TaskNotFound
from ganger.core.graph import Edge, Join
from ganger.core.ids import TaskId
from ganger.core.node import Vitals
from ganger.core.outcome import Crashed, Fail, Hold, Killed, Succeed
from ganger.core.queue import OnLost
from ganger.core.retry import Fixed, Retry, to_text
from ganger.core.task import Kind
from ganger.engine import explain, obstacles
from ganger.engine.conditions import new_condition
from ganger.engine.explain import Why
from ganger.engine.store import Exchange
from ganger.wire.specs import AtTime, CommandExits, ConditionSpec, FileThere, Probe
from tests.unit.engine.stage import Stage, play


async def ask(stage: Stage, task: TaskId) -> Why:
    return await stage.engine.explain(task)


async def codes(stage: Stage, task: TaskId) -> list[str]:
    return [reason.code for reason in (await ask(stage, task)).reasons]


def test_open_parents_are_named() -> None:
    async def scenario(stage: Stage) -> None:
        first, second, both, either = await stage.submit(
            stage.task(), stage.task(), stage.task(parents=(Edge(-1), Edge(-2))),
            stage.task(parents=(Edge(-1), Edge(-2)), join=Join.ANY),
        )  # fmt: skip
        (reason,) = (await ask(stage, both)).reasons
        assert (reason.code, reason.fields["parents"]) == ("parents_open", [first, second])
        assert "any of" in (await ask(stage, either)).reasons[0].sentence
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        assert (await ask(stage, both)).reasons[0].fields["parents"] == [second]

    play(scenario)


def test_a_task_that_is_not_due_says_when_it_is() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1, delay=5_000)
        why = await ask(stage, task)
        assert (why.status, why.reasons[0].code) == ("delayed", "not_due")
        assert why.reasons[0].fields["due"] == stage.clock.wall() + 5_000

    play(scenario)


def test_a_paused_queue_is_named_with_the_end_of_its_pause() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.queues.pause(stage.queue.id, 9_000, by="test")
        (reason,) = (await ask(stage, task)).reasons
        assert (reason.code, reason.fields["until"]) == ("queue_paused", stage.clock.wall() + 9_000)
        await stage.engine.queues.pause(stage.queue.id, by="test")
        assert "until somebody resumes it" in (await ask(stage, task)).reasons[0].sentence

    play(scenario)


def test_the_limit_that_is_reached_is_named() -> None:
    async def scenario(stage: Stage) -> None:
        _, waiting = await stage.submit_many(2)
        await stage.take_one()
        await stage.set_policy(max_active=1)
        assert await codes(stage, waiting) == ["limit_active"]
        await stage.set_policy(max_per_node=1)
        assert await codes(stage, waiting) == ["limit_per_node"]
        await stage.join("bob")
        assert await codes(stage, waiting) == ["next"]

    play(scenario)


def test_a_full_concurrency_key_is_named() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(max_per_key=1)
        _, waiting = await stage.submit_many(2, limit_key="customer 7")
        (reason,) = (await ask(stage, waiting)).reasons
        assert (reason.code, reason.fields["key"], reason.fields["limit"]) == ("limit_key", "customer 7", 1)

    play(scenario)


def test_nodes_without_a_free_slot_are_named() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        small = await stage.join("small", slots=1)
        _, waiting = await stage.submit_many(2)
        await stage.take_one(small)
        (reason,) = (await ask(stage, waiting)).reasons
        assert (reason.code, reason.fields["nodes"]) == ("limit_slots", ["small"])

    play(scenario)


def test_a_node_without_a_limit_that_says_it_is_busy_has_no_free_slot() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        for used, code in ((1, "limit_slots"), (0, "next")):
            await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=1, used=used))
            assert await codes(stage, task) == [code]

    play(scenario)


def test_that_no_node_is_here_is_told() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        assert await codes(stage, task) == ["no_node"]

    play(scenario)


def test_that_no_node_takes_it_is_told_with_each_nodes_own_reason() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        await stage.join("elsewhere", queues=("other",))
        await stage.join("shells", kinds=(Kind.SHELL,), labels=("gpu",))
        await stage.join("drains", labels=("gpu",))
        await stage.engine.nodes.drain("drains", by="test")
        await stage.join("shunned", labels=("gpu",))
        await stage.set_policy(ignore=("shunned",))
        (task,) = await stage.submit_many(1, requires=("gpu",))
        (reason,) = (await ask(stage, task)).reasons
        assert reason.code == "no_node_takes_it"
        for words in (
            "elsewhere: it does not take queue mail, it lacks ['gpu']",
            "shells: it does not run function",
            "drains: it drains",
            "shunned: queue mail does not take it",
        ):
            assert words in reason.sentence

    play(scenario)


def test_a_task_that_avoids_a_node_says_which_and_until_when() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(retry=to_text(Retry(5, Fixed(0))))
        (task,) = await stage.submit_many(1)
        await stage.engine.settle([(await stage.take_one(), Fail())])
        assert await codes(stage, task) == ["next"]
        await stage.join("bob")
        (reason,) = (await ask(stage, task)).reasons
        assert (reason.code, reason.fields["node"]) == ("avoids_node", "ada")
        until = int(str(reason.fields["until"]))
        assert stage.clock.wall() + 25_000 < until <= stage.clock.wall() + 30_000
        assert (await stage.memory.exchange(Exchange(claim=stage.ask()))).next_due == until

    play(scenario)


def test_a_task_that_lies_ready_beside_a_free_slot_is_a_fault_and_says_so() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        for used, later in ((0, "not_taken"), (1, "limit_slots")):
            await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=1, used=used))
            assert await codes(stage, task) == ["next" if not used else later]
            stage.fake.advance(obstacles.NOT_TAKEN)
            (reason,) = (await ask(stage, task)).reasons
            assert (reason.code, reason.fields["nodes"]) == (later, ["ada"])
        (readiness,) = [one for one in await stage.engine.readiness() if one.what == "ada"]
        assert readiness.is_ready

    play(scenario)


def test_a_task_behind_one_that_nobody_takes_is_not_said_to_be_well() -> None:
    async def scenario(stage: Stage) -> None:
        first, second, third = await stage.submit_many(3)
        await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=1))
        assert await codes(stage, third) == ["behind_others"]
        stage.fake.advance(obstacles.NOT_TAKEN)
        for task in (second, third):
            (reason,) = (await ask(stage, task)).reasons
            assert (reason.code, reason.fields["nodes"]) == ("not_taken", ["ada"])
            assert f"behind task {first}" in reason.sentence
            assert "nothing is wrong" not in reason.sentence

    play(scenario)


def test_a_task_that_has_become_due_is_ready_though_nobody_has_moved_it() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1, delay=5_000)
        await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=1))
        stage.fake.advance(4_999)
        assert await codes(stage, task) == ["not_due"]
        stage.fake.advance(1)
        assert await codes(stage, task) == ["next"]
        stage.fake.advance(obstacles.NOT_TAKEN)
        assert await codes(stage, task) == ["not_taken"]

    play(scenario)


def test_nodes_that_say_that_they_take_no_work_are_named_with_the_reason() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=1, trouble="its disk is full"))
        (reason,) = (await ask(stage, task)).reasons
        assert (reason.code, reason.fields["nodes"]) == ("nodes_in_trouble", ["ada"])
        assert "ada: its disk is full" in reason.sentence
        await stage.join("bob")
        assert await codes(stage, task) == ["next"]

    play(scenario)


def test_a_task_behind_others_says_how_many() -> None:
    async def scenario(stage: Stage) -> None:
        first, second, third = await stage.submit(stage.task(priority=5), stage.task(), stage.task(priority=9))
        assert await codes(stage, first) == ["next"]
        assert (await ask(stage, second)).reasons[0].fields["ahead"] == 2
        assert (await ask(stage, third)).reasons[0].fields["ahead"] == 1
        await stage.set_policy(sort="lifo")
        assert (await ask(stage, third)).reasons[0].fields["ahead"] == 1

    play(scenario)


def test_in_a_long_queue_only_its_length_is_told() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(obstacles.COUNTED + 1)
        (reason,) = (await ask(stage, ids[-1])).reasons
        assert (reason.code, reason.fields["queued"]) == ("behind_others", obstacles.COUNTED + 1)

    play(scenario)


def test_what_runs_says_where_and_whether_it_is_to_be_killed() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        claimed = await stage.take_one()
        assert await codes(stage, task) == ["claimed"]
        await stage.engine.start([claimed.lease])
        await stage.engine.kill([task], by="test")
        why = await ask(stage, task)
        assert [reason.code for reason in why.reasons] == ["running", "kill_requested"]
        assert "runs on ada" in why.reasons[0].sentence

    play(scenario)


def test_a_held_task_says_why_and_whether_it_crashed_too_often() -> None:
    async def scenario(stage: Stage) -> None:
        held, poison = await stage.submit_many(2)
        await stage.engine.settle([(await stage.take_one(), Hold("wrong address"))])
        for _ in range(3):
            await stage.engine.settle([(await stage.take_one(), Crashed("signal 11"))])
        (reason,) = (await ask(stage, held)).reasons
        assert (reason.code, "wrong address" in reason.sentence) == ("held", True)
        (reason,) = (await ask(stage, poison)).reasons
        assert (reason.code, "signal 11" in reason.sentence) == ("held_after_crashes", True)

    play(scenario)


def test_an_ended_task_says_how_it_ended() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(on_lost=OnLost.ORPHAN)
        ids = await stage.submit_many(5)
        claimed = await stage.take(4)
        outcomes = (Succeed(), Fail(17, "no file"), Killed("asked"), Crashed("signal 9"))
        await stage.engine.settle(list(zip(claimed, outcomes, strict=True)))
        await stage.engine.cancel([ids[4]], by="test")
        told = [(await ask(stage, task)).reasons[0] for task in ids]
        assert [reason.code for reason in told] == ["succeeded", "failed", "terminated", "orphaned", "cancelled"]
        assert told[1].sentence == "it failed with code 17 after 1 attempts: no file"

    play(scenario)


def test_groups_and_conditions_say_what_they_wait_for() -> None:
    async def scenario(stage: Stage) -> None:
        group, _, condition = await stage.submit(
            stage.task(Kind.GROUP), stage.task(group=-1), stage.task(Kind.CONDITION)
        )
        assert await codes(stage, group) == ["members_open"]
        assert await codes(stage, condition) == ["condition_open"]

    play(scenario)


@pytest.mark.parametrize(
    ("probe", "said", "why"),
    [
        (CommandExits(["true"]), {"queues": ("other",)}, "takes its queue"),
        (CommandExits(["true"]), {"kinds": ("function",)}, "runs any of"),
        (FileThere("/x"), {"kinds": ("function",)}, "runs any of"),
        (FileThere("/x"), {"kinds": ("condition",)}, "not been judged yet"),
        (AtTime(5), {"queues": ("other",)}, "not been judged yet"),
    ],
)
def test_a_condition_says_why_no_node_that_is_here_asks(probe: Probe, said: dict[str, Any], why: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        await stage.join("bob", **said)
        (condition,) = await stage.submit(new_condition(stage.queue.id, ConditionSpec(probe)))
        (reason,) = (await stage.engine.explain(condition)).reasons
        assert reason.code == "condition_open"
        assert why in reason.sentence

    play(scenario)


def test_a_task_that_never_was_is_not_found() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TaskNotFound):
            await ask(stage, TaskId(99))

    play(scenario)


def test_every_code_that_can_be_told_is_documented() -> None:
    source = "".join(Path(str(module.__file__)).read_text() for module in (explain, obstacles))
    told = set(re.findall(r'Reason\(\s*"(\w+)"', source)) | set(re.findall(r'"(limit_\w+|held\w*)"', source))
    told |= {"succeeded", "failed", "cancelled", "terminated", "orphaned"}

    assert told == set(re.findall(r"`(\w+)`", (explain.__doc__ or "").split("|---|---|")[1]))
