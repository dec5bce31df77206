"""An attempt as the node sees it: what its waiters are told, and what the guardian is."""

import asyncio

import pytest

from ganger.core.errors import NodeGone, StoreUnavailable
from ganger.node.guardian.messages import End, Forget, Key, Order, Stop
from ganger.node.guardian.ward import Ward

KEY = (22, 3)


class Desk:
    """Takes the orders of wards."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.released: list[Key] = []

    def send(self, order: Order) -> None:
        self.orders.append(order)

    def release(self, key: Key) -> None:
        self.released.append(key)


def test_an_end_tells_that_it_had_begun() -> None:
    async def check() -> None:
        ward = Ward(KEY, Desk())
        waiting = asyncio.create_task(ward.begun())
        end = End(*KEY, "exit", code=0, serial=5)
        ward.finish(end)
        await waiting
        assert await ward.ended() == end == await ward.ended()
        assert (ward.has_begun, ward.is_open, ward.serial) == (True, False, 5)

    asyncio.run(check())


def test_a_waiter_that_gives_up_takes_nothing_from_the_others() -> None:
    async def check() -> None:
        ward = Ward(KEY, Desk())
        first, second = asyncio.create_task(ward.ended()), asyncio.create_task(ward.ended())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        end = End(*KEY, "exit", code=0)
        ward.finish(end)
        assert await second == end

    asyncio.run(check())


def test_what_could_not_begin_says_so_to_whoever_waits_for_its_beginning_or_its_end() -> None:
    async def check() -> None:
        ward = Ward(KEY, Desk())
        ward.fail(StoreUnavailable("there is no guardian"))
        for waiting in (ward.begun(), ward.ended()):
            with pytest.raises(StoreUnavailable, match="no guardian"):
                await waiting

    asyncio.run(check())


def test_what_runs_and_is_taken_over_has_begun_all_the_same() -> None:
    async def check() -> None:
        ward = Ward(KEY, Desk())
        ward.begin(7, 1)
        ward.fail(NodeGone("another node has taken over"))
        await ward.begun()
        with pytest.raises(NodeGone):
            await ward.ended()

    asyncio.run(check())


def test_an_abandoned_one_is_ended_and_then_forgotten() -> None:
    desk = Desk()
    ward = Ward(KEY, desk)
    ward.abandon()
    assert desk.orders == [Stop(*KEY, "shutdown", "its start was given up")]
    ward.finish(End(*KEY, "shutdown"))
    assert desk.orders[1:] == [Forget([KEY])]
    assert desk.released == [KEY]


def test_one_that_has_ended_when_it_is_abandoned_is_forgotten_at_once() -> None:
    desk = Desk()
    ward = Ward(KEY, desk)
    ward.finish(End(*KEY, "exit", code=0))
    ward.abandon()
    assert desk.orders == [Forget([KEY])]
    assert desk.released == [KEY]
