"""A hundred thousand writes of holders that hold nothing any more, of every kind, in every situation: all refused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from ganger.core.errors import StaleLease
from ganger.core.graph import Edge
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.node import Registration
from ganger.core.state import Verdict, move
from ganger.core.task import NewTask
from ganger.engine.store import (
    Claim,
    Configure,
    Edits,
    Exchange,
    NodeChange,
    QueueChange,
    Submission,
    Tend,
)
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import FakeClock, SeededEntropy
from tests.chaos.harness import digest, look_into, loss_of, open_store
from tests.chaos.harness_stale import Held, edits, every_write, is_stale, moves, notes, send, submissions

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

WRITES: Final = 100_000
LEASE: Final = 500
LONG: Final = 1_000_000
NOTHING: Final = Held(TaskId(0), Fence(0), QueueId(0), TaskId(0), TaskId(0))


@dataclass
class Stage:
    """A store, a holder that is to lose its lease, and a rival."""

    path: Path
    clock: FakeClock
    store: SqliteStore
    queue: QueueId = field(init=False)
    holder: NodeId = field(init=False)
    rival: NodeId = field(init=False)

    async def set_up(self, renewal: str) -> Held:
        made = await self.store.configure(Configure(queue=QueueChange(name="work")))
        assert made.queue is not None
        self.queue = made.queue.id
        self.holder = await self.register("holder", LONG if renewal == Renewal.TOUCH else LEASE)
        self.rival = await self.register("rival", LONG)
        task = NewTask(self.queue, "payload", renewal=renewal, ttr=LEASE, priority=0)
        child = NewTask(self.queue, "payload", parents=(Edge(-1),))
        stranger = NewTask(self.queue, "payload", delay=LONG)
        done = await self.store.submit(Submission((task, child, stranger)))
        return Held(done.ids[0], await self.claim(self.holder), self.queue, done.ids[1], done.ids[2])

    async def register(self, name: str, lease: int) -> NodeId:
        said = Registration(name, f"token of {name}", lease=lease)
        made = await self.store.configure(Configure(node=NodeChange(register=said)))
        assert made.node is not None
        return made.node.id

    async def claim(self, node: NodeId) -> Fence:
        done = await self.store.exchange(Exchange(claim=Claim(node, (self.queue,), start=True)))
        return done.claimed[0].fence

    async def settle(self, held: Held, rule: str, fence: Fence) -> None:
        done = await self.store.exchange(Exchange((move(held.task, rule, fence),)))
        assert done.refused == []

    async def take_back(self) -> None:
        tended = await self.store.tend(Tend(lapse=True))
        (lapsed,) = tended.lapsed
        await self.store.exchange(Exchange((loss_of(lapsed),)))

    async def reopen(self) -> None:
        await self.store.close()
        self.clock.reboot(down=1)
        self.store = await open_store(self.path, self.clock, SeededEntropy(2))


async def ended(stage: Stage, held: Held) -> None:
    stage.clock.advance(LEASE)


async def marked_lost(stage: Stage, held: Held) -> None:
    stage.clock.advance(LEASE)
    await stage.store.tend(Tend(lapse=True))


async def taken_back(stage: Stage, held: Held) -> None:
    stage.clock.advance(LEASE)
    await stage.take_back()


async def held_by_another(stage: Stage, held: Held) -> None:
    await taken_back(stage, held)
    await stage.claim(stage.rival)


async def settled_by_another(stage: Stage, held: Held) -> None:
    await taken_back(stage, held)
    await stage.settle(held, "succeed", await stage.claim(stage.rival))


async def settled_by_itself(stage: Stage, held: Held) -> None:
    await stage.settle(held, "fail", held.fence)


async def released(stage: Stage, held: Held) -> None:
    await stage.settle(held, "release", held.fence)


async def released_and_claimed_again(stage: Stage, held: Held) -> None:
    await released(stage, held)
    await stage.claim(stage.holder)


async def buried(stage: Stage, held: Held) -> None:
    await stage.settle(held, "bury", held.fence)


async def holder_left(stage: Stage, held: Held) -> None:
    change = NodeChange(id=stage.holder, token="token of holder", leave=True)
    await stage.store.configure(Configure(node=change))


async def holder_came_back(stage: Stage, held: Held) -> None:
    stage.clock.advance(LONG)
    await stage.register("holder", LONG)


async def rebooted(stage: Stage, held: Held) -> None:
    await stage.reopen()


Happens = Callable[[Stage, Held], Awaitable[None]]
SITUATIONS: Final[tuple[tuple[Happens, str], ...]] = (
    *((happens, Renewal.TOUCH) for happens in (ended, taken_back, held_by_another, settled_by_another)),
    *((happens, Renewal.LIVENESS) for happens in (ended, marked_lost, taken_back, held_by_another)),
    *((happens, Renewal.LIVENESS) for happens in (settled_by_itself, released, released_and_claimed_again, buried)),
    *((happens, Renewal.TOUCH) for happens in (holder_left, holder_came_back, rebooted)),
    (rebooted, Renewal.LIVENESS),
)


@asynccontextmanager
async def staged(folder: Path, renewal: str, happens: Happens) -> AsyncIterator[tuple[Stage, Held]]:
    clock = FakeClock()
    path = folder / "store.db"
    stage = Stage(path, clock, await open_store(path, clock, SeededEntropy(1)))
    held = await stage.set_up(renewal)
    await happens(stage, held)
    try:
        yield stage, held
    finally:
        await stage.store.close()


def name_of(situation: tuple[Happens, str]) -> str:
    return f"{situation[0].__name__}-{situation[1]}"


@pytest.mark.parametrize("situation", SITUATIONS, ids=name_of)
def test_every_kind_of_write_is_refused_as_stale_and_changes_nothing(
    situation: tuple[Happens, str], tmp_path: Path
) -> None:
    happens, renewal = situation

    async def scenario() -> None:
        async with staged(tmp_path, renewal, happens) as (stage, held):
            before = digest_of(stage.path)
            answers = {name: await send(stage.store, write) for name, write in every_write(held).items()}
            assert {name: answer for name, answer in answers.items() if not is_stale(answer)} == {}
            assert digest_of(stage.path) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("fence", [2, 0, -1], ids=["of the future", "none", "negative"])
def test_a_fence_that_was_never_given_opens_nothing_while_the_lease_is_good(fence: int, tmp_path: Path) -> None:
    async def nothing(stage: Stage, held: Held) -> None:
        assert held.fence == 1

    async def scenario() -> None:
        async with staged(tmp_path, Renewal.TOUCH, nothing) as (stage, held):
            forged = held._replace(fence=Fence(fence))
            before = digest_of(stage.path)
            # A datum without a fence is an operator's, who needs no lease.
            writes = {name: write for name, write in every_write(forged).items() if fence or "datum" not in name}
            answers = {name: await send(stage.store, write) for name, write in writes.items()}
            assert {name: answer for name, answer in answers.items() if not is_stale(answer)} == {}
            assert digest_of(stage.path) == before

    asyncio.run(scenario())


def test_the_same_writes_under_a_good_lease_are_accepted(tmp_path: Path) -> None:
    """Otherwise the refusals would prove nothing."""

    async def nothing(stage: Stage, held: Held) -> None: ...

    async def accepted(place: int, name: str) -> bool:
        folder = tmp_path / str(place)
        folder.mkdir()
        async with staged(folder, Renewal.TOUCH, nothing) as (stage, held):
            before = digest_of(stage.path)
            answer = await send(stage.store, every_write(held)[name])
            return not isinstance(answer, Exception) and not is_stale(answer) and digest_of(stage.path) != before

    async def scenario() -> set[str]:
        names = list(every_write(NOTHING))
        return {name for place, name in enumerate(names) if not await accepted(place, name)}

    # A task that was claimed straight to running cannot be started; and this one is no group that could be closed.
    assert asyncio.run(scenario()) == {"start", "all or nothing start", "edit close"}


def test_100000_stale_writes_are_refused_without_exception(tmp_path: Path) -> None:
    async def scenario() -> int:
        refused = 0
        for place, (happens, renewal) in enumerate(SITUATIONS):
            folder = tmp_path / str(place)
            folder.mkdir()
            async with staged(folder, renewal, happens) as (stage, held):
                before = digest_of(stage.path)
                refused += await flood(stage.store, held, -(-WRITES // len(SITUATIONS)))
                assert digest_of(stage.path) == before
        return refused

    assert asyncio.run(scenario()) >= WRITES


async def flood(store: SqliteStore, held: Held, count: int) -> int:
    """So many stale writes of all kinds, as many at once as there are; how many were refused."""
    kinds = len(moves(held)) + len(notes(held)) + len(edits(held)) + len(submissions(held))
    times = -(-count // kinds)
    exchanged, written, others = await asyncio.gather(
        store.exchange(Exchange(tuple(moves(held).values()) * times)),
        store.write(tuple(notes(held).values()) * times),
        flood_alone(store, held, times),
    )
    verdicts = [verdict for _, verdict in (*exchanged.refused, *written)]
    assert set(verdicts) == {Verdict.STALE}
    return len(verdicts) + others


async def flood_alone(store: SqliteStore, held: Held, times: int) -> int:
    """Submissions and edits raise, so each is a request of its own; a hundred rounds of them share a commit."""
    under = (held.task, held.fence)
    requests = [Edits((one,), under=under) for one in edits(held).values()]
    answers: list[object] = []
    for _ in range(times):
        calls = [*(store.edit(one) for one in requests), *(store.submit(one) for one in submissions(held).values())]
        answers += await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StaleLease) for answer in answers)
    return len(answers)


def digest_of(path: Path) -> str:
    with look_into(path) as connection:
        return digest(connection)
