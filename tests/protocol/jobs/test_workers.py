"""The list of workers: who is here and who was, what came of their jobs, and how one is sent away."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from ganger.assembly.jobs_roll import RollService
from ganger.core.ids import NodeId, Position, TaskId
from ganger.faces.jobs.workers import Reins, Seen, Workers
from ganger.testing.clock import FakeClock
from tests.protocol.jobs.harness import READY, Site, serve, soon, story
from tests.protocol.jobs.test_polling import answer, say
from tests.protocol.jobs.test_polling import take as poll
from tests.protocol.jobs.test_second import join as join_second
from tests.protocol.jobs.test_second import take as take_second

KICKED = (1008, "an operator sent this worker away")


async def kick(site: Site, name: str) -> list[dict[str, Any]]:
    reply = await site.client.post(f"/api/workers/{name}/kick")
    assert reply.status_code == 200, reply.text
    told: list[dict[str, Any]] = reply.json()
    return told


async def find(site: Site, identity: str) -> dict[str, Any]:
    (found,) = [worker for worker in await site.workers() if worker["id"] == identity]
    return found


@story
async def test_a_worker_that_is_kicked_is_told_and_its_job_goes_to_another_without_blame(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join("first") as first, site.join("second") as second:
        assert await first.take() == b"x"
        assert [worker["node"] for worker in await kick(site, "id-first")] == ["worker id-first"]
        assert await first.end() == KICKED
        assert await second.take() == b"x"
        shown = await site.show(job["key"])
        assert (shown["worker"], shown["tries"], shown["crashes"]) == ("second", 0, 0)
        assert (await find(site, "id-first"))["last_state"] == "working"


@story
async def test_all_connections_of_an_id_are_kicked_or_the_one_of_a_node(site: Site) -> None:
    async with site.join("a", identity="m") as one, site.join("b", identity="m") as two:
        assert len(await kick(site, "worker%20m%20%232")) == 1
        assert await two.end() == KICKED
        assert len(await kick(site, "m")) == 1
        assert await one.end() == KICKED


@story
async def test_a_worker_of_protocol_2_is_kicked_with_all_its_jobs(site: Site) -> None:
    await site.submit(b"1")
    await site.submit(b"2")
    async with join_second(site, slots=2) as (worker, _):
        for _ in range(2):
            await take_second(worker)
        await kick(site, "w")
        assert await worker.end() == KICKED
    async with site.join("other") as other:
        assert await other.take() in (b"1", b"2")


@story
async def test_a_worker_without_a_websocket_is_kicked_and_its_result_refused(site: Site) -> None:
    job = await site.submit(b"x")
    taken = await poll(site)
    assert len(await kick(site, "poller")) == 1
    await soon(lambda: is_pending(site, job["key"]))
    assert (await answer(site, taken, b"late")).status_code == 409


async def is_pending(site: Site, key: str) -> bool:
    return bool((await site.show(key))["status"] == "pending")


@story
async def test_a_kick_is_in_the_audit_log_and_only_an_administrators(site: Site) -> None:
    async with site.join() as worker:
        headers = {"authorization": f"Bearer {site.secret}"}
        assert (await site.client.post("/api/workers/id-w/kick", headers=headers)).status_code == 403
        await kick(site, "id-w")
        await worker.end()
    acts = [line for line in await site.engine.store.audit(Position(0)) if "node.drain" in repr(line)]
    assert "worker id-w" in repr(acts[-1])
    assert "token" in repr(acts[-1])
    assert "no worker called" in await site.refuse(404, "POST", "/api/workers/nobody/kick")


@story
async def test_a_worker_without_a_websocket_is_in_the_list_with_its_last_known_state(site: Site) -> None:
    waiting = asyncio.ensure_future(poll(site, wait=30))
    await soon(lambda: is_state(site, "waiting"))
    job = await site.submit(b"x")
    taken = await waiting
    working = await find(site, "poller")
    assert (working["state"], working["job"], working["disconnected"]) == ("working", job["id"], None)
    assert (await site.show(job["key"]))["worker"] == "poller"
    await say(site, taken, "progress", percent=5)
    assert (await answer(site, taken, b"done")).status_code == 204
    gone = await find(site, "poller")
    assert (gone["state"], gone["last_state"], gone["succeeded"], gone["failed"]) == ("gone", "working", 1, 0)
    await site.submit(b"y")
    await say(site, await poll(site), "failed", info="no")
    assert ((await find(site, "poller"))["failed"]) == 1


async def is_state(site: Site, state: str) -> bool:
    return [worker["state"] for worker in await site.workers()] == [state]


@story
async def test_a_worker_that_comes_back_is_in_the_list_once(site: Site) -> None:
    for _ in range(3):
        async with site.join():
            pass
        await soon(lambda: is_state(site, "gone"))
    async with site.join():
        await soon(lambda: is_state(site, "ready"))


def make_worker(clock: FakeClock, number: int, lapse: int | None = None) -> Seen:
    name = f"worker {number}"
    return Seen(str(number), name, None, "", NodeId(number), name, "ready", clock.wall(), clock.wall(), lapse=lapse)


IDLE = Reins(lambda task: None, lambda: None)


def test_a_worker_without_a_connection_that_is_silent_for_its_lease_is_gone_and_its_job_failed() -> None:
    clock = FakeClock()
    workers = Workers(clock)
    number = workers.enrol(make_worker(clock, 1, lapse=1_000), IDLE)
    workers.enrol(make_worker(clock, 2), IDLE)
    workers.note(number, "working", TaskId(22))
    clock.advance(1_000)
    assert [seen.state for seen in workers.list_all()] == ["working", "ready"]
    clock.advance(1)
    assert [(seen.identity, seen.state) for seen in workers.list_all()] == [("2", "ready"), ("1", "gone")]
    assert workers.count("1") == (0, 1)
    workers.dismiss(number)


def test_the_list_of_those_gone_and_the_counts_are_bounded() -> None:
    clock = FakeClock()
    workers = Workers(clock)
    for number in range(1_500):
        workers.dismiss(workers.enrol(make_worker(clock, number), IDLE))
    assert len(list(workers.list_all())) == 1_000
    assert next(workers.list_all()).identity == "1499"


def test_counts_and_last_states_outlast_the_server(tmp_path: Path) -> None:
    async def live(done: tuple[int, int]) -> None:
        async with serve(tmp_path) as site:
            await site.submit(b"x")
            await site.submit(b"y")
            async with site.join() as worker:
                await worker.take()
                await worker.give(b"done")
                await worker.take()
                await worker.say({"code": 4, "logs": None, "info": None})
                await soon(lambda: is_counted(site, done))
        async with serve(tmp_path) as site:
            found = await find(site, "id-w")
            assert ((found["succeeded"], found["failed"]), found["state"]) == (done, "gone")

    asyncio.run(live((1, 1)))
    asyncio.run(live((2, 2)))


async def is_counted(site: Site, done: tuple[int, int]) -> bool:
    found = await find(site, "id-w")
    return (found["succeeded"], found["failed"]) == done


class Ear:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def event(self, name: str, **fields: object) -> None:
        self.heard.append(name)


async def has_heard(ear: Ear, name: str) -> bool:
    return name in ear.heard


def test_a_roll_that_cannot_be_read_is_put_aside_and_said(tmp_path: Path) -> None:
    async def run() -> None:
        ear, workers = Ear(), Workers(FakeClock())
        service = RollService(roll, workers, telemetry=ear)
        await service.start()
        async with asyncio.timeout(30):
            await soon(lambda: has_heard(ear, "workers_not_read"))
            workers.tally("a", succeeded=True)
            await service.stop()

    roll = tmp_path / "tasks.db-workers"
    roll.write_bytes(b"{garbage")
    asyncio.run(run())
    assert json.loads(roll.read_bytes())["roll"][0] == {"a": [1, 0]}
    assert (tmp_path / "tasks.db-workers-unreadable").read_bytes() == b"{garbage"


async def run_cli(site: Site, *words: str) -> tuple[int, str, str]:
    """`ganger` with these words, as the administrator of this server."""
    token = site.client.headers["authorization"].removeprefix("Bearer ")
    environment = {**os.environ, "GANGER_URL": site.server.url, "GANGER_TOKEN": token}
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from ganger.cli.main import main; main()", *words, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, told = await command.communicate()
    return command.returncode or 0, out.decode(), told.decode()


@story
async def test_an_operator_lists_and_kicks_workers_on_the_command_line(site: Site) -> None:
    assert "no worker is here" in (await run_cli(site, "workers", "ls"))[2]
    async with site.join("render-4") as worker:
        code, out, _ = await run_cli(site, "workers", "ls")
        assert (code, "render-4" in out, "ready" in out) == (0, True, True)
        assert await run_cli(site, "workers", "kick", "id-render-4") == (0, "worker id-render-4\n", "")
        assert await worker.end() == KICKED
    await soon(lambda: is_state(site, "gone"))
    code, out, _ = await run_cli(site, "workers", "ls", "--all", "--json")
    assert (json.loads(out)["state"], json.loads(out)["id"]) == ("gone", "id-render-4")
    assert (await run_cli(site, "workers", "kick", "id-render-4"))[0] == 3


@story
async def test_results_that_come_together_are_all_stored_whatever_becomes_of_the_others(site: Site) -> None:
    """One of the workers that the others wait for never answers, and another goes."""
    for number in range(60):
        await site.submit(str(number).encode())
    async with site.join("a") as one, site.join("b") as two, site.join("c") as three:
        for _ in range(10):
            for worker in (one, two, three):
                await worker.take()
            for worker in (one, two, three):
                await worker.give(b"done")
        for worker in (one, two, three):
            await worker.take()
        await three.socket.close()
        await one.give(b"done")
        assert await one.take()
        await one.say(READY)
    assert (await site.get("/api/jobs"))["counts"]["complete"] >= 31
