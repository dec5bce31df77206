"""Workers that fail: their jobs rest and go to others, and one that fails again and again is set aside."""

import asyncio
from typing import Any

from ganger.faces.jobs.conduct import ASIDE, FIRST_REST, LONGEST_REST, MOST_FAILURES, Conduct
from ganger.faces.jobs.workers import Workers
from ganger.testing.clock import FakeClock
from tests.protocol.jobs.harness import Site, soon, story, story_with
from tests.protocol.jobs.test_polling import say as say_polled
from tests.protocol.jobs.test_polling import take as poll

FAILED = {"code": 4, "logs": None, "info": "broken"}


class Heard:
    """A telemetry that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))


def test_the_pause_of_a_worker_grows_with_each_failure_until_it_is_set_aside() -> None:
    clock = FakeClock()
    conduct = Conduct(clock)
    rests = []
    for number in range(1, MOST_FAILURES + 1):
        assert conduct.note_failure("w") == (number == MOST_FAILURES)
        rests.append(conduct.find_rest("w"))

    assert rests[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert max(rests[:-1]) == LONGEST_REST
    assert (rests[-1], conduct.is_aside("w")) == (ASIDE, True)
    clock.advance(ASIDE)
    assert conduct.find_rest("w") == 0
    conduct.forgive("w")
    assert not conduct.is_aside("w")
    assert conduct.find_rest("other") == 0


def test_a_worker_that_is_set_aside_is_told_of_in_the_log_and_one_success_takes_it_back() -> None:
    heard = Heard()
    workers = Workers(FakeClock(), heard)
    for _ in range(MOST_FAILURES):
        workers.tally("w", succeeded=False)

    assert [name for name, _ in heard.events] == ["worker_set_aside"]
    assert workers.is_aside("w")
    workers.tally("w", succeeded=True)
    assert not workers.is_aside("w")
    assert workers.find_rest("w") == 0


@story_with(job_tries="3")
async def test_one_broken_worker_cannot_take_the_attempts_of_many_jobs(site: Site) -> None:
    for number in range(40):
        await site.submit(b"%d" % number)
    failed = 0
    async with site.join("broken") as worker:
        loop = asyncio.get_running_loop()
        until = loop.time() + 3
        while loop.time() < until:
            try:
                async with asyncio.timeout(max(0.0, until - loop.time())):
                    await worker.take()
            except TimeoutError:
                break
            failed += 1
            await worker.say(FAILED)

    assert 1 < failed < MOST_FAILURES


@story
async def test_a_worker_that_was_set_aside_is_shown_as_that_and_gets_nothing(site: Site) -> None:
    workers = _find_workers(site)
    for _ in range(MOST_FAILURES):
        workers.tally("broken", succeeded=False)
    await site.submit(b"x")
    async with site.join("broken", identity="broken"), site.join("well", identity="well") as well:
        assert await well.take() == b"x"
        await well.give(b"y")
        assert {worker["id"]: worker["state"] for worker in await site.workers()}["broken"] == "set aside"
        assert (await poll(site, "broken")).status_code == 204


def _find_workers(site: Site) -> Any:
    rows = site.server.service.door.table.rows
    registry: Any = next(row.endpoint for row in rows if row.path == "/api/workers")
    return registry.__self__._backend.workers


@story
async def test_a_lone_worker_gets_its_failed_job_back_after_a_pause_that_grows(site: Site) -> None:
    await site.submit(b"x")
    loop, pauses = asyncio.get_running_loop(), []
    async with site.join() as worker:
        await worker.take()
        for _ in range(2):
            began = loop.time()
            await worker.say(FAILED)
            await worker.take()
            pauses.append(loop.time() - began)

    assert pauses[0] >= 0.9
    assert pauses[1] >= 1.9


@story
async def test_a_job_that_a_polling_worker_has_can_be_deleted(site: Site) -> None:
    job = await site.submit(b"x")
    taken = await poll(site)

    reply = await site.client.delete(f"/api/jobs/{job['key']}")

    assert reply.status_code == 204
    assert (await site.client.get(f"/api/jobs/{job['key']}")).status_code == 404
    assert (await say_polled(site, taken, "progress", percent=1.0)).status_code == 404


@story
async def test_a_complete_job_says_who_solved_it_and_has_no_old_reason(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join("first") as first:
        await first.take()
        await first.say(FAILED)
        assert await first.hear() == {"code": 2}
    async with site.join("second") as second:
        await second.take()
        await second.give(b"y")
        shown = await site.show(job["key"], wait=10)

    assert (shown["status"], shown["worker"], shown["reason"]) == ("complete", "second", None)
    assert (await site.show(job["key"]))["worker"] == "second"


@story_with(job_types="frame > film, film")
async def test_a_job_of_a_chain_names_its_source_and_its_successor(site: Site) -> None:
    frame = await site.submit(b"raw", to="/api/jobs/submit/frame")
    async with site.join("a", "/api/worker/frame") as worker:
        await worker.take()
        await worker.give(b"cooked")
        done = await site.show(frame["key"], wait=10)

    film = await site.show(done["successor"])
    assert (film["type"], film["source"], film["successor"]) == ("film", frame["id"], None)
    assert done["source"] is None


@story
async def test_an_id_as_it_was_read_from_a_file_is_taken(site: Site) -> None:
    await site.submit(b"x")
    async with site.join("machine", identity="0123456789abcdef\n") as worker:
        assert await worker.take() == b"x"
        assert [each["id"] for each in await site.workers()] == ["0123456789abcdef"]
        await worker.give(b"")
    await soon(lambda: _is_empty(site))
    assert (await poll(site, "other\n")).status_code == 204


async def _is_empty(site: Site) -> bool:
    return bool((await site.get("/api/jobs"))["counts"]["running"] == 0)
