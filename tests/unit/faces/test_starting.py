"""Only jobs that run for a while are told to have begun."""

import asyncio
from collections.abc import Awaitable, Callable

from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.task import Claimed, Kind
from ganger.faces.jobs.starting import Starting


def make_job(number: int) -> Claimed:
    return Claimed(
        TaskId(number), QueueId(1), Kind.PAYLOAD, b"x", Fence(1), NodeId(1), None, 1024, 0, 0, "", None, 0
    )  # fmt: skip


def play(act: Callable[[Starting, "asyncio.Queue[Claimed]"], Awaitable[None]]) -> None:
    async def run() -> None:
        told: asyncio.Queue[Claimed] = asyncio.Queue()
        starting = Starting(told.put_nowait)
        async with asyncio.timeout(30):
            await act(starting, told)
        starting.close()

    asyncio.run(run())


def test_a_job_that_runs_for_a_while_is_told() -> None:
    async def act(starting: Starting, told: "asyncio.Queue[Claimed]") -> None:
        starting.begin(make_job(1))
        assert (await told.get()).id == 1

    play(act)


def test_a_job_that_is_over_is_not_told_and_the_next_has_its_own_time() -> None:
    async def act(starting: Starting, told: "asyncio.Queue[Claimed]") -> None:
        for number in range(1, 4):
            starting.begin(make_job(number))
            starting.end()
        starting.begin(make_job(4))
        assert (await told.get()).id == 4
        assert told.empty()

    play(act)


def test_a_job_is_told_once_and_the_one_after_it_too() -> None:
    async def act(starting: Starting, told: "asyncio.Queue[Claimed]") -> None:
        for number in (1, 2):
            starting.begin(make_job(number))
            assert (await told.get()).id == number
            starting.end()
        assert told.empty()

    play(act)
