"""Results of quick workers wait for each other, and for nobody else."""

import asyncio
from collections.abc import Awaitable, Callable

from ganger.faces.jobs.gathering import SHORT, Expected, Gathering


def play(act: Callable[[Gathering], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):
            await act(Gathering())

    asyncio.run(run())


def make_worker(gathering: Gathering, *, quick: bool) -> Expected:
    """A worker with a job, whose last one took no time, or long."""
    worker = Expected()
    worker.is_quick = quick
    gathering.expect(worker)
    return worker


async def arrive(gathering: Gathering, worker: Expected) -> "asyncio.Task[None]":
    """Its result has come, and has had its chance to go on."""
    arriving = asyncio.ensure_future(gathering.arrive(worker))
    await asyncio.sleep(0)
    return arriving


def test_a_worker_alone_waits_for_nobody() -> None:
    async def act(gathering: Gathering) -> None:
        worker = make_worker(gathering, quick=True)
        assert (await arrive(gathering, worker)).done()

    play(act)


def test_the_results_of_quick_workers_go_on_together() -> None:
    async def act(gathering: Gathering) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        waiting = await arrive(gathering, first)
        assert not waiting.done()
        await gathering.arrive(second)
        await waiting

    play(act)


def test_a_worker_whose_last_job_took_long_is_not_waited_for() -> None:
    async def act(gathering: Gathering) -> None:
        make_worker(gathering, quick=False)
        assert (await arrive(gathering, make_worker(gathering, quick=True))).done()

    play(act)


def test_whether_a_worker_is_quick_is_seen_at_its_last_job() -> None:
    async def act(gathering: Gathering) -> None:
        worker = make_worker(gathering, quick=False)
        await gathering.arrive(worker)
        assert worker.is_quick
        gathering.expect(worker)
        assert worker.since is not None
        worker.since -= 2 * SHORT
        await gathering.arrive(worker)
        assert not worker.is_quick

    play(act)


def test_one_whose_result_is_being_stored_is_waited_for() -> None:
    """Two halves that fell apart come together again."""

    async def act(gathering: Gathering) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        await asyncio.gather(gathering.arrive(first), gathering.arrive(second))
        gathering.expect(second)
        waiting = await arrive(gathering, second)
        assert not waiting.done()
        gathering.expect(first)
        await gathering.arrive(first)
        await waiting

    play(act)


def test_one_whose_result_was_stored_and_who_got_no_other_job_is_not_waited_for() -> None:
    async def act(gathering: Gathering) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        await asyncio.gather(gathering.arrive(first), gathering.arrive(second))
        gathering.expect(second)
        waiting = await arrive(gathering, second)
        gathering.forget(first)
        await waiting

    play(act)


def test_nobody_is_waited_for_without_end() -> None:
    async def act(gathering: Gathering) -> None:
        make_worker(gathering, quick=True)
        await gathering.arrive(make_worker(gathering, quick=True))
        assert (await arrive(gathering, make_worker(gathering, quick=True))).done()

    play(act)


def test_one_that_goes_is_not_waited_for() -> None:
    async def act(gathering: Gathering) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        waiting = await arrive(gathering, first)
        gathering.forget(second)
        await waiting
        gathering.forget(first)

    play(act)


def test_one_that_is_cancelled_while_it_waits_leaves_the_others_waiting() -> None:
    async def act(gathering: Gathering) -> None:
        first, second, third = (make_worker(gathering, quick=True) for _ in range(3))
        one, two = await arrive(gathering, first), await arrive(gathering, second)
        one.cancel()
        await asyncio.wait([one])
        gathering.forget(third)
        await two

    play(act)
