"""The conformance suite of `ganger.node.source`: every check takes a fresh stand, and all of `CHECKS` must pass."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from ganger.core.clock import Clock
from ganger.core.errors import NodeGone, NodeNotFound, NodeTaken, StaleLease
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lease import Lease, Renewal
from ganger.core.node import Registration, Vitals
from ganger.core.outcome import Crashed, Fail, Hold, Killed, Outcome, Release, Succeed
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.engine import Engine
from ganger.node.source import Finished, Joined, WorkSource
from ganger.testing.contracts.transport import PATIENCE, expect, soon

LARGE = (2 << 20) + 3
SECRET = "secret"
SAID = Registration("n", SECRET, 100, kinds=(Kind.PAYLOAD,))


@dataclass(frozen=True, slots=True)
class SourceStand:
    """What the checks are given: how a node gets a source, the engine behind it, and the node's clock."""

    source: WorkSource
    engine: Engine
    clock: Clock

    async def submit(self, number: int = 1, queue: str = "default", **said: object) -> list[TaskId]:
        found = await self.engine.queues.ensure(queue, by="somebody")
        task = NewTask(QueueId(found.id), Kind.PAYLOAD, b"spec")._replace(**said)  # type: ignore[arg-type]
        return (await self.engine.submit([task] * number)).ids

    async def take(self, **said: object) -> tuple[Joined, Claimed]:
        """A node with one task that runs."""
        (task,) = await self.submit(**said)  # type: ignore[arg-type]
        joined = await self.source.join(SAID)
        (claimed,) = (await self.source.take(joined.node, 1, start=False)).claimed
        assert claimed.id == task
        assert await self.source.started([claimed.lease]) == []
        return joined, claimed

    async def status(self, task: TaskId) -> int | None:
        (found,) = await self.engine.tasks([task])
        return None if found is None else found.status

    async def end_lease(self, claimed: Claimed) -> None:
        """Settle behind the back of the node, as if the lease had been lost and another had come."""
        await self.engine.settle([(claimed, Succeed())])


Check = Callable[[SourceStand], Awaitable[None]]


async def a_node_joins_once_and_again_with_its_secret(stand: SourceStand) -> None:
    before = stand.clock.now()
    joined = await stand.source.join(SAID)

    assert before < joined.trusted_until <= stand.clock.now() + joined.lease
    assert (await stand.source.join(SAID)).node == joined.node
    with expect(NodeTaken):
        await stand.source.join(SAID._replace(token="another"))


async def a_beat_renews_and_tells_what_is_to_be_done(stand: SourceStand) -> None:
    joined, claimed = await stand.take()
    await stand.engine.kill([claimed.id], by="somebody")

    beaten = await stand.source.beat(joined.node, SECRET, vitals=Vitals(slots=3, trouble="none"))

    assert (list(beaten.kills), beaten.draining) == ([claimed.id], False)
    assert beaten.trusted_until > stand.clock.now()
    (node,) = await stand.engine.nodes.all()
    assert node.vitals is not None
    assert node.vitals.slots == 3
    await stand.engine.nodes.drain("n", by="somebody")
    assert (await stand.source.beat(joined.node, SECRET)).draining


async def whoever_left_is_gone_and_its_tasks_go_back(stand: SourceStand) -> None:
    joined, claimed = await stand.take()

    await stand.source.leave(joined.node, SECRET)

    with expect(NodeGone):
        await stand.source.beat(joined.node, SECRET)
    await soon(lambda: _is_status(stand, claimed.id, Status.QUEUED))


async def _is_status(stand: SourceStand, task: TaskId, status: Status) -> bool:
    return await stand.status(task) == status


async def a_wrong_secret_is_worth_nothing(stand: SourceStand) -> None:
    joined, claimed = await stand.take()

    with expect(NodeNotFound):
        await stand.source.beat(joined.node, "another")
    with expect(NodeNotFound):
        await stand.source.leave(joined.node, "another")
    assert await stand.status(claimed.id) == Status.RUNNING


async def tasks_are_settled_and_taken_in_one_step(stand: SourceStand) -> None:
    ids = await stand.submit(3)
    joined = await stand.source.join(SAID)
    first = (await stand.source.take(joined.node, 2, start=True)).claimed
    assert [(one.id, one.spec) for one in first] == [(ids[0], b"spec"), (ids[1], b"spec")]

    ended = [Finished(first[0], Succeed(b"1"), {"note": b"n", "stdout": b"out"}), Finished(first[1], Fail(7, "why"))]
    taken = await stand.source.take(joined.node, 5, start=True, finished=ended)

    assert ([one.id for one in taken.claimed], list(taken.refused)) == ([ids[2]], [])
    assert [await stand.status(task) for task in ids] == [Status.SUCCEEDED, 7, Status.RUNNING]
    assert (await stand.engine.read_data(ids[0], "result")).body == b"1"
    assert (await stand.engine.read_data(ids[0], "note")).body == b"n"
    assert (await stand.engine.read_output(ids[0], "stdout")).body == b"out"


async def every_outcome_is_understood(stand: SourceStand) -> None:
    ids = await stand.submit(5)
    joined = await stand.source.join(SAID)
    claimed = (await stand.source.take(joined.node, 5, start=True)).claimed
    outcomes: list[Outcome] = [
        Release(60_000, 7),
        Hold("held"),
        Killed("killed"),
        Crashed("died"),
        Fail(3, "no", again=False),
    ]

    ended = [Finished(one, outcome) for one, outcome in zip(claimed, outcomes, strict=True)]
    assert list((await stand.source.take(joined.node, 0, start=True, finished=ended)).refused) == []

    statuses = [await stand.status(task) for task in ids]
    assert statuses == [Status.DELAYED, Status.HELD, Status.TERMINATED, statuses[3], 3]
    assert statuses[3] in (Status.QUEUED, Status.DELAYED)


async def what_was_lost_is_refused_and_the_rest_is_settled(stand: SourceStand) -> None:
    await stand.submit(2)
    joined = await stand.source.join(SAID)
    one, two = (await stand.source.take(joined.node, 2, start=True)).claimed
    await stand.end_lease(one)

    ended = [Finished(one, Fail()), Finished(two, Succeed())]
    taken = await stand.source.take(joined.node, 0, start=True, finished=ended)

    assert list(taken.refused) == [0]
    assert [await stand.status(task.id) for task in (one, two)] == [Status.SUCCEEDED, Status.SUCCEEDED]


async def a_wait_ends_when_there_is_something(stand: SourceStand) -> None:
    await stand.engine.queues.ensure("default", by="somebody")
    joined = await stand.source.join(SAID)
    waiting = asyncio.ensure_future(stand.source.wait(joined.node, 1, start=False))
    (task,) = await stand.submit()

    async with asyncio.timeout(PATIENCE):
        claimed: Sequence[Claimed] = await waiting
    async with asyncio.timeout(PATIENCE):
        while not claimed:
            claimed = await stand.source.wait(joined.node, 1, start=False)

    assert [one.id for one in claimed] == [task]


async def whoever_stops_waiting_takes_nothing_with_him(stand: SourceStand) -> None:
    await stand.engine.queues.ensure("default", by="somebody")
    joined = await stand.source.join(SAID)
    waiting = asyncio.ensure_future(stand.source.wait(joined.node, 1, start=False))
    await asyncio.wait([waiting], timeout=0.2)
    waiting.cancel()
    await asyncio.wait([waiting])

    (task,) = await stand.submit()

    async def is_free_or_told() -> bool:
        held = [one.id for one in await stand.source.held(joined.node)]
        return await stand.status(task) == Status.QUEUED or held == [task]

    await soon(is_free_or_told)


async def stale_words_are_refused(stand: SourceStand) -> None:
    joined, claimed = await stand.take()
    lease = claimed.lease
    await stand.source.progress(lease, 40.0, "half")
    (task,) = await stand.engine.tasks([claimed.id])
    assert task is not None
    assert (task.percent, task.info) == (40.0, "half")
    await stand.end_lease(claimed)

    with expect(StaleLease):
        await stand.source.progress(lease, 50.0, None)
    with expect(StaleLease):
        await stand.source.ship(lease, "stdout", 0, b"late")
    with expect(StaleLease):
        await stand.source.keep(lease, "late", _pour(b"late"))
    assert list(await stand.source.started([lease])) == [0]
    assert joined.node


async def another_nodes_lease_cannot_be_used(stand: SourceStand) -> None:
    _, claimed = await stand.take()
    stranger = await stand.source.join(SAID._replace(name="stranger"))
    borrowed = claimed._replace(holder=stranger.node, fence=type(claimed.fence)(claimed.fence + 1))

    taken = await stand.source.take(stranger.node, 0, start=True, finished=[Finished(borrowed, Succeed())])

    assert list(taken.refused) == [0]
    assert await stand.status(claimed.id) == Status.RUNNING


async def output_is_shipped_once_and_kept_whole(stand: SourceStand) -> None:
    _, claimed = await stand.take()
    lease = claimed.lease
    await stand.source.ship(lease, "stdout", 0, b"first")
    await stand.source.ship(lease, "stdout", 0, b"first, and")
    assert await stand.source.shipped(lease) == {"stdout": 10}
    rest = bytes(range(256)) * (LARGE // 256)

    await stand.source.keep(lease, "stdout", _pour(rest), 10)
    await stand.source.keep(lease, "picture", _pour(rest))

    assert (await stand.engine.read_output(lease.task, "stdout", 0, 2 * LARGE)).body == b"first, and" + rest
    assert (await stand.engine.read_data(lease.task, "picture", 0, 2 * LARGE)).body == rest


async def _pour(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


async def a_large_result_is_kept(stand: SourceStand) -> None:
    joined, claimed = await stand.take()

    ended = [Finished(claimed, Succeed(b"r" * LARGE))]
    assert list((await stand.source.take(joined.node, 0, start=True, finished=ended)).refused) == []

    assert await stand.status(claimed.id) == Status.SUCCEEDED
    assert len((await stand.engine.read_data(claimed.id, "result", 0, 2 * LARGE)).body) == LARGE


async def much_is_settled_at_once(stand: SourceStand) -> None:
    ids = await stand.submit(90)
    joined = await stand.source.join(SAID)
    claimed = (await stand.source.take(joined.node, 90, start=True)).claimed
    await stand.end_lease(claimed[80])
    said = {"stdout": b"o" * 200_000}

    ended = [Finished(one, Succeed(b"r" * 200_000), said) for one in claimed]
    taken = await stand.source.take(joined.node, 1, start=True, finished=ended)

    assert list(taken.refused) == [80]
    assert {await stand.status(task) for task in ids} == {Status.SUCCEEDED}
    assert (await stand.engine.read_output(ids[-1], "stdout", 0, 300_000)).size == 200_000


async def a_large_spec_is_fetched(stand: SourceStand) -> None:
    (task,) = await stand.submit(spec=b"s" * 500_000)
    joined = await stand.source.join(SAID)
    (claimed,) = (await stand.source.take(joined.node, 1, start=False)).claimed

    assert claimed.spec is None
    assert await stand.source.spec(task) == b"s" * 500_000


async def a_lease_with_an_end_of_its_own_is_renewed(stand: SourceStand) -> None:
    _, claimed = await stand.take(renewal=Renewal.TOUCH, ttr=5_000)
    assert claimed.until is not None
    assert claimed.until <= stand.clock.now() + 5_000

    gone = Lease(claimed.id, type(claimed.fence)(claimed.fence + 1), claimed.holder)
    ends = await stand.source.touch([claimed.lease, gone], 60_000)

    assert ends[0] is not None
    assert stand.clock.now() + 30_000 < ends[0] <= stand.clock.now() + 60_000
    assert ends[1] is None


async def what_a_node_holds_is_told(stand: SourceStand) -> None:
    joined, claimed = await stand.take()

    (held,) = await stand.source.held(joined.node)

    assert (held.id, held.fence, held.retry) == (claimed.id, claimed.fence, claimed.retry)
    assert list(await stand.source.held(NodeId(joined.node + 1))) == []


async def listeners_are_told(stand: SourceStand) -> None:
    heard: set[str] = set()
    stops = [
        stand.source.listen(lambda: heard.add("anything")),
        stand.source.hear_nodes(lambda: heard.add("nodes")),
    ]
    await soon(lambda: _nudge(stand, heard))
    for stop in stops:
        stop()
    assert heard == {"anything", "nodes"}


async def _nudge(stand: SourceStand, heard: set[str]) -> bool:
    await stand.submit()
    await stand.engine.nodes.register(Registration("another", "x"))
    return len(heard) == 2


CHECKS: Sequence[Check] = (
    a_node_joins_once_and_again_with_its_secret,
    a_beat_renews_and_tells_what_is_to_be_done,
    whoever_left_is_gone_and_its_tasks_go_back,
    a_wrong_secret_is_worth_nothing,
    tasks_are_settled_and_taken_in_one_step,
    every_outcome_is_understood,
    what_was_lost_is_refused_and_the_rest_is_settled,
    a_wait_ends_when_there_is_something,
    whoever_stops_waiting_takes_nothing_with_him,
    stale_words_are_refused,
    another_nodes_lease_cannot_be_used,
    output_is_shipped_once_and_kept_whole,
    a_large_result_is_kept,
    much_is_settled_at_once,
    a_large_spec_is_fetched,
    a_lease_with_an_end_of_its_own_is_renewed,
    what_a_node_holds_is_told,
    listeners_are_told,
)
"""Every check that a work source must pass."""
