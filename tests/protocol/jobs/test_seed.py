"""Sentences of the operational model that are about more than one part: keepalives, order, and servers that go down."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from ganger.assembly.embedded import open_engine
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.assembly.work import find_place
from ganger.faces.http.limits import PLAIN_LIMITS
from tests.protocol.jobs.harness import BUSY, PATIENCE, READY, Site, Worker, serve, soon, story
from tests.protocol.jobs.test_crash import find_port, start
from tests.protocol.jobs.test_program import hire
from tests.protocol.jobs.test_second import join as join_second
from tests.protocol.jobs.test_second import take as take_second


def test_keepalive_messages_keep_the_connection_alive_through_network_hardware() -> None:
    """An idle worker is sent pings, and one that answers them stays however long it says nothing."""

    async def run() -> None:
        settings, limits = Settings(store="memory:", listen="127.0.0.1:0"), PLAIN_LIMITS._replace(beat=0.05)
        async with (
            asyncio.timeout(PATIENCE),
            open_engine("memory:") as engine,
            open_server(settings, engine, limits=limits) as server,
            httpx2.AsyncClient(base_url=server.url) as client,
        ):
            site = Site(engine, server, client)
            async with site.join() as worker:
                pings = count_pings(worker)
                await soon(lambda: have_come(pings, 10))
                await worker.say(BUSY)
                assert worker.socket.state.name == "OPEN"

    asyncio.run(run())


def count_pings(worker: Worker) -> list[object]:
    """The pings that come to the websocket library, which answers them by itself."""
    came: list[object] = []
    protocol = worker.socket.protocol
    receive = protocol.recv_frame

    def see(frame: Frame) -> None:
        if frame.opcode is Opcode.PING:
            came.append(frame)
        receive(frame)

    protocol.recv_frame = see  # type: ignore[method-assign]
    return came


async def have_come(pings: list[object], number: int) -> bool:
    return len(pings) >= number


@story
async def test_the_next_n_jobs_are_determined_in_order_of_priority(site: Site) -> None:
    for payload, priority in ((b"b1", "batch"), (b"i1", "immediate"), (b"b2", "batch"), (b"i2", "immediate")):
        await site.submit(payload, priority)
    async with join_second(site, slots=3) as (worker, _):
        assert [(await take_second(worker))[1] for _ in range(3)] == [b"i1", b"i2", b"b1"]


@story
async def test_the_state_of_a_worker_follows_its_status_progress_and_failure_messages(site: Site) -> None:
    async with site.join() as worker:
        for said, state in ((BUSY, "busy"), (READY, "ready")):
            await worker.say(said)
            await soon(partial(is_state, site, state))
        job = await site.submit(b"x")
        await worker.take()
        await soon(lambda: is_state(site, "working"))
        await worker.say({"code": 3, "percent": 7.0, "info": "reticulating splines"})
        await soon(lambda: is_percent(site, job["key"], 7.0))
        await worker.say({"code": 4, "logs": None, "info": None})
        await soon(lambda: is_state(site, "asked"))
    await soon(lambda: is_state(site, "gone"))


async def is_state(site: Site, state: str) -> bool:
    return [worker["state"] for worker in await site.workers()] == [state]


async def is_percent(site: Site, key: str, percent: float) -> bool:
    return bool((await site.show(key))["percent"] == percent)


def test_if_the_server_goes_down_the_client_notices_at_once_and_the_result_is_lost(tmp_path: Path) -> None:
    """Protocol 1 knows a job by its connection: a result that comes over the next one belongs to nothing."""

    async def run() -> None:
        port = find_port()
        server = await start(tmp_path, port)
        token = (tmp_path / "tasks.db-admin-token").read_text().strip()
        hello = {"code": 0, "name": "w", "id": "w", "token": token}
        base, headers = f"http://127.0.0.1:{port}", {"x-api-key": token}
        async with asyncio.timeout(PATIENCE), httpx2.AsyncClient(base_url=base, headers=headers) as client:
            await client.post("/api/jobs/submit?priority=batch&key=k", content=b"x")
            async with connect(f"ws://127.0.0.1:{port}/api/worker") as socket:
                worker = Worker(socket)
                await worker.say(hello)
                assert await worker.take() == b"x"
                os.kill(server.pid, signal.SIGKILL)
                await server.communicate()
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
            server = await start(tmp_path, port)
            async with connect(f"ws://127.0.0.1:{port}/api/worker") as socket:
                worker = Worker(socket)
                await worker.say(hello)
                assert await worker.hear() == {"code": 2}
                await worker.give(b"computed before")
                assert await worker.end() == (1008, "this is a result, and no job is open: one result for each job")
            assert (await client.get("/api/jobs/k")).json()["status"] in ("pending", "running")
        server.kill()
        await server.communicate()

    asyncio.run(run())


def test_the_contents_of_machine_id_are_sufficient_as_an_identifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANGER_TOKEN", "any")
    machine = Path("/etc/machine-id")
    if not machine.exists() or not machine.read_text().strip():
        pytest.skip("NOT TESTED: this machine has no id")
    assert find_place("http://127.0.0.1:1").identity == machine.read_text().strip()


def test_a_worker_that_is_frozen_loses_its_job_to_another_and_comes_back(tmp_path: Path) -> None:
    """SIGSTOP: the connection stays open, and nothing is heard. Two status requests later the job is another's."""

    async def run() -> None:
        async with serve(None, worker_silence="6s") as site:
            solve = ("--", "sh", "-c", "cat >/dev/null; while [ ! -e go ]; do sleep 0.05; done; echo $$")
            job = await site.submit(b"x")
            async with hire(site, tmp_path, "--id", "frozen", "--name", "frozen", *solve) as frozen:
                await soon(lambda: has_worker(site, job["key"], "frozen"))
                frozen.send_signal(signal.SIGSTOP)
                try:
                    async with hire(site, tmp_path, "--id", "good", "--name", "good", *solve):
                        await soon(lambda: has_worker(site, job["key"], "good"))
                        (tmp_path / "go").touch()
                        shown = await site.show(job["key"], wait=40)
                finally:
                    frozen.send_signal(signal.SIGCONT)
                assert (shown["status"], shown["crashes"]) == ("complete", 1)
                again = await site.submit(b"y")
                assert (await site.show(again["key"], wait=40))["status"] == "complete"
            counts = {worker["id"]: (worker["succeeded"], worker["failed"]) for worker in await site.workers()}
            assert counts == {"frozen": (1, 1), "good": (1, 0)}

    asyncio.run(run())


async def has_worker(site: Site, key: str, name: str) -> bool:
    return bool((await site.show(key))["worker"] == name)


@story
async def test_a_client_that_reads_its_result_slowly_holds_up_nobody(site: Site) -> None:
    large = await site.submit(os.urandom(1 << 20) * 20)
    quick = await site.submit(b"quick")
    async with site.client.stream("GET", f"/api/jobs/{large['key']}/payload") as slow:
        pieces = slow.aiter_raw()
        await anext(pieces)
        async with asyncio.timeout(PATIENCE):
            for _ in range(20):
                assert await site.read(quick["key"], "payload") == b"quick"
        assert sum([len(piece) async for piece in pieces]) > 19 << 20
