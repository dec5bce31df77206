"""The addresses of Ganger's own clients: what they answer, whom they refuse, and what a lost answer leads to."""

import ast
import asyncio
import hashlib
import inspect
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ganger.assembly.node import NodeWishes, open_node
from ganger.assembly.remote.engine import RemoteEngine
from ganger.assembly.remote.opening import open_remote
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.core.audit import Act
from ganger.core.errors import BadInput, DuplicateKey, NotAllowed, NotAuthenticated, QueueInUse, StoreUnavailable
from ganger.core.event import Entry, Event
from ganger.core.graph import Edge
from ganger.core.ids import QueueId
from ganger.core.node import PATIENT_LEASE, Node, Registration, Vitals
from ganger.core.queue import Counts, Policy, Queue
from ganger.core.task import Attempt, Claimed, Family, Kind, NewTask, Task
from ganger.engine.engine import Engine
from ganger.engine.live import Heard
from ganger.engine.operate import Moved
from ganger.engine.readiness import Readiness
from ganger.engine.store import (
    Change,
    Chunk,
    Configured,
    Datum,
    Directory,
    Edit,
    Look,
    Note,
    Page,
    Progress,
    Query,
    QueueChange,
    Submitted,
)
from ganger.engine.wait import Waited
from ganger.node.options import NodeOptions
from ganger.wire.v1 import remote
from tests.protocol.doors import choose_store
from tests.protocol.v1.harness import Site, command, soon, story, story_in

SHAPES = "0ffbb2808dfded8b"
"""What the fields of protocol 3 are. If it changes, PROTOCOL must grow."""

TRAVELLING: tuple[Any, ...] = (
    Act, Attempt, Change, Chunk, Claimed, Configured, Counts, Datum, Directory, Edge, Edit, Entry, Event, Family, Heard,
    Look, Moved, NewTask, Node, Note, Page, Policy, Progress, Query, Queue, QueueChange, Readiness, Registration,
    Submitted, Task, Vitals, Waited,
)  # fmt: skip
"""Values that travel as arrays of their fields."""


@asynccontextmanager
async def reach(site: Site, *scopes: str, url: str | None = None) -> AsyncIterator[RemoteEngine]:
    """An engine behind the site's server, with a token of these scopes (or the administrator's)."""
    token = site.server.tokens.admin_path.read_text().strip()
    if scopes:
        token = site.server.tokens.add(f"for {' '.join(scopes)}"[:60], scopes).token
    async with open_remote(Settings(store=url or site.server.url, token=token)) as engine:
        yield engine


async def make_task(engine: Engine, queue: str = "default", **said: Any) -> NewTask:
    found = await engine.queues.ensure(queue, by="somebody")
    return NewTask(found.id, Kind.PAYLOAD, b"x")._replace(**said)


def list_remote_rows(site: Site) -> list[Any]:
    ours = ("/v1/engine/", "/v1/workers/")
    return [
        row
        for row in site.server.service.door.table.rows
        if row.path.startswith(ours) or (row.method, row.path) == ("POST", "/v1/workers")
    ]


@story
async def test_every_one_of_them_is_described(site: Site) -> None:
    document = await site.get("/openapi.json")

    rows = list_remote_rows(site)
    assert len(rows) >= 25
    for row in rows:
        told = document["paths"][row.path][row.method.lower()]
        assert told["x-scope"] == row.need
        assert ("requestBody" in told) == (row.body is not None)
        asked = {one["name"]: one for one in told["parameters"] if one["in"] == "query"}
        assert set(asked) == row.parameters
        assert ("content" in asked.get("ask", {})) == (row.asks is not None) == ("ask" in asked)
        if row.answer is not None:
            assert told["responses"][str(row.status)]["content"]["application/json"]["schema"]


def test_the_number_of_the_protocol_grows_with_its_fields() -> None:
    structs = [kind for kind in vars(remote).values() if isinstance(kind, msgspec.StructMeta)]
    fields = [(kind.__name__, kind.__struct_fields__) for kind in structs]
    fields += [(kind.__name__, kind._fields) for kind in TRAVELLING]

    found = hashlib.sha256(repr(sorted(fields)).encode()).hexdigest()[:16]

    assert (remote.PROTOCOL, found) == ("3", SHAPES)


@story
async def test_a_client_of_another_protocol_is_told_to_install_the_same(site: Site) -> None:
    header = {remote.PROTOCOL_HEADER: "99"}

    problem = await site.refuse(400, "GET", "/v1/engine/directory", headers=header)

    assert "same version" in problem["detail"]


@story
async def test_a_question_that_is_none_is_refused(site: Site) -> None:
    for path in ("tasks", "find", "look", "value", "wait", "events", "output", "bell", "ready"):
        for asked in ("", "?ask=", "?ask={", "?ask=7", '?ask={"nothing":1}'):
            await site.refuse(400, "GET", f"/v1/engine/{path}{asked}")
    await site.refuse(400, "GET", '/v1/engine/wait?ask={"ids":[1]}&wait=soon')
    for path in ("submit", "edits", "acts", "retry", "data", "queue", "drain"):
        for body in ({}, [], 7, {"nothing": 1}, [[["x"]]]):
            reply = await site.ask("POST", f"/v1/engine/{path}", body)
            assert reply.status_code < 500, (path, body)


@story
async def test_a_token_for_one_queue_changes_nothing_elsewhere(site: Site) -> None:
    (foreign,) = (await site.engine.submit([await make_task(site.engine)])).ids
    await site.engine.queues.ensure("mine", by="somebody")
    async with reach(site, "submit:mine", "read") as engine:
        (own,) = (await engine.submit([await make_task(engine, "mine")])).ids
        await engine.edit([Edit(own, change=Change(priority=1))], by="anybody")
        await engine.put_data(own, "k", b"v")
        task = await make_task(engine, "default")
        for refused in (
            engine.submit([task]),
            engine.submit([task._replace(queue=QueueId(own)), task]),
            engine.edit([Edit(foreign, change=Change(priority=1))], by="anybody"),
            engine.edit([Edit(own, remove=True)], by="anybody"),
            engine.put_data(foreign, "k", b"v"),
            engine.kill([own], by="anybody"),
            engine.remove(own, by="anybody"),
            engine.queues.create("more", by="anybody"),
            engine.queues.pause((await engine.queues.named("mine")).id, by="anybody"),
            engine.queues.ensure("more", by="anybody"),
        ):
            with pytest.raises(NotAllowed):
                await refused
        assert (await engine.find(Query())).tasks == (await site.engine.find(Query())).tasks


@story
async def test_whoever_may_submit_to_a_queue_may_have_it_made(site: Site) -> None:
    async with reach(site, "submit:new", "read") as engine:
        made = await engine.queues.ensure("new", by="anybody")
        assert (await engine.submit([NewTask(made.id, Kind.PAYLOAD)])).ids
        with pytest.raises(NotAllowed):
            await engine.queues.ensure("newer", Policy(max_active=1), by="anybody")


@story
async def test_an_operator_does_everything_from_afar(site: Site) -> None:
    async with reach(site) as engine:
        queue = await engine.queues.create("q", Policy(max_active=3), by="me")
        assert (await engine.queues.rename(queue.id, "r", by="me")).name == "r"
        assert (await engine.queues.change(queue.id, Policy(max_active=5), by="me")).policy.max_active == 5
        paused = await engine.queues.pause(queue.id, 60_000, by="me")
        assert 0 < paused.paused_until - site.engine._clock.wall() <= 60_000
        assert (await engine.queues.pause(queue.id, by="me")).paused_until > 1 << 60
        assert (await engine.queues.resume(queue.id, by="me")).paused_until == 0
        ids = (await engine.submit([await make_task(engine, "r") for _ in range(4)])).ids
        assert (await engine.hold(ids[:2], by="me", reason="why")).done == ids[:2]
        assert (await engine.kick_queue(queue.id, 1, by="me")).done == ids[:1]
        assert (await engine.kick(ids, by="me")).done == ids[1:2]
        await engine.link(ids[3], ids[2], by="me")
        await engine.remove(ids[2], by="me", descendants=True)
        assert (await engine.cancel(ids, by="me")).done == ids[:2]
        again = await engine.retry_final(ids[0], by="me")
        assert await engine.tasks([again]) == await site.engine.tasks([again])
        with pytest.raises(QueueInUse):
            await engine.queues.delete(queue.id, by="me")
        await engine.queues.delete(queue.id, by="me", drop=True)
        await site.engine.nodes.register(Registration("n", "secret"))
        assert (await engine.nodes.drain("n", by="me")).state == "draining"
        assert (await engine.nodes.resume("n", by="me")).state == "active"
        assert [one.what for one in await engine.readiness("n")] == ["n"]
    lines = await site.engine.store.audit(0)  # type: ignore[arg-type]
    assert {line.who for line in lines} == {"token admin"}


@story
async def test_what_needs_the_store_itself_is_refused_with_a_sentence(site: Site) -> None:
    async with reach(site) as engine:
        for refused in (engine.verify_audit(), engine.read_page(1, "k"), engine.store.audit(0)):  # type: ignore[arg-type]
            with pytest.raises(BadInput, match="server's machine"):
                await refused


@story
async def test_events_are_followed_from_afar(site: Site) -> None:
    async with reach(site) as engine:
        following = engine.subscribe()
        coming = asyncio.ensure_future(anext(following))
        await soon(lambda: _is_waiting(site))
        (task,) = await site.add(command())

        event = await coming

        assert [entry.task for entry in event.entries] == [int(task)] or event.fact == "queue_changed"
        await following.aclose()


async def _is_waiting(site: Site) -> bool:
    return len(site.server.service.door.visits) > 0


@story_in
async def test_a_node_far_away_can_do_without_the_server_for_a_minute(site: Site, folder: Path) -> None:
    token = site.server.tokens.admin_path.read_text().strip()
    settings, options = Settings(store=site.server.url, token=token), NodeOptions("far", kinds=("command",))

    async with open_node(settings, options, NodeWishes(folder=folder / "far")) as opened:
        assert {node.name: node.lease for node in await opened.engine.nodes.all()}["far"] == PATIENT_LEASE


@story
async def test_a_wrong_token_and_no_server_are_told_at_once(site: Site) -> None:
    async with open_remote(Settings(store=site.server.url, token="x")) as engine:
        with pytest.raises(NotAuthenticated):
            await engine.counts()
    async with open_remote(Settings(store="http://127.0.0.1:1", token="x")) as engine:
        with pytest.raises(StoreUnavailable, match="no server answers"):
            await engine.counts()
    with pytest.raises(NotAuthenticated, match="GANGER_TOKEN"):
        async with open_remote(Settings(store=site.server.url)):
            pass
    for url in ("http://", "http:x", "http://a@b", "http://a?b"):
        with pytest.raises(BadInput, match="address of a server"):
            async with open_remote(Settings(store=url, token="x")):
                pass


class Proxy:
    """Stands between a client and a server, and loses the answers to what it is told to."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.losing = b"\0"
        self.lost = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        doomed = asyncio.Event()
        ways = [self._pass(reader, back, doomed), self._pass(there, writer, None, doomed)]
        try:
            await asyncio.gather(*ways)
        finally:
            back.close()
            writer.close()

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        watched: asyncio.Event | None,
        doomed: asyncio.Event | None = None,
    ) -> None:
        while data := await source.read(1 << 16):
            if watched is not None and self.losing in data:
                watched.set()
            if doomed is not None and doomed.is_set():
                self.lost += 1
                self.losing = b"\0"
                break
            target.write(data)
            await target.drain()
        target.close()


@asynccontextmanager
async def losing(site: Site) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy(int(site.server.url.rpartition(":")[2]))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@story
async def test_a_submission_whose_answer_was_lost_is_stored_once(site: Site) -> None:
    async with losing(site) as (proxy, url), reach(site, url=url) as engine:
        tasks = [await make_task(engine), await make_task(engine)]
        proxy.losing = b"/v1/engine/submit"

        submitted = await engine.submit(tasks)

        assert proxy.lost == 1
        assert [task.id for task in (await site.engine.find(Query())).tasks] == submitted.ids
        assert submitted.existing == []


@story
async def test_a_key_that_may_be_ones_own_is_told_as_such(site: Site) -> None:
    async with losing(site) as (proxy, url), reach(site, url=url) as engine:
        task = await make_task(engine, key="mine")
        proxy.losing = b"/v1/engine/submit"

        with pytest.raises(DuplicateKey, match="may be this very one"):
            await engine.submit([task])
        with pytest.raises(DuplicateKey) as told:
            await engine.submit([task])
        assert "very one" not in str(told.value)


@story
async def test_a_change_whose_answer_was_lost_is_not_made_twice_but_told(site: Site) -> None:
    async with losing(site) as (proxy, url), reach(site, url=url) as engine:
        ids = (await engine.submit([await make_task(engine)])).ids
        proxy.losing = b"/v1/engine/acts"

        with pytest.raises(StoreUnavailable, match="not known whether"):
            await engine.hold(ids, by="me")


@story_in
async def test_a_wait_outlives_a_restart_of_the_server(site: Site, folder: Path) -> None:
    port = site.server.url.rpartition(":")[2]
    async with reach(site) as engine:
        (task,) = await site.add(command())
        waiting = asyncio.ensure_future(engine.wait([int(task)]))  # type: ignore[list-item]
        await soon(lambda: _is_waiting(site))
        await site.server.service.stop()
        again = Settings(store=choose_store(folder), listen=f"127.0.0.1:{port}")
        # The socket of the first server is closed with its context; the port is free for another before that.
        site.server.service.server.sock.close()
        async with open_server(again, site.engine):
            await site.finish(task)
            assert (await asyncio.wait_for(waiting, 60)).done


def test_a_far_engine_leaves_nothing_to_parts_that_it_lacks() -> None:
    """Every operation that needs what only an engine with its own store has is one of its own."""
    lacking = {"_desk", "_line", "_follower", "_settling"}
    for name, operation in inspect.getmembers(Engine, inspect.isfunction):
        if name in RemoteEngine.__dict__ or name == "__init__":
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(operation)))
        used = {node.attr for node in ast.walk(body) if isinstance(node, ast.Attribute)}
        assert not used & lacking, name


@story
async def test_every_one_of_them_is_on_the_page(site: Site) -> None:
    page = (Path(__file__).parents[3] / "docs" / "protocols" / "remote.md").read_text()

    for row in list_remote_rows(site):
        assert f"| `{row.method} {row.path}` | `{row.need.value}` |" in page, row.path
