"""Results of quick workers wait for each other, and for nobody else."""

import asyncio
from collections.abc import Awaitable, Callable

from ganger.faces.jobs.gathering import SHORT, Expected, Gathering

Sent = asyncio.Future[None]


def play(act: Callable[[Gathering[Sent]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):
            await act(Gathering(send))

    asyncio.run(run())


def send(results: list[Sent]) -> None:
    for result in results:
        result.set_result(None)


def make_worker(gathering: Gathering[Sent], *, quick: bool) -> Expected:
    """A worker with a job, whose last one took no time, or long."""
    worker = Expected()
    worker.is_quick = quick
    gathering.expect(worker)
    return worker


def arrive(gathering: Gathering[Sent], worker: Expected) -> Sent:
    """Its result has come; it is done when it is sent on."""
    result = asyncio.get_running_loop().create_future()
    gathering.bring(worker, result)
    return result


def test_a_worker_alone_waits_for_nobody() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        worker = make_worker(gathering, quick=True)
        assert arrive(gathering, worker).done()

    play(act)


def test_the_results_of_quick_workers_go_on_together() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        waiting = arrive(gathering, first)
        assert not waiting.done()
        await arrive(gathering, second)
        await waiting

    play(act)


def test_a_worker_whose_last_job_took_long_is_not_waited_for() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        make_worker(gathering, quick=False)
        assert arrive(gathering, make_worker(gathering, quick=True)).done()

    play(act)


def test_whether_a_worker_is_quick_is_seen_at_its_last_job() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        worker = make_worker(gathering, quick=False)
        await arrive(gathering, worker)
        assert worker.is_quick
        gathering.expect(worker)
        assert worker.since is not None
        worker.since -= 2 * SHORT
        await arrive(gathering, worker)
        assert not worker.is_quick

    play(act)


def test_one_whose_result_is_being_stored_is_waited_for() -> None:
    """Two halves that fell apart come together again."""

    async def act(gathering: Gathering[Sent]) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        await asyncio.gather(arrive(gathering, first), arrive(gathering, second))
        gathering.expect(second)
        waiting = arrive(gathering, second)
        assert not waiting.done()
        gathering.expect(first)
        await arrive(gathering, first)
        await waiting

    play(act)


def test_one_whose_result_was_stored_and_who_got_no_other_job_is_not_waited_for() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        await asyncio.gather(arrive(gathering, first), arrive(gathering, second))
        gathering.expect(second)
        waiting = arrive(gathering, second)
        gathering.forget(first)
        await waiting

    play(act)


def test_nobody_is_waited_for_without_end() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        make_worker(gathering, quick=True)
        await arrive(gathering, make_worker(gathering, quick=True))
        assert arrive(gathering, make_worker(gathering, quick=True)).done()

    play(act)


def test_one_that_goes_is_not_waited_for() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        first, second = make_worker(gathering, quick=True), make_worker(gathering, quick=True)
        waiting = arrive(gathering, first)
        gathering.forget(second)
        await waiting
        gathering.forget(first)

    play(act)


def test_the_result_of_one_that_goes_meanwhile_waits_and_goes_on_with_the_others() -> None:
    async def act(gathering: Gathering[Sent]) -> None:
        first, second, third = (make_worker(gathering, quick=True) for _ in range(3))
        one, two = arrive(gathering, first), arrive(gathering, second)
        gathering.forget(first)
        assert not one.done()
        assert not two.done()
        gathering.forget(third)
        assert one.done()
        assert two.done()

    play(act)
