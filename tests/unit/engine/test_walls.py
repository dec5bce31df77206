"""What an attempt may make and change: its own queue, its own family, its own kinds."""

from typing import Any

import pytest

from ganger.core.errors import BadInput, DuplicateKey, NotAllowed, StaleLease
from ganger.core.graph import Edge
from ganger.core.ids import QueueId, TaskId
from ganger.core.outcome import Succeed
from ganger.core.schedule import QUEUE, Schedule
from ganger.core.task import Kind, NewTask
from ganger.core.token import Attempt
from ganger.engine.schedules import Schedules, Work
from ganger.engine.store import Change, Datum, Edit
from ganger.wire.specs import AfterDelay, CommandExits, ConditionSpec, FileThere, UrlAnswers, encode
from tests.unit.engine.stage import Stage, play

FOREIGN = "foreign"


async def speak(stage: Stage, kind: str = Kind.COMMAND, **fields: Any) -> Attempt:
    """A task of this kind runs, and speaks."""
    (task,) = await stage.submit(stage.task(kind, **fields))
    return Attempt((await stage.take(1, ids=(task,)))[0].lease)


def below(stage: Stage, attempt: Attempt, kind: str = Kind.COMMAND, **fields: Any) -> NewTask:
    return stage.task(kind, **{"parents": (Edge(attempt.lease.task),), **fields})


async def foreign(stage: Stage) -> QueueId:
    return (await stage.engine.queues.ensure(FOREIGN, by="ann")).id


def test_an_attempt_adds_behind_itself_and_behind_its_own_child() -> None:
    async def scenario(stage: Stage) -> None:
        attempt = await speak(stage)
        (child,) = (await stage.engine.submit([below(stage, attempt)], under=attempt)).ids
        chain = [stage.task(Kind.SHELL, parents=(Edge(child),)), stage.task(Kind.COMMAND, parents=(Edge(-1),))]
        made = (await stage.engine.submit(chain, under=attempt)).ids

        assert [edge[0] for edge in (await stage.engine.look(made[0])).family.parents] == [child]

    play(scenario)


def test_an_attempt_adds_nothing_elsewhere_in_the_graph() -> None:
    async def scenario(stage: Stage) -> None:
        (stranger, group) = await stage.submit(stage.task(), stage.task(Kind.GROUP, open_group=True))
        attempt = await speak(stage)
        own = attempt.lease.task
        for fields in (
            {"parents": ()},
            {"parents": (Edge(stranger),)},
            {"parents": (Edge(own), Edge(stranger))},
            {"group": group},
            {"retry_of": stranger},
        ):
            with pytest.raises(NotAllowed):
                await stage.engine.submit([below(stage, attempt, **fields)], under=attempt)

    play(scenario)


def test_an_attempt_fills_its_own_queue_and_those_that_its_node_may_fill() -> None:
    async def scenario(stage: Stage) -> None:
        queue, attempt = await foreign(stage), await speak(stage)
        task = below(stage, attempt, queue=queue)
        with pytest.raises(NotAllowed, match="foreign"):
            await stage.engine.submit([task], under=attempt)
        with pytest.raises(NotAllowed, match="foreign"):
            await stage.engine.submit([task], under=attempt._replace(queues=frozenset({"another"})))
        for queues in (frozenset({FOREIGN}), None):
            await stage.engine.submit([task], under=attempt._replace(queues=queues))

    play(scenario)


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        (Kind.FUNCTION, Kind.SHELL),
        (Kind.FUNCTION, Kind.COMMAND),
        (Kind.PAYLOAD, Kind.FUNCTION),
        (Kind.COMMAND, Kind.FUNCTION),
        (Kind.COMMAND, "plugin:any"),
        ("plugin:one", "plugin:other"),
    ],
)
def test_an_attempt_has_nothing_run_that_it_is_not(own: str, kind: str) -> None:
    async def scenario(stage: Stage) -> None:
        attempt = await speak(stage, own)
        with pytest.raises(NotAllowed, match="its like"):
            await stage.engine.submit([below(stage, attempt, kind)], under=attempt)
        await stage.engine.submit([below(stage, attempt, own), below(stage, attempt, Kind.GROUP)], under=attempt)

    play(scenario)


@pytest.mark.parametrize("probe", [CommandExits(["true"]), FileThere("/etc/shadow"), UrlAnswers("http://127.0.0.1/")])
def test_a_function_adds_no_condition_that_asks_about_a_place(probe: CommandExits | FileThere | UrlAnswers) -> None:
    async def scenario(stage: Stage) -> None:
        attempt, program = await speak(stage, Kind.FUNCTION), await speak(stage, Kind.SHELL)
        asking, waiting = encode(ConditionSpec(probe)), encode(ConditionSpec(AfterDelay(5)))
        with pytest.raises(NotAllowed, match="about a place"):
            await stage.engine.submit([below(stage, attempt, Kind.CONDITION, spec=asking)], under=attempt)
        await stage.engine.submit([below(stage, program, Kind.CONDITION, spec=asking)], under=program)
        made = await stage.engine.submit([below(stage, attempt, Kind.CONDITION, spec=waiting)], under=attempt)
        with pytest.raises(NotAllowed, match="about a place"):
            await stage.engine.edit([Edit(made.ids[0], change=Change(spec=asking))], under=attempt)

    play(scenario)


def test_a_key_of_a_stranger_is_taken_and_one_of_an_attempt_before_gives_its_task() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit(stage.task(key="secret"))
        attempt = await speak(stage)
        for conflict in ("return", "refuse"):
            task = below(stage, attempt, key="secret", on_conflict=conflict)
            with pytest.raises(DuplicateKey) as caught:
                await stage.engine.submit([task], under=attempt)
            assert "task" not in caught.value.fields
        chain = [
            below(stage, attempt, key="a", on_conflict="return"),
            stage.task(Kind.COMMAND, key="b", parents=(Edge(-1),), on_conflict="return"),
        ]
        first = await stage.engine.submit(chain, under=attempt)
        assert (await stage.engine.submit(chain, under=attempt)).ids == first.ids

    play(scenario)


def test_an_attempt_makes_no_schedule() -> None:
    async def scenario(stage: Stage) -> None:
        queue = (await stage.engine.queues.ensure(QUEUE, by="ann")).id
        attempt = (await speak(stage))._replace(queues=None)
        with pytest.raises(NotAllowed, match="schedules"):
            await stage.engine.submit([below(stage, attempt, Kind.GROUP, queue=queue, open_group=True)], under=attempt)
        kept = await Schedules(stage.engine, stage.clock).add(
            Schedule("s", every=60_000), Work(stage.queue.id, Kind.SHELL), by="ann"
        )
        await stage.engine.link(kept, attempt.lease.task, by="ann")
        with pytest.raises(NotAllowed, match="schedules"):
            await stage.engine.edit([Edit(kept, change=Change(spec=b"{}"))], under=attempt)

    play(scenario)


def test_an_attempt_changes_its_family_where_it_may_fill_and_has_its_like() -> None:
    async def scenario(stage: Stage) -> None:
        queue, attempt = await foreign(stage), await speak(stage, Kind.FUNCTION)
        up = Edge(attempt.lease.task)
        near, far, other = await stage.submit(
            stage.task(Kind.FUNCTION, parents=(up,)),
            stage.task(Kind.FUNCTION, parents=(up,), queue=queue),
            stage.task(Kind.SHELL, parents=(up,)),
        )
        (stranger,) = await stage.submit(stage.task(Kind.FUNCTION))
        await stage.engine.edit([Edit(near, change=Change(spec=b"new"))], under=attempt)
        for edit in (
            Edit(far, change=Change(spec=b"new")),
            Edit(far, remove=True),
            Edit(far, kill=True),
            Edit(far, unlink=attempt.lease.task),
            Edit(other, change=Change(spec=b"rm")),
            Edit(near, link=(stranger, "success")),
            Edit(stranger, change=Change(priority=1)),
            Edit(stranger, datum=Datum("k", b"v")),
        ):
            with pytest.raises(NotAllowed):
                await stage.engine.edit([Edit(near, change=Change(priority=9)), edit], under=attempt)
        assert (await stage.get(near)).priority != 9

    play(scenario)


def test_an_attempt_takes_out_a_subtree_only_if_all_of_it_is_its_own() -> None:
    async def scenario(stage: Stage) -> None:
        queue, attempt = await foreign(stage), await speak(stage)
        (child,) = (await stage.engine.submit([below(stage, attempt)], under=attempt)).ids
        (grandchild,) = await stage.submit(stage.task(Kind.COMMAND, parents=(Edge(child),), queue=queue))
        with pytest.raises(NotAllowed):
            await stage.engine.edit([Edit(child, remove=True, descendants=True)], under=attempt)
        await stage.engine.remove(grandchild, by="ann")
        await stage.engine.edit([Edit(child, remove=True, descendants=True)], under=attempt)
        assert await stage.engine.tasks([child]) == [None]

    play(scenario)


def test_an_attempt_keeps_values_of_its_parent_that_has_ended() -> None:
    async def scenario(stage: Stage) -> None:
        queue = await foreign(stage)
        parent, child = await stage.submit(
            stage.task(Kind.FUNCTION, queue=queue), stage.task(Kind.COMMAND, parents=(Edge(-1),))
        )
        await stage.engine.settle([((await stage.take(1, ids=(parent,)))[0], Succeed(b"1"))])
        claimed = (await stage.take(1, ids=(child,)))[0]
        attempt = Attempt(claimed.lease)
        await stage.engine.put_kin_data(attempt, parent, "note", b"one")
        await stage.engine.put_kin_data(attempt, parent, "note", b"two", only_if_unset=True)
        assert (await stage.engine.read_data(parent, "note")).body == b"one"
        for key in ("spec", "out:stdout"):
            with pytest.raises(BadInput):
                await stage.engine.put_kin_data(attempt, parent, key, b"rm -rf")
        await stage.engine.settle([(claimed, Succeed())])
        with pytest.raises(StaleLease):
            await stage.engine.put_kin_data(attempt, parent, "note", b"late")
        assert (await stage.engine.read_data(parent, "note")).body == b"one"

    play(scenario)


def test_an_operator_puts_values_and_does_not_edit_them() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit(stage.task())
        with pytest.raises(BadInput, match="operator"):
            await stage.engine.edit([Edit(task, datum=Datum("k", b"v"))], by="ann")

    play(scenario)


def test_an_attempt_that_is_over_is_told_so_before_anything_else() -> None:
    async def scenario(stage: Stage) -> None:
        attempt = await speak(stage)
        await stage.engine.release(attempt.lease)
        with pytest.raises(StaleLease):
            await stage.engine.submit([stage.task(parents=(Edge(TaskId(99)),))], under=attempt)

    play(scenario)
