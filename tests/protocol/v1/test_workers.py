"""Nodes that work over HTTP: for which queues, with which secret, and what a stranger is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ganger.assembly.remote.engine import RemoteEngine
from ganger.assembly.remote.opening import open_remote
from ganger.assembly.remote.source import RemoteSource
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput, NotAllowed, NotAuthenticated, StaleLease
from ganger.core.graph import Edge
from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Succeed
from ganger.core.retry import Retry, to_text
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind, NewTask
from ganger.core.token import Attempt
from ganger.engine.store import Change, Claim, Edit
from ganger.runtime.clock import SystemClock
from tests.protocol.v1.harness import LISTEN, Site, soon, story, story_in

SAID = Registration("far", "the secret", 10, queues=("mine",), kinds=(Kind.PAYLOAD,))


@asynccontextmanager
async def work(site: Site, *scopes: str) -> AsyncIterator[RemoteEngine]:
    token = site.server.tokens.add("worker", scopes).token
    async with open_remote(Settings(store=site.server.url, token=token)) as engine:
        yield engine


async def submit(site: Site, queue: str, **said: Any) -> TaskId:
    found = await site.engine.queues.ensure(queue, by="somebody")
    return (await site.engine.submit([NewTask(found.id, Kind.PAYLOAD, b"x")._replace(**said)])).ids[0]


async def claim(engine: RemoteEngine, *tasks: TaskId) -> list[Claimed]:
    node = await engine.nodes.register(SAID)
    return await engine.claim(Claim(node.id, ids=tasks, most=10, start=True))


@story
async def test_a_token_works_for_its_queues_alone(site: Site) -> None:
    mine, other = await submit(site, "mine"), await submit(site, "other")
    async with work(site, "work:mine", "read") as engine:
        for queues in (None, ("other",), ("mine", "other")):
            with pytest.raises(NotAllowed):
                await engine.nodes.register(SAID._replace(queues=queues))
        node = await engine.nodes.register(SAID)
        known = tuple(queue.id for queue in await engine.queues.all())

        claimed = await engine.claim(Claim(node.id, known, 10))
        assert [one.id for one in claimed] == [mine]
        assert await engine.wait_claim(Claim(node.id, known, 10), 0.05) == []
        with pytest.raises(NotAllowed):
            await engine.claim(Claim(node.id, known[1:], 10))
    (left,) = await site.engine.tasks([other])
    assert left is not None
    assert left.status == Status.QUEUED


@story
async def test_nobody_speaks_for_a_node_without_its_secret(site: Site) -> None:
    task = await submit(site, "mine")
    async with work(site, "work", "read") as engine:
        (claimed,) = await claim(engine, task)
        stranger = site.token("work", name="stranger")
        one = f"/v1/workers/{claimed.holder}"
        lease = [[claimed.id, claimed.fence]]
        asked: list[tuple[str, Any]] = [
            ("beat", {}),
            ("leave", None),
            ("wake", None),
            ("take", {"settle": [{"task": task, "fence": claimed.fence, "outcome": {"kind": "fail"}}]}),
            ("start", {"leases": lease}),
            ("renew", {"leases": lease}),
            ("notes", [[claimed.id, claimed.fence, None, [50, None]]]),
        ]
        for path, body in asked:
            await site.refuse(400, "POST", f"{one}/{path}", body, headers=stranger)
            wrong = {**stranger, "ganger-node": "a guess"}
            reply = await site.ask("POST", f"{one}/{path}", body, headers=wrong)
            assert reply.status_code in (401, 404), (path, reply.text)
        reply = await site.ask(
            "PUT", f"{one}/data?task={task}&fence=1&name=k", headers={**stranger, "ganger-node": "x"}
        )
        assert reply.status_code == 401
    (found,) = await site.engine.tasks([task])
    assert found is not None
    assert (found.status, found.percent) == (Status.RUNNING, None)


@story
async def test_a_node_does_not_write_for_what_another_holds(site: Site) -> None:
    task = await submit(site, "mine")
    async with work(site, "work", "read") as engine:
        (claimed,) = await claim(engine, task)
        thief = await engine.nodes.register(SAID._replace(name="thief", token="its own"))
        header = {"ganger-node": "its own"}
        one, lease = f"/v1/workers/{thief.id}", [[claimed.id, claimed.fence]]
        settle = {"settle": [{"task": task, "fence": claimed.fence, "outcome": {"kind": "succeed"}}]}

        assert (await site.ask("POST", f"{one}/take", settle, headers=header)).json()["refused"] == [[0, "stale"]]
        for path, body in (("start", {"leases": lease}), ("notes", [[*lease[0], None, [50, None]]])):
            assert (await site.ask("POST", f"{one}/{path}", body, headers=header)).json() == [[0, "stale"]]
        renewed = (await site.ask("POST", f"{one}/renew", {"leases": lease}, headers=header)).json()
        assert renewed == {"refused": [[0, "stale"]], "left": [None]}
        put = f"{one}/data?task={task}&fence={claimed.fence}&name=k"
        await site.refuse(409, "PUT", put, headers=header)


@story
async def test_how_often_a_task_is_tried_is_not_the_nodes_word(site: Site) -> None:
    task = await submit(site, "mine", retry=to_text(Retry(1)))
    async with work(site, "work", "read") as engine:
        (claimed,) = await claim(engine, task)

        lie = claimed._replace(retry=to_text(Retry(100)), attempts=0)
        await engine.settle([(lie, Fail(5, "again and again"))])

    (found,) = await site.engine.tasks([task])
    assert found is not None
    assert found.status == 5


@story_in
async def test_a_node_goes_on_with_a_server_that_does_not_know_it(site: Site, folder: Path) -> None:
    task = await submit(site, "mine")
    settings = Settings(store=f"sqlite:{folder / 'tasks.db'}", listen=LISTEN)
    async with work(site, "work", "read") as engine, open_server(settings, site.engine) as next_server:
        (claimed,) = await claim(engine, task)
        token = next_server.tokens.add("the same", ["work", "read"]).token
        async with open_remote(Settings(store=next_server.url, token=token)) as after:
            after.store.secrets.update(engine.store.secrets)  # type: ignore[attr-defined]

            await after.progress(claimed.lease, 10.0)
            assert (await after.settle([(claimed, Succeed(b"1"))])).refused == []


@story
async def test_a_kind_that_the_owner_does_not_allow_goes_back(site: Site) -> None:
    task = await submit(site, "mine")
    async with work(site, "work", "read") as engine:
        source = RemoteSource(engine, SystemClock(), allowed=(Kind.FUNCTION,))
        joined = await source.join(SAID)

        assert list((await source.take(joined.node, 5, start=False)).claimed) == []

    async def is_back() -> bool:
        (found,) = await site.engine.tasks([task])
        return found is not None and found.status == Status.QUEUED

    await soon(is_back)


@story
async def test_an_attempt_far_away_gets_a_token_for_its_family(site: Site) -> None:
    task = await submit(site, "mine")
    async with work(site, "work", "read") as engine:
        (claimed,) = await claim(engine, task)

        token = engine.pass_token(claimed.id, claimed.fence)

        assert token.startswith(f"{task}.{claimed.fence}.")
        assert engine.pass_token(claimed.id, claimed.fence) == ""


@story_in
async def test_that_token_reaches_its_own_task_and_no_other(site: Site, folder: Path) -> None:
    assert folder.name
    task, other = await submit(site, "mine"), await submit(site, "other")
    async with work(site, "work", "read") as engine:
        (claimed,) = await claim(engine, task)
        token = engine.pass_token(claimed.id, claimed.fence)
        header = {"authorization": f"Bearer {token}"}
        assert (await site.ask("GET", f"/v1/nodes/{task}", headers=header)).status_code == 200
        await site.refuse(403, "GET", f"/v1/nodes/{other}", headers=header)
        await site.refuse(403, "GET", "/v1/engine/counts", headers=header)
        async with open_remote(Settings(store=site.server.url, token=token)) as own:
            lease, attempt = claimed.lease, Attempt(claimed.lease)
            child = NewTask(claimed.queue, Kind.PAYLOAD, parents=(Edge(task),))
            (below,) = (await own.submit([child], under=attempt)).ids
            assert [one.task.id for one in (await own.family(lease)).children] == [below]
            await own.edit([Edit(below, change=Change(priority=3))], under=attempt)
            await own.progress(lease, 30.0, "so far")
            assert [queue.name for queue in await own.queues.all()] == ["mine"]
            with pytest.raises(NotAllowed):
                await own.tasks([other])
            with pytest.raises(NotAllowed):
                await own.edit([Edit(other, change=Change(priority=3))], under=attempt)
            await engine.settle([(claimed, Succeed())])
            with pytest.raises(StaleLease):
                await own.submit([child], under=attempt)
            with pytest.raises(StaleLease):
                await own.progress(lease, 40.0)
        with pytest.raises(BadInput, match="without its token"):
            await engine.submit([child], under=attempt)


@story_in
async def test_whoever_works_for_one_queue_has_no_script_run_by_the_token_of_an_attempt(
    site: Site, folder: Path
) -> None:
    assert folder.name
    task, root = await submit(site, "mine"), await site.engine.queues.ensure("root", by="test")
    async with work(site, "work:mine", "read") as engine:
        (claimed,) = await claim(engine, task)
        token, attempt = engine.pass_token(claimed.id, claimed.fence), Attempt(claimed.lease)
        script = NewTask(root.id, Kind.SHELL, b'{"script":"id"}')
        below = script._replace(parents=(Edge(task),))
        async with open_remote(Settings(store=site.server.url, token=token)) as own:
            for task_to_be in (script, below, below._replace(queue=claimed.queue)):
                with pytest.raises(NotAllowed):
                    await own.submit([task_to_be], under=attempt)
    assert (await site.engine.counts())[0][-1].by_status == {}


@story_in
async def test_an_attempt_fills_the_queues_that_the_token_of_its_node_may_fill_while_that_lasts(
    site: Site, folder: Path
) -> None:
    assert folder.name
    task, other = await submit(site, "mine"), await site.engine.queues.ensure("other", by="test")
    async with work(site, "work", "read", "submit:other") as engine:
        (claimed,) = await claim(engine, task)
        token, attempt = engine.pass_token(claimed.id, claimed.fence), Attempt(claimed.lease)
        async with open_remote(Settings(store=site.server.url, token=token)) as own:
            child = NewTask(other.id, Kind.PAYLOAD, parents=(Edge(task),))
            assert (await own.submit([child], under=attempt)).ids
            (giver,) = [kept for kept in site.server.tokens.all() if "submit:other" in kept.scopes]
            site.server.tokens.remove(giver.name)
            with pytest.raises(NotAuthenticated):
                await own.submit([child], under=attempt)


@story
async def test_whoever_stops_waiting_leaves_no_claim_behind(site: Site) -> None:
    await submit(site, "mine", delay=3_600_000)
    async with work(site, "work", "read") as engine:
        node = await engine.nodes.register(SAID)
        queues = tuple(queue.id for queue in await engine.queues.all())
        wanted = Claim(node.id, queues, 1)
        for _ in range(20):
            waiting = asyncio.ensure_future(engine.wait_claim(wanted))
            await asyncio.sleep(0)
            task = await submit(site, "mine")
            waiting.cancel()
            await asyncio.wait([waiting])
            claimed = [] if waiting.cancelled() else waiting.result()
            while not claimed:
                claimed = await asyncio.wait_for(engine.wait_claim(wanted), 60)
            assert [one.id for one in claimed] == [task]
            await engine.settle([(claimed[0], Succeed())])
