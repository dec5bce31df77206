"""The short way of single plain nodes: it answers as the long way does, and lets in nothing else."""

import asyncio
import json
from typing import Any

import pytest

from ganger.core.event import Fact
from ganger.core.ids import Position
from ganger.faces.http.limits import PLAIN_LIMITS
from tests.protocol.v1.harness import Site, command, serve, soon, story
from tests.protocol.v1.test_hostile import Raw, head, on

PLAIN: dict[str, Any] = {"metadata": {"type": "payload"}, "data": {"payload": "x"}}
CROWD = 40


def write(site: Site, node: Any = PLAIN, more: str = "") -> bytes:
    """A whole request."""
    body = json.dumps(node).encode()
    return head(site, more=f"content-length: {len(body)}\r\n{more}") + body


async def count_steps(site: Site) -> int:
    events = await site.engine.events(Position(0))
    return sum(event.fact is Fact.SUBMITTED for event in events)


async def make_default(site: Site) -> None:
    """From now on the default queue is there and known."""
    await site.add(command())
    assert site.engine.queues.peek_named("default") or await site.engine.queues.all()


async def send_together(site: Site, requests: list[bytes]) -> list[bytes]:
    lines = [await Raw.open(site) for _ in requests]
    for line, request in zip(lines, requests, strict=True):
        line.send(request)
    answers = [await line.next() for line in lines]
    for line in lines:
        await line.close()
    return answers


def read(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


@story
async def test_nodes_that_come_together_are_stored_in_few_steps_and_each_is_told_its_own_id(site: Site) -> None:
    await make_default(site)
    before = await count_steps(site)

    answers = await send_together(site, [write(site)] * CROWD)

    told = [read(answer) for answer in answers]
    assert all(answer.startswith(b"HTTP/1.1 201 Created\r\n") for answer in answers)
    assert all(node["state"] == "incipient" for (node,) in told)
    assert len({node["id"] for (node,) in told}) == CROWD
    assert len(await site.get("/v1/nodes")) == CROWD + 1
    assert await count_steps(site) - before < CROWD


@story
async def test_the_answer_is_that_of_the_long_way(site: Site) -> None:
    await make_default(site)

    short, long = await send_together(site, [write(site), write(site, [PLAIN])])

    assert [line.partition(b":")[0] for line in short.splitlines()[:7]] == [
        line.partition(b":")[0] for line in long.splitlines()[:7]
    ]
    assert read(short)[0].keys() == read(long)[0].keys()


@pytest.mark.parametrize(
    "node",
    [
        {"metadata": {"type": "payload", "priority": -1}},
        {"metadata": {"type": "payload", "queue": "nowhere"}},
        {"metadata": {"type": "odd"}},
        {"metadata": {"type": "payload", "parent": "99"}},
        {"metadata": {"type": "command"}, "data": {}},
        {"metadata": {"type": "payload", "delay": -5}},
        {"odd": 1},
    ],
)
def test_what_is_wrong_with_one_is_told_to_it_alone_and_in_the_same_words(node: Any) -> None:
    async def tell(site: Site) -> None:
        await make_default(site)
        requests = [write(site)] * 5 + [write(site, node)] + [write(site)] * 5

        answers = await send_together(site, requests)

        good = [answer for answer in answers if answer.startswith(b"HTTP/1.1 201 ")]
        assert len(good) == 10
        long = (await send_together(site, [write(site, [node])]))[0]
        assert long[:13] == answers[5][:13]
        if "odd" not in node:
            assert read(answers[5]) == read(long)

    on(PLAIN_LIMITS, tell)


@story
async def test_a_key_a_parent_a_value_or_a_webhook_are_for_the_long_way_and_work_the_same(site: Site) -> None:
    (parent,) = await site.add(command())
    keyed = {"metadata": {"type": "payload", "key": "k", "on_conflict": "return"}}
    child = {"metadata": {"type": "payload", "parent": parent}}
    valued = {"metadata": {"type": "payload"}, "data": {"payload": "x", "note": "y"}}

    answers = await send_together(site, [write(site, node) for node in (keyed, keyed, child, valued)])

    first, again, below, beside = (read(answer)[0] for answer in answers)
    assert first["id"] == again["id"]
    assert (await site.get(f"/v1/nodes/{below['id']}"))["metadata"]["parent"] == parent
    assert (await site.get(f"/v1/nodes/{beside['id']}/data/note"))["data"] == "y"


@story
async def test_the_same_idempotency_key_gives_the_same_node(site: Site) -> None:
    await make_default(site)
    request = write(site, more="idempotency-key: once\r\n")

    first, again = await send_together(site, [request]), await send_together(site, [request])

    assert read(first[0])[0]["id"] == read(again[0])[0]["id"]
    assert read(again[0])[0]["existed"]


@pytest.mark.parametrize("late", [False, True])
def test_a_body_that_comes_in_pieces_or_late_is_taken(late: bool) -> None:
    async def tell(site: Site) -> None:
        await make_default(site)
        request = write(site)
        for cut in (len(request) - 1, request.index(b"\r\n\r\n") + 4):
            raw = await Raw.open(site)
            raw.send(request[:cut])
            if late:
                await soon(lambda: goes_the_long_way(site))
            raw.send(request[cut:])
            assert (await raw.next()).startswith(b"HTTP/1.1 201 ")
            await raw.close()

    on(PLAIN_LIMITS, tell)


async def goes_the_long_way(site: Site) -> bool:
    """Has a request begun that is not whole? None on the short way does."""
    return site.server.service.door.at_once > 0


@story
async def test_requests_that_come_before_the_answer_are_answered_in_their_order(site: Site) -> None:
    await make_default(site)
    raw = await Raw.open(site)
    raw.send(write(site) + write(site) + head(site, "GET") + write(site, [PLAIN, PLAIN]) + write(site))

    answers = [await raw.next() for _ in range(5)]

    assert [len(read(answer)) for answer in answers] == [1, 1, 3, 2, 1]
    assert int(read(answers[0])[0]["id"]) < int(read(answers[1])[0]["id"]) < int(read(answers[4])[0]["id"])
    await raw.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_whoever_wants_the_connection_closed_gets_it_closed(version: str) -> None:
    async def tell(site: Site) -> None:
        await make_default(site)
        raw = await Raw.open(site)
        raw.send(write(site, more="connection: close\r\n").replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1))
        answer = await raw.rest()
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert b"connection: close" in answer

    on(PLAIN_LIMITS, tell)


@story
async def test_the_short_way_asks_for_the_same_host_token_and_scope(site: Site) -> None:
    await make_default(site)
    own = site.client.headers["authorization"].encode()
    reader, other, right = (
        site.token(*scopes, name=str(index))["authorization"].encode()
        for index, scopes in enumerate((["read"], ["submit:other"], ["submit:default"]))
    )
    request = write(site)
    tried = [
        request.replace(b"host: localhost", b"host: elsewhere"),
        request.replace(own, b"Bearer wrong"),
        request.replace(own, reader),
        request.replace(own, other),
        request.replace(own, right),
    ]

    answers = await send_together(site, tried)

    assert [answer[9:12] for answer in answers] == [b"403", b"401", b"403", b"403", b"201"]


@story
async def test_a_token_that_is_revoked_opens_no_short_way_on_a_connection_that_it_had_opened(site: Site) -> None:
    await make_default(site)
    token = site.token("submit", name="gone")["authorization"].encode()
    request = write(site).replace(site.client.headers["authorization"].encode(), token)
    raw = await Raw.open(site)
    raw.send(request)
    assert (await raw.next()).startswith(b"HTTP/1.1 201 ")

    site.server.tokens.remove("gone")

    raw.send(request)
    assert (await raw.next()).startswith(b"HTTP/1.1 401 ")
    await raw.close()


@story
async def test_a_token_with_a_rate_is_counted_once_for_each_request(site: Site) -> None:
    await make_default(site)
    made = site.server.tokens.add("slow", ["submit"], rate=3)
    own = site.client.headers["authorization"].encode()
    request = write(site).replace(own, f"Bearer {made.token}".encode())

    answers = await send_together(site, [request] * 5)

    statuses = [answer[9:12] for answer in answers]
    assert statuses.count(b"201") >= 3
    assert b"429" in statuses


@story
async def test_a_client_that_goes_before_its_answer_leaves_its_node_and_harms_nobody(site: Site) -> None:
    await make_default(site)
    for _ in range(5):
        raw = await Raw.open(site)
        raw.send(write(site))
        await raw.close()

    async def are_there() -> bool:
        return len(await site.get("/v1/nodes")) == 6

    await soon(are_there)
    assert (await send_together(site, [write(site)]))[0].startswith(b"HTTP/1.1 201 ")


def test_a_server_that_stops_answers_those_that_are_on_their_way() -> None:
    async def run() -> None:
        async with serve() as site:
            await make_default(site)
            lines = [await Raw.open(site) for _ in range(20)]
            for line in lines:
                line.send(write(site))
            first = await lines[0].next()
        answers = [first, *[await line.rest() for line in lines[1:]]]
        assert all(answer == b"" or answer.startswith(b"HTTP/1.1 201 ") for answer in answers)
        await lines[0].close()

    asyncio.run(run())
