"""Every address with every sort of token, asked for what belongs to others: another queue, family, kind, user.

The rows come from the router. What needs a scope that is for all queues (`read`, `cancel`, `admin`) is refused to
whoever lacks that. What is for some queues alone, or for a family, is asked for with a request of `QUESTIONS`, first
with every token that it is not for, which must be refused and leave everything as it was, and then with the one that it
is for, which must be served: so a refusal is no accident. A row of this sort without a question fails the test.
"""

import json
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from ganger.assembly.key import open_key
from ganger.core.clock import Wall
from ganger.core.graph import Edge
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.queue import Policy
from ganger.core.schedule import QUEUE as SCHEDULES
from ganger.core.task import Claimed, Kind, NewTask
from ganger.core.token import make_token
from ganger.engine.schedules import Schedules
from ganger.engine.store import Change, Claim, Edit, QueueChange
from ganger.faces.http.grants import Need
from ganger.faces.http.request import WEBSOCKET
from ganger.faces.http.routes import Route
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.wire.specs import CommandExits, CommandSpec, ConditionSpec, FunctionSpec, encode
from ganger.wire.v1 import remote
from tests.protocol.doors import find_own
from tests.protocol.v1.harness import Site, command, story_in
from tests.protocol.walls import (
    JOBS,
    MARKER,
    MINE,
    OF_ITSELF,
    OF_MONGODB,
    OTHER,
    PLUGGED,
    QUESTIONS,
    SECRET,
    UNGUESSABLE,
    Ask,
    World,
    edits,
    engine_task,
)


def limited(row: Route) -> bool:
    """Is it for some queues alone, or for a family?"""
    return row.family or row.need in (Need.SUBMIT, Need.WORK)


def rows(site: Site) -> Iterator[Route]:
    yield from (row for row in site.server.service.door.table.rows if row.need is not Need.OPEN)


_NUMBERS: Final = count(1)


async def open_world(site: Site) -> World:
    for name in (MINE, OTHER, JOBS):
        await site.engine.queues.ensure(name, by="test")
    await site.engine.queues.ensure(PLUGGED, Policy(plugin="P"), by="test")
    world = World(site, next(_NUMBERS))
    await world.build()
    return world


async def each_question(site: Site, row: Route) -> AsyncIterator[tuple[World, Ask]]:
    """Each of the requests of a row, in a world of its own."""
    place, most = 0, 1
    while place < most:
        world = await open_world(site)
        asks = QUESTIONS[row.method, row.path](world)
        yield world, asks[place]
        place, most = place + 1, len(asks)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Tokens:
    """Tokens of every sort; those of attempts are of the world whose task they name."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._key = open_key(find_own(folder), SystemEntropy())
        self._made: dict[str, dict[str, str]] = {}

    def scoped(self, scope: str) -> dict[str, str]:
        if scope not in self._made:
            self._made[scope] = self._site.token(scope, name=f"for {scope}".replace(":", " "))
        return self._made[scope]

    def attempt(self, world: World) -> dict[str, str]:
        return self.of(world.held)

    def of(self, held: Claimed) -> dict[str, str]:
        return bearer(make_token(self._key, held.id, held.fence))


async def send(site: Site, method: str, ask: Ask, header: dict[str, str], *, secret: str = SECRET) -> httpx2.Response:
    headers = {**header, **ask.headers, **({remote.NODE_HEADER: secret} if ask.secret else {})}
    body: dict[str, Any] = {} if ask.json is None else {"json": ask.json}
    if isinstance(ask.json, bytes) or ask.content is not None:
        body = {"content": ask.content or ask.json}
    return await site.client.request(method, ask.path, headers=headers, **body)


async def refuse(world: World, row: Route, ask: Ask, header: dict[str, str], *, secret: str = SECRET) -> None:
    """The request is refused, tells nothing, and changes nothing."""
    before = await world.picture()
    reply = await send(world.site, row.method, ask, header, secret=secret)
    told = (row.method, ask, reply.status_code, reply.text)
    assert reply.status_code in (401, 403, 404) or row.path in OF_ITSELF, told
    assert world.marker not in reply.text, told
    assert await world.picture() == before, told


@story_in
async def test_every_row_that_is_for_some_alone_has_its_question(site: Site, folder: Path) -> None:
    assert folder.name
    elsewhere = UNGUESSABLE | OF_MONGODB
    wanted = [(row.method, row.path) for row in rows(site) if limited(row) and row.path not in elsewhere]
    missing = [row for row in wanted if row not in QUESTIONS]

    assert not missing, "say in QUESTIONS how these are asked for what belongs to others"
    assert set(QUESTIONS) <= {(row.method, row.path) for row in rows(site) if limited(row)}


@story_in
async def test_what_is_of_one_queue_is_refused_to_tokens_of_another(site: Site, folder: Path) -> None:
    tokens, seen = Tokens(site, folder), 0
    stranger = await open_world(site)
    for row in rows(site):
        if row.need not in (Need.SUBMIT, Need.WORK) or row.path in UNGUESSABLE | OF_MONGODB | OF_ITSELF:
            continue
        async for world, ask in each_question(site, row):
            for need in (Need.SUBMIT, Need.WORK):
                await refuse(world, row, ask, tokens.scoped(f"{need}:{OTHER}"), secret="a guess")
            await refuse(world, row, ask, tokens.attempt(stranger))
            reply = await send(site, row.method, ask, tokens.scoped(f"{row.need}:{ask.queue}"))
            assert reply.status_code < 300, (row.method, ask, reply.text)
            seen += 1

    assert seen >= 20


@story_in
async def test_what_is_of_one_family_is_refused_to_attempts_of_another(site: Site, folder: Path) -> None:
    tokens, seen = Tokens(site, folder), 0
    stranger = await open_world(site)
    for row in (one for one in rows(site) if one.family):
        async for world, ask in each_question(site, row):
            if row.path != "/v1/engine/directory":
                await refuse(world, row, ask, tokens.attempt(stranger))
            reply = await send(site, row.method, ask, tokens.attempt(world))
            assert reply.status_code < 300, (row.method, ask, reply.text)
            seen += 1

    assert seen >= 15


@story_in
async def test_all_other_rows_are_refused_to_whoever_lacks_their_scope(site: Site, folder: Path) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    scopes = ["read", "cancel", f"submit:{MINE}", f"work:{MINE}"]
    for row in rows(site):
        if row.method == WEBSOCKET:
            continue
        path = row.path.replace("{id}", str(world.child)).replace("{name}", MINE).replace("{key}", "k")
        bearers = [tokens.scoped(scope) for scope in scopes if scope.partition(":")[0] != row.need]
        for header in bearers if row.family else [*bearers, tokens.attempt(world)]:
            await refuse(world, row, Ask(path), header)


@story_in
async def test_the_lease_of_a_job_is_good_with_a_token_for_its_queue_alone(site: Site, folder: Path) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    await send(
        site, "POST", Ask("/api/jobs/submit?priority=batch", content=b"payload"), tokens.scoped(f"submit:{JOBS}")
    )
    taken = await send(site, "POST", Ask("/api/work?id=me"), tokens.scoped(f"work:{JOBS}"))
    lease = taken.headers["x-job-lease"]
    forged = lease.rpartition(".")[0] + ".0"
    for row in rows(site):
        if row.path in UNGUESSABLE and row.path != "/api/work/{lease}":
            ask = Ask(row.path.replace("{lease}", lease))
            for header in (tokens.scoped(f"work:{OTHER}"), tokens.attempt(world)):
                assert (await send(site, row.method, ask, header)).status_code == 403, row.path
            reply = await send(
                site, row.method, Ask(row.path.replace("{lease}", forged)), tokens.scoped(f"work:{JOBS}")
            )
            assert reply.status_code >= 400, row.path
    assert (
        await send(site, "PUT", Ask(f"/api/work/{lease}", content=b"x"), tokens.scoped(f"work:{OTHER}"))
    ).status_code == 403
    assert (
        await send(site, "PUT", Ask(f"/api/work/{lease}", content=b"x"), tokens.scoped(f"work:{JOBS}"))
    ).status_code < 300


@story_in
async def test_a_token_for_one_queue_brings_nothing_of_another_into_its_own_tasks(site: Site, folder: Path) -> None:
    """Parents, groups, keys, schedules and changes of queues that are not its own."""
    tokens, world = Tokens(site, folder), await open_world(site)
    engine, header = site.engine, tokens.scoped(f"submit:{OTHER}")
    other = (await engine.queues.named(OTHER)).id
    schedules = tokens.scoped(f"submit:{SCHEDULES}")
    plain = NewTask(other, Kind.COMMAND, encode(CommandSpec(argv=["x"])))
    (own, group, keyed) = (
        await engine.submit([
            plain,
            NewTask(world.queue, Kind.GROUP, open_group=True),
            NewTask(world.queue, Kind.COMMAND, key="theirs", description=MARKER),
        ])
    ).ids  # fmt: skip
    spec = (await engine.read_data((await Schedules(engine, SystemClock()).get(world.schedule)).task, "spec")).body
    queue = (await engine.queues.named(SCHEDULES)).id
    planned = NewTask(queue, Kind.GROUP, spec, key="schedules:evil", open_group=True)
    assert keyed

    def submitted(task: NewTask) -> Ask:
        return Ask("/v1/engine/submit", msgspec.to_builtins(remote.SubmitIn([task])))

    for method, bad, by in (
        ("POST", submitted(plain._replace(parents=(Edge(world.task),))), header),
        ("POST", submitted(plain._replace(group=group)), header),
        ("POST", submitted(plain._replace(retry_of=world.above)), header),
        ("POST", submitted(plain._replace(key="theirs", on_conflict="return")), header),
        ("POST", submitted(planned), schedules),
        ("POST", Ask("/v1/nodes", command(parent=str(world.task), queue=OTHER)), header),
        ("POST", Ask("/v1/engine/edits", edits(Edit(own, link=(world.task, "success")))), header),
        ("PATCH", Ask(f"/v1/nodes/{own}", {"metadata": {"parents": [str(world.task)]}}), header),
        ("POST", Ask("/v1/engine/queue", msgspec.to_builtins(
            QueueChange(world.queue, OTHER, delete=True, drop=True, if_absent=True))), header),
        ("POST", Ask("/v1/engine/queue", msgspec.to_builtins(
            QueueChange(world.queue, OTHER, paused_until=Wall(1 << 60), if_absent=True))), header),
        ("POST", Ask("/v1/engine/queue", msgspec.to_builtins(QueueChange(world.queue, OTHER, if_absent=True))), header),
    ):  # fmt: skip
        before = await world.picture()
        reply = await send(site, method, bad, by)
        assert (reply.status_code, MARKER in reply.text) == (403, False), (bad, reply.text)
        assert await world.picture() == before, bad


@story_in
async def test_an_attempt_has_nothing_of_another_queue_or_kind_run(site: Site, folder: Path) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    other = (await site.engine.queues.named(OTHER)).id
    (far,) = (
        await site.engine.submit([NewTask(other, Kind.COMMAND, b'{"argv":["x"]}', parents=(Edge(world.task),))])
    ).ids
    probe = encode(ConditionSpec(CommandExits(["id"])))
    header = tokens.attempt(world)
    for body in (
        engine_task(world, queue=other),
        engine_task(world, kind=Kind.FUNCTION, spec=b'{"path":"os:system"}'),
        engine_task(world, kind="plugin:P"),
        engine_task(world, parents=()),
        engine_task(world, kind=Kind.CONDITION, spec=probe, queue=other),
    ):
        await refuse(world, find_row(site, "/v1/engine/submit"), Ask("/v1/engine/submit", body), header)
    for edit in (Edit(far, change=Change(spec=b'{"argv":["id"]}')), Edit(far, kill=True), Edit(far, remove=True)):
        await refuse(world, find_row(site, "/v1/engine/edits"), Ask("/v1/engine/edits", edits(edit)), header)
    path = f"/v1/nodes/{far}"
    for method, ask in (("PATCH", Ask(path, {"data": {"args": ["x"]}})), ("DELETE", Ask(path))):
        assert (await send(site, method, ask, header)).status_code == 403


async def claim_function(world: World) -> Claimed:
    """An attempt of a function in the world's queue."""
    engine = world.site.engine
    said = Registration("of functions", SECRET, 5, queues=(MINE,), kinds=(Kind.FUNCTION,))
    node = (await engine.nodes.register(said)).id
    (task,) = (await engine.submit([NewTask(world.queue, Kind.FUNCTION, encode(FunctionSpec("a:b")))])).ids
    (claimed,) = await engine.claim(Claim(node, ids=(task,)))
    await engine.start([claimed.lease])
    return claimed


def take_result(task: int) -> bytes:
    return encode(FunctionSpec("a:b", [{"deep": [{"$task": int(task)}]}]))


@story_in
async def test_no_result_of_another_family_becomes_an_argument_of_what_an_attempt_adds(
    site: Site, folder: Path
) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    own = await claim_function(world)
    header = tokens.of(own)
    plain = NewTask(world.queue, Kind.FUNCTION, encode(FunctionSpec("a:b")), parents=(Edge(own.id),))
    (child,) = (await site.engine.submit([plain])).ids
    bad, good = take_result(world.above), take_result(child)

    def ask(spec: bytes) -> list[tuple[str, Ask]]:
        body = {"metadata": {"type": "function", "parent": str(own.id)}, "data": json.loads(spec)}
        new = remote.SubmitIn([plain._replace(spec=spec)])
        return [
            ("POST", Ask("/v1/engine/submit", msgspec.to_builtins(new))),
            ("POST", Ask("/v1/engine/edits", edits(Edit(child, change=Change(spec=spec))))),
            ("POST", Ask("/v1/nodes", [body])),
            ("PATCH", Ask(f"/v1/nodes/{child}", {"data": {"args": json.loads(spec)["args"]}})),
            ("PUT", Ask(f"/v1/nodes/{child}/data/args", {"value": json.loads(spec)["args"]})),
        ]

    for method, one in ask(bad):
        reply = await send(site, method, one, header)
        assert (reply.status_code, world.marker in reply.text) == (403, False), (one, reply.text)
    for method, one in ask(good):
        assert (await send(site, method, one, header)).status_code < 300, one


@story_in
async def test_a_token_for_one_queue_takes_no_results_of_another_as_arguments(site: Site, folder: Path) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    other = (await site.engine.queues.named(OTHER)).id
    plain = NewTask(other, Kind.FUNCTION, encode(FunctionSpec("a:b")))
    (own,) = (await site.engine.submit([plain])).ids
    args = json.loads(take_result(world.above))["args"]
    written = {"metadata": {"type": "function", "queue": OTHER}, "data": {"path": "a:b", "args": args}}
    new = remote.SubmitIn([plain._replace(spec=take_result(world.above))])

    def ask(name: str) -> list[tuple[str, Ask]]:
        return [
            ("POST", Ask("/v1/engine/submit", msgspec.to_builtins(new))),
            ("POST", Ask("/v1/engine/edits", edits(Edit(own, change=Change(spec=take_result(world.above)))))),
            ("POST", Ask("/v1/nodes", [written])),
            ("PATCH", Ask(f"/v1/nodes/{own}", {"data": {"args": args}})),
            ("POST", Ask("/v1/schedules", {"name": name, "every": 3_600_000, **written})),
        ]

    for method, one in ask("evil"):
        assert (await send(site, method, one, tokens.scoped(f"submit:{OTHER}"))).status_code == 403, one
    reader = site.token(f"submit:{OTHER}", "read", name="reads too")
    for method, one in ask("good"):
        reply = await send(site, method, one, reader)
        assert reply.status_code < 300, (one, reply.text)


@story_in
async def test_an_attempt_that_has_ended_lists_nothing(site: Site, folder: Path) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    ask, header = Ask(f"/v1/nodes?parent={world.task}"), tokens.attempt(world)
    assert world.marker in (await send(site, "GET", ask, header)).text

    await site.engine.settle([(world.held, Succeed())])

    reply = await send(site, "GET", ask, header)
    assert (reply.status_code >= 400, world.marker in reply.text) == (True, False), reply.text


@story_in
async def test_a_collection_of_another_queue_is_refused_before_it_is_looked_for(site: Site, folder: Path) -> None:
    tokens, world = Tokens(site, folder), await open_world(site)
    for header in (tokens.scoped(f"submit:{OTHER}"), tokens.attempt(world)):
        reply = await send(site, "POST", Ask(f"/disbatch/tasks/{PLUGGED}/things", {"filter": {}, "params": {}}), header)
        assert reply.status_code in (401, 403), reply.text


def find_row(site: Site, path: str) -> Route:
    return next(row for row in rows(site) if row.path == path)
