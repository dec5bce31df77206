"""Locks on the memory backend, in time that is turned by hand."""

import asyncio
from typing import Any

import pytest

from ganger.coordination.backend import Document, Version, Written
from ganger.coordination.coordination import Coordination
from ganger.coordination.hold import Ended, Hold
from ganger.coordination.lock import Busy, keeping
from ganger.core.errors import BadDocument, BadName, BadNumber, LockBusy, LockLost, StoreUnavailable
from tests.unit.coordination.world import World, pass_time, tell

TTL = 1_000


def test_a_lock_is_a_document_with_holder_and_expire() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        document = (await world.backend.read("lock/a")).document

        assert document is not None
        assert set(document) == {"holder", "expire"}
        assert len(document["holder"]) == 36
        assert document["expire"] == world.clock.wall() + TTL

        await hold.release()
        assert (await world.backend.read("lock/a")).document == {**document, "expire": 0}

    tell(story)


def test_of_two_one_has_it_and_the_other_is_told() -> None:
    async def story(world: World) -> None:
        one, two = world.process()[0], world.process()[0]
        hold = await one.lock("a", ttl=TTL).acquire()

        with pytest.raises(LockBusy) as caught:
            await two.lock("a", ttl=TTL).acquire()
        assert caught.value.fields["holder"] == hold.holder
        with pytest.raises(LockBusy):
            await one.lock("a", ttl=TTL).acquire()

        await hold.release()
        again = await two.lock("a", ttl=TTL).acquire()
        assert again.epoch > hold.epoch
        await again.release()

    tell(story)


def test_a_lock_that_is_renewed_stays_for_hours_and_keeps_its_epoch() -> None:
    async def story(world: World) -> None:
        one, two = world.process()[0], world.process()[0]
        hold = await one.lock("a", ttl=TTL).acquire()
        epoch = hold.epoch

        with pytest.raises(LockBusy):
            await two.lock("a", ttl=TTL).acquire(600)
        hold.check()
        assert hold.epoch == epoch
        assert (await world.backend.read("lock/a")).version != epoch
        await hold.release()

    tell(story)


def test_a_waiter_is_woken_by_the_release() -> None:
    async def story(world: World) -> None:
        one, two = world.process()[0], world.process()[0]
        hold = await one.lock("a", ttl=TTL).acquire()
        waiting = asyncio.create_task(two.lock("a", ttl=TTL).acquire(60))
        await pass_time(world.clock, 100)
        began = world.clock.now()
        await hold.release()

        got = await waiting
        assert world.clock.now() - began <= 10
        await got.release()

    tell(story)


def test_the_lock_of_one_who_died_is_taken_within_two_ttls() -> None:
    async def story(world: World) -> None:
        for patience in (True, False):
            one, two = world.process()[0], world.process()[0]
            hold = await one.lock("a", ttl=TTL).acquire(60)
            waiting = asyncio.create_task(two.lock("a", ttl=TTL).acquire(None, eager=patience))
            await pass_time(world.clock, 5_300)
            died = world.clock.now()
            await hold.abandon()

            got = await waiting
            assert TTL * 0.6 <= world.clock.now() - died <= 2 * TTL
            assert world.clock.now() > hold.deadline
            await got.release()

    tell(story)


def test_no_jump_of_the_wall_clock_takes_a_lock() -> None:
    async def story(world: World) -> None:
        one, two = world.process()[0], world.process()[0]
        hold = await one.lock("a", ttl=TTL).acquire()
        waiting = asyncio.create_task(two.lock("a", ttl=TTL).acquire(None))
        for jump in (3_600_000, -7_200_000, 86_400_000, 10, -10):
            world.clock.jump_wall(jump)
            await pass_time(world.clock, 1_700)
            hold.check()
            assert not waiting.done()
        world.clock.jump_wall(-86_400_000 - 3_600_000 + 7_200_000)
        await hold.release()
        await (await waiting).release()

    tell(story)


def test_a_holder_that_is_cut_off_stops_before_another_begins() -> None:
    async def story(world: World) -> None:
        (one, wire), (two, _) = world.process(), world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        waiting = asyncio.create_task(two.lock("a", ttl=TTL).acquire(None))
        await pass_time(world.clock, 2_000)
        wire.cut = True
        await hold.ended.wait()
        ended = world.clock.now()

        assert hold.reason == Ended.EXPIRED
        assert not waiting.done()
        with pytest.raises(LockLost):
            hold.check()
        got = await waiting
        assert world.clock.now() >= ended + TTL // 10
        await got.release()
        await hold.release()

    tell(story)


def test_a_holder_goes_on_if_the_wire_is_mended_in_time() -> None:
    async def story(world: World) -> None:
        one, wire = world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        for _ in range(20):
            wire.cut = True
            await pass_time(world.clock, TTL // 2)
            wire.cut = False
            await pass_time(world.clock, TTL // 2)
            hold.check()
        await hold.release()

    tell(story)


def test_a_renewal_whose_answer_is_lost_is_found_again() -> None:
    async def story(world: World) -> None:
        one, wire = world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        for _ in range(20):
            wire.loses_answers = True
            await pass_time(world.clock, TTL // 2)
            wire.loses_answers = False
            await pass_time(world.clock, TTL // 2)
            hold.check()
        await hold.release()
        assert (await world.backend.read("lock/a")).document == {"holder": hold.holder, "expire": 0}

    tell(story)


def test_an_acquisition_whose_answer_is_lost_is_found_again_or_not_believed() -> None:
    async def story(world: World) -> None:
        one, wire = world.process()
        wire.loses_answers = True
        lock = one.lock("a", ttl=TTL)

        with pytest.raises(StoreUnavailable):
            await lock.attempt()
        wire.loses_answers = False
        got = await lock.acquire(60)
        assert isinstance(got, Hold)
        await got.release()

        original = wire.write
        lost: list[Written] = []

        async def lose_one(name: str, document: Document, version: Version | None) -> Written:
            written = await original(name, document, version)
            if not lost:
                lost.append(written)
                raise StoreUnavailable("no answer")
            return written

        wire.write = lose_one  # type: ignore[method-assign]
        found = await lock.attempt()
        assert isinstance(found, Hold)
        assert found.epoch > lost[0].version
        await found.release()

    tell(story)


def test_a_lock_that_was_taken_from_its_holder_is_lost_at_the_next_renewal() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        reading = await world.backend.read("lock/a")
        await world.backend.write("lock/a", {"holder": "thief", "expire": world.clock.wall() + 9_999}, reading.version)
        await hold.ended.wait()

        assert hold.reason == Ended.TAKEN
        assert world.clock.now() < hold.deadline
        await hold.release()
        assert (await world.backend.read("lock/a")).document["holder"] == "thief"  # type: ignore[index]

    tell(story)


def test_a_block_under_a_lock_is_cancelled_when_the_lock_is_lost() -> None:
    async def story(world: World) -> None:
        one, wire = world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        reached = []

        async def work() -> None:
            async with keeping(hold):
                wire.cut = True
                await pass_time(world.clock, 3_600_000)
                reached.append(True)

        began = world.clock.now()
        with pytest.raises(LockLost):
            await work()
        assert not reached
        assert world.clock.now() - began <= TTL

    tell(story)


def test_a_block_that_is_cancelled_by_others_stays_cancelled_and_gives_the_lock_back() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        inside = asyncio.Event()

        async def work() -> None:
            async with keeping(await one.lock("a", ttl=TTL).acquire()):
                inside.set()
                await pass_time(world.clock, 3_600_000)

        working = asyncio.create_task(work())
        await inside.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await (await one.lock("a", ttl=TTL).acquire()).release()

    tell(story)


def test_nobody_polls_before_expire_who_was_not_asked_to_wait() -> None:
    async def story(world: World) -> None:
        (one, _), (two, wire) = world.process(), world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        stop = wire.watch
        wire.watch = lambda names, told: lambda: None  # type: ignore[method-assign]
        waiting = asyncio.create_task(two.lock("a", ttl=TTL).acquire(None, eager=False))
        await pass_time(world.clock, 100 * TTL)
        waiting.cancel()

        assert stop is not None
        assert 60 < wire.calls["read"] <= 110
        await hold.release()

    tell(story)


def test_fifty_waiters_all_get_it_and_none_waits_for_ever() -> None:
    async def story(world: World) -> None:
        waits: list[int] = []

        async def work(process: Coordination) -> None:
            began = world.clock.now()
            hold = await process.lock("a", ttl=TTL).acquire(None)
            waits.append(world.clock.now() - began)
            await pass_time(world.clock, 30)
            await hold.release()

        processes = [world.process()[0] for _ in range(10)]
        await asyncio.gather(*(work(processes[n % 10]) for n in range(50)))

        assert len(waits) == 50
        assert max(waits) <= 5 * sorted(waits)[25]

    tell(story)


def test_waiters_of_one_process_are_served_in_their_order() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        order: list[int] = []

        async def work(number: int) -> None:
            hold = await one.lock("a", ttl=TTL).acquire(None)
            order.append(number)
            await pass_time(world.clock, 20)
            await hold.release()

        async with asyncio.timeout(600):
            await asyncio.gather(*(work(number) for number in range(20)))
        assert order == list(range(20))

    tell(story)


def test_one_who_gives_up_leaves_the_line() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        hold = await one.lock("a", ttl=TTL).acquire()
        for wait in (0.0, 0.2, 1.0):
            with pytest.raises(LockBusy):
                await one.lock("a", ttl=TTL).acquire(wait)
        waiting = asyncio.create_task(one.lock("a", ttl=TTL).acquire(None))
        await pass_time(world.clock, 50)
        waiting.cancel()
        await asyncio.wait([waiting])
        await hold.release()
        await (await one.lock("a", ttl=TTL).acquire()).release()
        assert not one._room.turns._turns

    tell(story)


def test_a_spoilt_document_is_told_and_left_alone() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        spoilt: dict[str, Any] = {"holder": 7, "expire": 1}
        await world.backend.write("lock/a", spoilt, None)

        with pytest.raises(BadDocument):
            await one.lock("a").acquire(5)
        assert (await world.backend.read("lock/a")).document == spoilt

    tell(story)


def test_bad_names_and_numbers_are_refused() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        for name in ("", "a\nb", " a", "x" * 201):
            with pytest.raises(BadName):
                one.lock(name)
        for slots in (0, -1, 1_001):
            with pytest.raises(BadNumber):
                one.semaphore("a", slots)
        with pytest.raises(BadNumber):
            one.lock("a", ttl=1)

    tell(story)


def test_a_semaphore_has_as_many_holders_as_slots() -> None:
    async def story(world: World) -> None:
        processes = [world.process()[0] for _ in range(4)]
        holds = [await process.semaphore("s", 3, ttl=TTL).acquire() for process in processes[:3]]

        with pytest.raises(LockBusy):
            await processes[3].semaphore("s", 3, ttl=TTL).acquire()
        with pytest.raises(LockBusy):
            await processes[0].semaphore("s", 3, ttl=TTL).acquire(0.5)
        waiting = asyncio.create_task(processes[3].semaphore("s", 3, ttl=TTL).acquire(None))
        await pass_time(world.clock, 3_000)
        assert not waiting.done()
        await holds[1].release()
        got = await waiting
        assert len({hold.name for hold in (holds[0], got, holds[2])}) == 3
        await holds[0].abandon()
        last = await processes[3].semaphore("s", 3, ttl=TTL).acquire(3)
        for hold in (got, holds[2], last):
            await hold.release()

    tell(story)


def test_a_semaphore_under_load_never_has_too_many() -> None:
    async def story(world: World) -> None:
        inside, most = 0, 0

        async def work(process: Coordination) -> None:
            nonlocal inside, most
            hold = await process.semaphore("s", 3, ttl=TTL).acquire(None)
            inside += 1
            most = max(most, inside)
            await pass_time(world.clock, 70)
            inside -= 1
            await hold.release()

        processes = [world.process()[0] for _ in range(8)]
        await asyncio.gather(*(work(processes[n % 8]) for n in range(40)))
        assert most == 3

    tell(story)


def test_an_attempt_tells_how_long_it_may_take() -> None:
    async def story(world: World) -> None:
        one, two = world.process()[0], world.process()[0]
        hold = await one.lock("a", ttl=TTL).acquire()

        found = await two.lock("a", ttl=TTL).attempt()
        assert isinstance(found, Busy)
        assert found.wait == TTL + TTL // 10 + 1
        await hold.release()

    tell(story)
