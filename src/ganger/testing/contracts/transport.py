"""The conformance suite of `ganger.client.transport`: every check takes a fresh stand, all of `CHECKS` must pass."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

import msgspec

from ganger.client.transport import Draft, Plan, TaskEvent, Transport
from ganger.core.errors import (
    BadInput,
    BadNumber,
    DuplicateKey,
    GangerError,
    PayloadTooLarge,
    QueueNotFound,
    TaskHeld,
    TaskNotFound,
    UnknownParent,
)
from ganger.core.graph import Edge
from ganger.core.ids import QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Outcome, Succeed
from ganger.core.schedule import Schedule
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind, NewTask, OnConflict
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from ganger.wire.specs import FunctionSpec, encode

PATIENCE = 20.0
LARGE = (3 << 20) + 7


@dataclass(frozen=True, slots=True)
class TransportStand:
    """What the checks are given: the transport, and the engine behind it, on which they play the worker."""

    transport: Transport
    engine: Engine

    async def take(self, *ids: TaskId) -> list[Claimed]:
        """Claim these and say that they run."""
        node = await self.engine.nodes.register(Registration("by-hand", "secret", kinds=(Kind.PAYLOAD, Kind.FUNCTION)))
        claimed = await self.engine.claim(Claim(node.id, ids=ids, most=len(ids)))
        assert [one.id for one in claimed] == list(ids)
        await self.engine.start([one.lease for one in claimed])
        return claimed

    async def finish(self, *ids: TaskId, outcome: Outcome | None = None) -> None:
        claimed = await self.take(*ids)
        await self.engine.settle([(one, outcome or Succeed(b"0")) for one in claimed])


Check = Callable[[TransportStand], Awaitable[None]]


def draft(spec: bytes = b"x", queue: str = "default", **said: object) -> Draft:
    plain = NewTask(QueueId(0), Kind.PAYLOAD, spec)
    return Draft(queue, plain._replace(**said))  # type: ignore[arg-type]


@contextmanager
def expect(kind: type[GangerError]) -> Iterator[GangerError]:
    """The block raises that error, whose class is found by its code on both sides of a wire."""
    told = GangerError("")
    try:
        yield told
    except kind as error:
        if type(error) is not kind:
            raise
        told.message, told.fields = error.message, error.fields
        return
    raise AssertionError(f"nothing raised {kind.__name__}")


async def soon(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await look():  # noqa: ASYNC110 - what is looked for is on the other side, and rings no bell here
            await asyncio.sleep(0.01)


async def tasks_are_stored_in_their_order_and_their_queues_made(stand: TransportStand) -> None:
    ids = await stand.transport.submit([draft(b"a"), draft(b"b", "made for it"), draft(b"c", description="three")])

    assert ids == sorted(ids)
    found = await stand.transport.tasks([*ids, TaskId(999)])
    assert [task is None for task in found] == [False, False, False, True]
    names = {queue.id: queue.name for queue in await stand.engine.queues.all()}
    assert [names[task.queue] for task in found if task] == ["default", "made for it", "default"]
    assert found == await stand.engine.tasks([*ids, TaskId(999)])


async def a_submission_with_one_wrong_task_stores_none(stand: TransportStand) -> None:
    with expect(UnknownParent) as told:
        await stand.transport.submit([draft(), draft(parents=(Edge(999),))])
    assert told.message
    with expect(PayloadTooLarge):
        await stand.transport.submit([draft(), draft(b"x" * (2 << 20))])
    counts, _ = await stand.engine.counts()
    assert sum(each.total for each in counts) == 0


async def a_key_gives_its_task_again_or_refuses(stand: TransportStand) -> None:
    (first,) = await stand.transport.submit([draft(key="k")])

    again = await stand.transport.submit([draft(key="k", on_conflict=OnConflict.RETURN), draft()])
    assert again[0] == first
    with expect(DuplicateKey) as told:
        await stand.transport.submit([draft(key="k")])
    assert told.fields["task"] == first


async def a_wait_ends_with_the_last_or_with_the_time(stand: TransportStand) -> None:
    one, two = await stand.transport.submit([draft(), draft()])

    assert not await stand.transport.wait([one, two], 0.05)
    waiting = asyncio.ensure_future(stand.transport.wait([one, two], PATIENCE))
    await stand.finish(one)
    await stand.finish(two, outcome=Fail())
    assert await waiting
    assert await stand.transport.wait([TaskId(999)], PATIENCE)


async def a_wait_for_more_than_fit_in_an_address_ends_too(stand: TransportStand) -> None:
    ids = await stand.transport.submit([draft()] * 2_300)
    waiting = asyncio.ensure_future(stand.transport.wait(ids, PATIENCE))

    await stand.finish(*ids)

    assert await waiting
    assert {task.status for task in await stand.transport.tasks(ids) if task} == {Status.SUCCEEDED}


async def a_wait_for_what_is_held_says_so(stand: TransportStand) -> None:
    (task,) = await stand.transport.submit([draft()])
    await stand.engine.hold([task], by="somebody", reason="not now")

    with expect(TaskHeld) as told:
        await stand.transport.wait([task], PATIENCE)
    assert told.fields == {"task": task, "reason": "not now"}
    assert not await stand.transport.wait([task], 0.05, through_hold=True)


async def a_value_is_read_in_parts(stand: TransportStand) -> None:
    (task,) = await stand.transport.submit([draft(b"the spec")])
    content = bytes(range(256)) * (LARGE // 256 + 1)
    await stand.engine.put_data(task, "large", content)

    body = b""
    while piece := (await stand.transport.read_data(task, "large", len(body))).body:
        body += piece
    assert body == content
    assert await stand.transport.read_data(task, "spec", 4) == (b"spec", 8)
    assert await stand.transport.read_data(task, "nothing", 0) == (b"", 0)
    with expect(TaskNotFound):
        await stand.transport.read_data(TaskId(999), "spec", 0)


async def output_is_read_and_followed_until_the_task_has_ended(stand: TransportStand) -> None:
    (task,) = await stand.transport.submit([draft()])
    heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    async def follow() -> None:
        async with aclosing(stand.transport.follow_output(task, ("stdout", "stderr"))) as pieces:
            async for stream, body in pieces:
                heard[stream] += body

    following = asyncio.ensure_future(follow())
    (claimed,) = await stand.take(task)
    await stand.engine.append_output(claimed.lease, "stdout", 0, b"one \xff")
    await soon(lambda: _is(lambda: heard["stdout"] == b"one \xff"))
    await stand.engine.append_output(claimed.lease, "stderr", 0, b"oh")
    await stand.engine.append_output(claimed.lease, "stdout", 5, b" two")
    await stand.engine.settle([(claimed, Succeed())])
    async with asyncio.timeout(PATIENCE):
        await following

    assert heard == {"stdout": b"one \xff two", "stderr": b"oh"}
    assert await stand.transport.read_output(task, "stdout", 4) == (b"\xff two", 9)


async def following_what_is_not_there_is_refused(stand: TransportStand) -> None:
    with expect(TaskNotFound):
        async with aclosing(stand.transport.follow_output(TaskId(999), ("stdout",))) as pieces:
            await anext(pieces)


async def _is(look: Callable[[], bool]) -> bool:
    return look()


async def what_waits_is_cancelled_and_what_runs_is_killed(stand: TransportStand) -> None:
    waits, runs, ended = await stand.transport.submit([draft(), draft(), draft()])
    await stand.finish(ended)
    (claimed,) = await stand.take(runs)

    assert await stand.transport.cancel([waits, runs, ended]) == [waits]
    assert await stand.transport.kill([waits, runs, ended]) == [runs]
    beaten = await stand.engine.nodes.beat(claimed.holder, "secret")
    assert list(beaten.kills) == [runs]


async def it_is_told_why_a_task_is_where_it_is(stand: TransportStand) -> None:
    above, below = await stand.transport.submit([draft(), draft(parents=(Edge(-1),))])

    why = await stand.transport.explain(below)
    assert why.status == "blocked"
    assert why.reasons[0].code == (await stand.engine.explain(below)).reasons[0].code
    assert str(above) in why.reasons[0].sentence
    with expect(TaskNotFound):
        await stand.transport.explain(TaskId(999))


async def results_go_from_task_to_task_in_a_graph(stand: TransportStand) -> None:
    plain = NewTask(QueueId(0), Kind.FUNCTION)
    first = plain._replace(spec=encode(FunctionSpec("a:b")))
    second = plain._replace(spec=encode(FunctionSpec("a:c", [{"$task": -1}])), parents=(Edge(-1),))

    one, two = await stand.transport.submit([Draft("default", first), Draft("default", second, refers=True)])

    spec = msgspec.json.decode((await stand.transport.read_data(two, "spec", 0)).body, type=FunctionSpec)
    assert spec.args == [{"$task": one}]
    await stand.finish(one)
    await soon(lambda: _has_status(stand, two, Status.QUEUED))


async def _has_status(stand: TransportStand, task: TaskId, status: Status) -> bool:
    (found,) = await stand.engine.tasks([task])
    return found is not None and found.status == status


async def schedules_are_kept_as_they_are_declared(stand: TransportStand) -> None:
    plan = Plan(Schedule("tick", every=60_000), draft(b"x"))
    other = plan._replace(schedule=Schedule("tock", cron="0 3 * * *"))

    assert (await stand.transport.sync_schedules([plan, other], "me", remove=False)).added == ("tick", "tock")
    assert (await stand.transport.sync_schedules([plan, other], "me", remove=False)).same == ("tick", "tock")
    changed = plan._replace(schedule=Schedule("tick", every=30_000))
    synced = await stand.transport.sync_schedules([changed], "me", remove=True)
    assert (synced.changed, synced.removed) == (("tick",), ("tock",))
    with expect(DuplicateKey):
        await stand.transport.sync_schedules([plan], "another", remove=False)
    with expect(BadInput):
        await stand.transport.sync_schedules([plan._replace(schedule=Schedule("bad", cron="?"))], "me", remove=False)


async def a_queue_is_made_and_changed_by_what_is_said(stand: TransportStand) -> None:
    await stand.transport.set_queue("parts", {"max_active": 3})
    await stand.transport.set_queue("whole", {"becomes": "parts", "max_per_key": 1})
    await stand.transport.set_queue("parts", {"max_per_node": 2})
    await stand.transport.set_queue("parts", {"max_per_node": 2})
    parts, whole = await stand.engine.queues.named("parts"), await stand.engine.queues.named("whole")
    assert (parts.policy.max_active, parts.policy.max_per_node) == (3, 2)
    assert (whole.policy.becomes, whole.policy.max_per_key) == (parts.id, 1)
    with expect(BadNumber):
        await stand.transport.set_queue("parts", {"max_active": -1})
    with expect(QueueNotFound):
        await stand.transport.set_queue("other", {"becomes": "nowhere"})


async def events_are_followed_from_a_position_on(stand: TransportStand) -> None:
    ids = [(await stand.transport.submit([draft(queue="line")]))[0] for _ in range(3)]
    async with asyncio.timeout(PATIENCE), aclosing(stand.transport.follow_events(0)) as events:
        seen = [event async for event in _first(events, 3, "submitted")]
    assert [event.tasks for event in seen] == [(task,) for task in ids]
    assert {event.queue for event in seen} == {"line"}
    async with asyncio.timeout(PATIENCE), aclosing(stand.transport.follow_events(seen[1].position)) as events:
        assert [event.tasks async for event in _first(events, 1, "submitted")] == [(ids[2],)]


async def _first(events: AsyncGenerator[TaskEvent, None], number: int, fact: str) -> AsyncGenerator[TaskEvent, None]:
    async for event in events:
        if event.fact == fact:
            yield event
            number -= 1
        if not number:
            return


CHECKS: Sequence[Check] = (
    a_queue_is_made_and_changed_by_what_is_said,
    events_are_followed_from_a_position_on,
    tasks_are_stored_in_their_order_and_their_queues_made,
    a_submission_with_one_wrong_task_stores_none,
    a_key_gives_its_task_again_or_refuses,
    a_wait_ends_with_the_last_or_with_the_time,
    a_wait_for_more_than_fit_in_an_address_ends_too,
    a_wait_for_what_is_held_says_so,
    a_value_is_read_in_parts,
    output_is_read_and_followed_until_the_task_has_ended,
    following_what_is_not_there_is_refused,
    what_waits_is_cancelled_and_what_runs_is_killed,
    it_is_told_why_a_task_is_where_it_is,
    results_go_from_task_to_task_in_a_graph,
    schedules_are_kept_as_they_are_declared,
)
"""Every check that a transport must pass."""
