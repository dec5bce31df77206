"""Jobs find their workers: each sentence of the protocol about the dispatcher and the list of workers."""

import asyncio
from functools import partial
from pathlib import Path

from ganger.engine.store import Query
from tests.protocol.jobs.harness import BUSY, READY, Site, serve, soon, story, story_with


async def is_status(site: Site, key: str, status: str) -> bool:
    return bool((await site.show(key))["status"] == status)


@story
async def test_the_highest_priority_jobs_are_dispatched_first(site: Site) -> None:
    for payload, priority in ((b"b1", "batch"), (b"i1", "immediate"), (b"b2", "batch"), (b"i2", "immediate")):
        await site.submit(payload, priority)
    taken = []
    async with site.join() as worker:
        for _ in range(4):
            taken.append(await worker.take())
            await worker.give(b"")
    assert taken == [b"i1", b"i2", b"b1", b"b2"]


@story
async def test_each_job_is_assigned_to_one_worker_without_races(site: Site) -> None:
    payloads = {str(number).encode() for number in range(40)}
    taken: list[bytes] = []

    async def work(name: str) -> None:
        async with site.join(name) as worker:
            while True:
                taken.append(await worker.take())
                await worker.give(taken[-1])

    workers = [asyncio.ensure_future(work(f"w{number}")) for number in range(5)]
    await asyncio.gather(*(site.submit(payload) for payload in payloads))
    await soon(lambda: are_complete(site, len(payloads)))
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)
    assert sorted(taken) == sorted(payloads)


async def are_complete(site: Site, number: int) -> bool:
    return bool((await site.get("/api/jobs"))["counts"]["complete"] == number)


@story
async def test_when_a_job_has_finished_its_state_changes_in_the_registry(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        assert await is_status(site, job["key"], "running")
        await soon(lambda: has_started(site, job["key"]))
        await worker.give(b"y")
        shown = await site.show(job["key"], wait=10)
    assert shown["status"] == "complete"
    assert shown["submitted"] <= shown["started"] <= shown["ended"]


async def has_started(site: Site, key: str) -> bool:
    return (await site.show(key))["started"] is not None


@story
async def test_a_failed_job_goes_to_a_different_worker_than_the_one_it_last_failed_on(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join("one") as one:
        await one.take()
        async with site.join("two") as two:
            await soon(lambda: ready_beside(site, "two"))
            await one.say({"code": 4, "logs": None, "info": "broken"})
            assert await one.hear() == {"code": 2}
            await one.say(READY)
            assert await two.take() == b"x"
            await two.give(b"fine")
            shown = await site.show(job["key"], wait=10)
    assert (shown["status"], shown["tries"]) == ("complete", 2)


async def ready_beside(site: Site, name: str) -> bool:
    return any(worker["name"] == name and worker["state"] == "ready" for worker in await site.workers())


@story
async def test_a_job_that_was_kept_for_a_worker_which_then_is_busy_goes_to_another(site: Site) -> None:
    for payload in (b"1", b"2"):
        await site.submit(payload)
    async with site.join("one") as one:
        assert await one.take() == b"1"
        await one.give(b"")
        assert await one.hear() == {"code": 2}
        await one.say(BUSY)
        async with asyncio.timeout(20), site.join("two") as two:
            assert await two.take() == b"2"


@story
async def test_a_job_that_was_kept_for_a_worker_which_then_says_nothing_goes_to_another(site: Site) -> None:
    for payload in (b"1", b"2"):
        await site.submit(payload)
    async with site.join("one") as one, site.join("two") as two:
        assert {await one.take(), await two.take()} == {b"1", b"2"}
        await site.submit(b"3")
        await one.give(b"")
        assert await one.hear() == {"code": 2}
        await two.give(b"")
        async with asyncio.timeout(20):
            assert await two.take() == b"3"


@story
async def test_a_worker_that_is_drained_has_its_result_kept(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join(identity="machine") as worker:
        await worker.take()
        await site.engine.nodes.drain("worker machine", by="test")
        await worker.give(b"done")
        assert await site.read(job["key"], "result", wait=10) == b"done"


@story
async def test_a_failed_job_comes_back_to_the_only_worker_there_is(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        for _ in range(3):
            assert await worker.take() == b"x"
            await worker.say({"code": 4, "logs": None, "info": "broken"})
        shown = await site.show(job["key"], wait=10)
    assert (shown["status"], shown["tries"], shown["reason"]) == ("failed", 3, "broken")


@story
async def test_the_priority_of_failed_jobs_is_lowered_so_that_they_do_not_clog_the_queue(site: Site) -> None:
    await site.submit(b"poison")
    await site.submit(b"other")
    taken = []
    async with site.join() as worker:
        for _ in range(3):
            taken.append(await worker.take())
            await (worker.say({"code": 4}) if taken[-1] == b"poison" else worker.give(b""))
    assert taken == [b"poison", b"other", b"poison"]


@story_with(job_tries="5")
async def test_how_often_a_job_is_tried_is_configurable(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        for _ in range(5):
            await worker.take()
            await worker.say({"code": 4})
        assert (await site.show(job["key"], wait=10))["tries"] == 5


@story
async def test_a_worker_that_disconnects_while_working_gives_its_job_back_at_once(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join("one") as worker:
        await worker.take()
        worker.socket.transport.abort()
        async with asyncio.timeout(20), site.join("two") as other:
            assert await other.take() == b"x"
            await other.give(b"done")
            assert (await site.show(job["key"], wait=5))["status"] == "complete"


@story
async def test_a_job_that_kills_three_workers_is_set_aside(site: Site) -> None:
    job = await site.submit(b"x")
    for number in range(3):
        async with site.join(f"w{number}") as worker:
            await worker.take()
            worker.socket.transport.abort()
        await soon(partial(has_crashes, site, job["key"], number + 1))
    shown = await site.show(job["key"])
    assert (shown["status"], shown["tries"], shown["crashes"]) == ("failed", 0, 3)


async def has_crashes(site: Site, key: str, number: int) -> bool:
    return bool((await site.show(key))["crashes"] == number)


@story_with(worker_silence="1s")
async def test_jobs_that_appear_to_be_stuck_are_taken_back_and_counted_as_a_crash(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join("stuck") as stuck:
        await stuck.take()
        code, reason = await stuck.end()
        assert code == 1008
        assert "status requests" in reason
        async with site.join("good") as good:
            assert await good.take() == b"x"
            assert (await site.show(job["key"]))["crashes"] == 1


@story_with(worker_silence="1s")
async def test_a_worker_that_never_tells_its_status_is_asked_again_and_then_given_up(site: Site) -> None:
    async with site.dial() as worker:
        await worker.say({"code": 0, "name": "w", "id": "w", "token": site.secret})
        assert [await worker.hear(), await worker.hear()] == [{"code": 2}] * 2
        assert "status requests" in (await worker.end())[1]


@story_with(worker_silence="1500ms")
async def test_a_worker_that_says_ready_with_a_job_in_its_hands_has_lost_it(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        assert await worker.hear() == {"code": 2}
        await worker.say(READY)
        assert "sent no result" in (await worker.end())[1]
    assert (await site.show(job["key"]))["crashes"] == 1


@story
async def test_the_list_has_the_connected_and_the_recently_disconnected_workers(site: Site) -> None:
    assert await site.workers() == []
    async with site.join("one", identity="machine"):
        await soon(lambda: ready_beside(site, "one"))
        (worker,) = await site.workers()
        assert (worker["id"], worker["name"], worker["disconnected"]) == ("machine", "one", None)
        assert worker["address"] == "127.0.0.1"
    await soon(lambda: is_gone(site))
    (worker,) = await site.workers()
    assert (worker["id"], worker["state"]) == ("machine", "gone")
    assert worker["disconnected"] >= worker["connected"]


async def is_gone(site: Site) -> bool:
    return all(worker["state"] == "gone" for worker in await site.workers())


@story
async def test_the_list_says_which_job_a_worker_has(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join("one") as worker:
        await worker.take()
        (shown,) = await site.workers()
        assert (shown["state"], shown["job"]) == ("working", job["id"])
        assert (await site.show(job["key"]))["worker"] == "one"


@story
async def test_failed_and_successful_jobs_are_counted_per_identity_over_reconnects(site: Site) -> None:
    for _ in range(2):
        await site.submit(b"good")
        await site.submit(b"bad")
    for name in ("before", "after"):
        async with site.join(name, identity="machine") as worker:
            for _ in range(2):
                payload = await worker.take()
                await (worker.give(b"") if payload == b"good" else worker.say({"code": 4}))
            assert await worker.hear() == {"code": 2}
        await soon(lambda: is_gone(site))
    assert {(worker["succeeded"], worker["failed"]) for worker in await site.workers()} == {(2, 2)}


@story
async def test_several_programs_of_one_machine_may_have_the_same_id(site: Site) -> None:
    await site.submit(b"1")
    await site.submit(b"2")
    async with site.join("one", identity="same") as one, site.join("two", identity="same") as two:
        assert {await one.take(), await two.take()} == {b"1", b"2"}


@story
async def test_workers_are_nodes_that_every_door_shows(site: Site) -> None:
    async with site.join("one", identity="machine"):
        nodes = {node.name: node for node in await site.engine.nodes.all() if node.here}
        assert nodes["worker machine"].kinds == ("payload",)


@story
async def test_a_job_that_is_killed_at_another_door_is_taken_from_its_worker(site: Site) -> None:
    job = await site.submit(b"x")
    (task,) = (await site.engine.find(Query())).tasks
    async with site.join() as worker:
        await worker.take()
        reply = await site.client.put("/v1/scheduler/kill", params={"id": str(task.id)})
        assert reply.status_code == 202, reply.text
        assert "killed" in (await worker.end())[1]
    assert (await site.show(job["key"], wait=10))["status"] == "failed"


@story
async def test_a_worker_whose_token_is_revoked_is_sent_away(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        site.server.tokens.remove("workers 1")
        assert "revoked" in (await worker.end())[1]
    shown = await site.show(job["key"])
    assert (shown["status"], shown["crashes"]) == ("pending", 0)


def test_when_the_server_stops_workers_are_told_and_their_jobs_wait_for_the_next_one(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site:
            await site.submit(b"x", key="k")
            async with site.join() as worker:
                await worker.take()
                ending = asyncio.ensure_future(worker.end())
                await site.server.service.stop()
                assert (await ending)[0] == 1001
        async with serve(tmp_path) as site:
            shown = await site.show("k")
            assert (shown["status"], shown["crashes"], shown["tries"]) == ("pending", 0, 0)

    asyncio.run(tell())
