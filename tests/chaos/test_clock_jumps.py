"""Somebody sets the wall clock by an hour, or the machine boots anew: no lease ends early, none late."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import NodeGone
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.retry import Retry, to_text
from ganger.core.state import Status
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import (
    Claim,
    Configure,
    Exchange,
    NodeChange,
    Note,
    Progress,
    QueueChange,
    Submission,
    Tend,
    Touch,
)
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import FakeClock, SeededEntropy
from tests.chaos.harness import loss_of, open_store
from tests.chaos.harness_worker import Heard, crew

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

HOUR: Final = 3_600_000
LEASE: Final = 60_000
JUMPS: Final = {"forward": HOUR, "back": -HOUR}


@dataclass
class Bench:
    path: Path
    clock: FakeClock
    store: SqliteStore
    queue: QueueId = field(init=False)
    node: NodeId = field(init=False)

    async def set_up(self) -> None:
        policy = Policy(retry=to_text(Retry(max_crashes=0)))
        made = await self.store.configure(Configure(queue=QueueChange(name="work", policy=policy)))
        assert made.queue is not None
        self.queue = made.queue.id
        self.node = await self.register("worker")

    async def register(self, name: str) -> NodeId:
        said = Registration(name, "secret", lease=LEASE)
        made = await self.store.configure(Configure(node=NodeChange(register=said)))
        assert made.node is not None
        return made.node.id

    async def submit(self, **more: object) -> TaskId:
        task = NewTask(self.queue, "payload", ttr=LEASE)._replace(**more)  # type: ignore[arg-type]
        return (await self.store.submit(Submission((task,)))).ids[0]

    async def claim(self) -> list[Claimed]:
        return (await self.store.exchange(Exchange(claim=Claim(self.node, (self.queue,), start=True)))).claimed

    async def beat(self) -> None:
        await self.store.configure(Configure(node=NodeChange(id=self.node, token="secret", beat=True)))

    async def is_held(self, one: Claimed) -> bool:
        """Whether a write under the lease is accepted now. It must be if upkeep finds nothing, and only then."""
        refused = await self.store.write((Note(one.id, one.fence, progress=Progress(1.0, None)),))
        lapsed = (await self.store.tend(Tend(lapse=True))).lapsed
        assert bool(refused) == bool(lapsed)
        return not refused

    async def reopen(self) -> None:
        await self.store.close()
        self.store = await open_store(self.path, self.clock, SeededEntropy(2))

    async def status(self, task: TaskId) -> int:
        (found,) = await self.store.tasks([task])
        assert found is not None
        return found.status


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Bench]:
    clock = FakeClock()
    path = folder / "store.db"
    bench = Bench(path, clock, await open_store(path, clock, SeededEntropy(1)))
    await bench.set_up()
    try:
        yield bench
    finally:
        await bench.store.close()


@pytest.mark.parametrize("after", [0, LEASE // 2, LEASE - 1], ids=["at once", "midway", "at the last moment"])
@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
@pytest.mark.parametrize("renewal", list(Renewal))
def test_a_jump_of_the_wall_clock_moves_no_end_of_a_lease(renewal: str, jump: int, after: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            await bench.submit(renewal=renewal)
            (one,) = await bench.claim()
            bench.clock.advance(after)
            bench.clock.jump_wall(jump)
            assert await bench.is_held(one)
            bench.clock.advance(LEASE - 1 - after)
            assert await bench.is_held(one)
            bench.clock.advance(1)
            assert not await bench.is_held(one)

    asyncio.run(scenario())


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
@pytest.mark.parametrize("renewal", list(Renewal))
def test_a_renewal_after_a_jump_is_as_long_as_any_other(renewal: str, jump: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            await bench.submit(renewal=renewal)
            (one,) = await bench.claim()
            for _ in range(5):
                bench.clock.advance(LEASE - 1)
                bench.clock.jump_wall(jump)
                await bench.beat()
                assert await bench.store.write((Note(one.id, one.fence, touch=Touch()),)) == []
            bench.clock.advance(LEASE - 1)
            assert await bench.is_held(one)
            bench.clock.advance(1)
            assert not await bench.is_held(one)

    asyncio.run(scenario())


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
@pytest.mark.parametrize("renewal", list(Renewal))
def test_a_new_owner_of_the_file_in_the_same_boot_keeps_every_lease_to_its_end(
    renewal: str, jump: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            await bench.submit(renewal=renewal)
            (one,) = await bench.claim()
            bench.clock.advance(LEASE // 2)
            bench.clock.jump_wall(jump)
            await bench.reopen()
            bench.clock.advance(LEASE // 2 - 1)
            assert await bench.is_held(one)
            bench.clock.advance(1)
            assert not await bench.is_held(one)

    asyncio.run(scenario())


@pytest.mark.parametrize("uptime", [0, LEASE // 2, 50 * HOUR], ids=["at once", "soon", "after days"])
@pytest.mark.parametrize("renewal", list(Renewal))
def test_a_reboot_voids_every_lease_at_once_whatever_its_clock_says(renewal: str, uptime: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            task = await bench.submit(renewal=renewal)
            (one,) = await bench.claim()
            bench.clock.reboot(down=1_000)
            bench.clock.advance(uptime)
            await bench.reopen()
            assert not await bench.is_held(one)
            with pytest.raises(NodeGone):
                await bench.beat()
            await take_back(bench, task)
            bench.node = await bench.register("worker")
            (again,) = await bench.claim()
            assert again.fence > one.fence
            bench.clock.advance(LEASE - 1)
            assert await bench.is_held(again)

    asyncio.run(scenario())


async def take_back(bench: Bench, task: TaskId) -> None:
    (lapsed,) = (await bench.store.tend(Tend(lapse=True))).lapsed
    assert lapsed.task == task
    done = await bench.store.exchange(Exchange((loss_of(lapsed),)))
    assert done.refused == []
    assert await bench.status(task) == Status.QUEUED


def test_what_is_due_follows_the_wall_clock_forward(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            task = await bench.submit(delay=HOUR)
            assert await bench.claim() == []
            bench.clock.jump_wall(HOUR - 1)
            assert await bench.claim() == []
            bench.clock.advance(1)
            assert [one.id for one in await bench.claim()] == [task]

    asyncio.run(scenario())


def test_what_is_due_waits_longer_when_the_wall_clock_is_set_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            task = await bench.submit(delay=LEASE // 2)
            bench.clock.jump_wall(-HOUR)
            bench.clock.advance(LEASE // 2)
            assert await bench.claim() == []
            tended = await bench.store.tend(Tend(promote=True))
            assert (tended.done, tended.next_at) == (0, bench.clock.wall() + HOUR)
            bench.clock.jump_wall(HOUR)
            assert [one.id for one in await bench.claim()] == [task]

    asyncio.run(scenario())


def test_what_was_due_once_is_not_due_again_after_a_jump_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as bench:
            task = await bench.submit(due=Wall(bench.clock.wall() + HOUR))
            bench.clock.jump_wall(2 * HOUR)
            assert (await bench.store.tend(Tend(promote=True))).done == 1
            bench.clock.jump_wall(-2 * HOUR)
            assert (await bench.store.tend(Tend(promote=True))).done == 0
            assert await bench.status(task) == Status.QUEUED
            assert len(await bench.claim()) == 1
            assert await bench.claim() == []

    asyncio.run(scenario())


REAL_LEASE: Final = 1_500
MILLISECOND: Final = 1_000_000


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
@pytest.mark.parametrize("renewal", list(Renewal))
def test_in_a_real_process_whose_wall_clock_jumps_a_lease_ends_on_time(renewal: str, jump: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with crew() as company:
            worker = await company.hire(tmp_path / "store.db")
            await worker.hear("open")
            queue = (await worker.ask("configure", Configure(queue=QueueChange(name="work")))).queue.id
            await worker.ask("submit", Submission((NewTask(queue, "payload", renewal=renewal, ttr=REAL_LEASE),)))
            said = Registration("worker", "secret", lease=REAL_LEASE)
            await worker.tell("configure", Configure(node=NodeChange(register=said)))
            begun = await worker.hear("configure")
            await worker.tell("exchange", Exchange(claim=Claim(begun.value.node.id, (queue,))))
            granted = await worker.hear("exchange")
            (one,) = granted.value.claimed
            # A touched lease needs its node as well, so what was asked for first ends first.
            answers: list[Heard] = []
            while not answers or not answers[-1].value:
                await worker.ask("shift", jump * (len(answers) % 2))
                await worker.tell("write", (Note(one.id, one.fence, progress=Progress(float(len(answers)), None)),))
                answers.append(await worker.hear("write"))
            check_end(begun, granted, answers)

    asyncio.run(scenario())


def check_end(begun: Heard, granted: Heard, answers: list[Heard]) -> None:
    """Accepted as long as the lease was good for certain, refused as soon as it had ended for certain."""
    *accepted, refused = answers
    earliest = (begun.called // MILLISECOND + REAL_LEASE) * MILLISECOND
    latest = min(begun.returned, granted.returned) + REAL_LEASE * MILLISECOND
    assert len(accepted) > 5
    assert refused.returned >= earliest
    assert max(answer.called for answer in accepted) <= latest
