"""Connections: requests in pieces, before their turn or on their way when the client or the server goes."""

import asyncio
import json
from typing import Any

import pytest

from ganger.faces.http.limits import PLAIN_LIMITS
from tests.protocol.v1.harness import Site, command, serve, soon, story
from tests.protocol.v1.test_hostile import Raw, head, on

PLAIN: dict[str, Any] = {"metadata": {"type": "payload"}, "data": {"payload": "x"}}


def write(site: Site, node: Any = PLAIN, more: str = "") -> bytes:
    """A whole request."""
    body = json.dumps(node).encode()
    return head(site, more=f"content-length: {len(body)}\r\n{more}") + body


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


@pytest.mark.parametrize("late", [False, True])
def test_a_body_that_comes_in_pieces_or_late_is_taken(late: bool) -> None:
    async def tell(site: Site) -> None:
        request = write(site)
        for cut in (len(request) - 1, request.index(b"\r\n\r\n") + 4):
            raw = await Raw.open(site)
            raw.send(request[:cut])
            if late:
                await soon(lambda: has_begun(site))
            raw.send(request[cut:])
            assert (await raw.next()).startswith(b"HTTP/1.1 201 ")
            await raw.close()

    on(PLAIN_LIMITS, tell)


async def has_begun(site: Site) -> bool:
    """Has a request begun that is not whole?"""
    return site.server.service.door.at_once > 0


@story
async def test_requests_that_come_before_the_answer_are_answered_in_their_order(site: Site) -> None:
    raw = await Raw.open(site)
    raw.send(write(site) + write(site) + head(site, "GET") + write(site, [PLAIN, PLAIN]) + write(site))

    answers = [await raw.next() for _ in range(5)]

    assert [len(read(answer)) for answer in answers] == [1, 1, 2, 2, 1]
    assert int(read(answers[0])[0]["id"]) < int(read(answers[1])[0]["id"]) < int(read(answers[4])[0]["id"])
    await raw.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_whoever_wants_the_connection_closed_gets_it_closed(version: str) -> None:
    async def tell(site: Site) -> None:
        raw = await Raw.open(site)
        raw.send(write(site, more="connection: close\r\n").replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1))
        answer = await raw.rest()
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert b"connection: close" in answer

    on(PLAIN_LIMITS, tell)


@story
async def test_a_token_that_is_revoked_is_refused_on_a_connection_that_it_had_opened(site: Site) -> None:
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
    made = site.server.tokens.add("slow", ["submit"], rate=3)
    own = site.client.headers["authorization"].encode()
    request = write(site).replace(own, f"Bearer {made.token}".encode())

    answers = await send_together(site, [request] * 5)

    statuses = [answer[9:12] for answer in answers]
    assert statuses.count(b"201") >= 3
    assert b"429" in statuses


@story
async def test_a_client_that_goes_before_its_answer_leaves_its_node_and_harms_nobody(site: Site) -> None:
    for _ in range(5):
        raw = await Raw.open(site)
        raw.send(write(site))
        await raw.close()

    async def are_there() -> bool:
        return len(await site.get("/v1/nodes")) == 5

    await soon(are_there)
    assert (await send_together(site, [write(site)]))[0].startswith(b"HTTP/1.1 201 ")


def test_a_server_that_stops_answers_those_that_are_on_their_way() -> None:
    async def run() -> None:
        async with serve() as site:
            lines = [await Raw.open(site) for _ in range(20)]
            for line in lines:
                line.send(write(site))
            first = await lines[0].next()
        answers = [first, *[await line.rest() for line in lines[1:]]]
        assert all(answer == b"" or answer.startswith(b"HTTP/1.1 201 ") for answer in answers)
        await lines[0].close()

    asyncio.run(run())


@story
async def test_a_body_that_is_asked_for_is_sent_after_the_word_to_go_on(site: Site) -> None:
    request = write(site, more="expect: 100-continue\r\n")
    cut = request.index(b"\r\n\r\n") + 4
    raw = await Raw.open(site)
    raw.send(request[:cut])
    assert await raw.line() == b"HTTP/1.1 100 Continue\r\n\r\n"
    raw.send(request[cut:])
    assert (await raw.next()).startswith(b"HTTP/1.1 201 ")
    await raw.close()


@story
async def test_a_client_that_would_rather_speak_another_protocol_is_answered_in_this_one(site: Site) -> None:
    more = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    look, add = head(site, "GET", more=more), write(site, more=more)
    raw = await Raw.open(site)
    for request in (look + head(site, "GET"), add + write(site), write(site) + add):
        raw.send(request)
        assert [(await raw.next())[9:10] for _ in range(2)] == [b"2", b"2"]
    raw.send(add[:-5])
    await soon(lambda: has_begun(site))
    raw.send(add[-5:])
    assert (await raw.next()).startswith(b"HTTP/1.1 201 ")
    await raw.close()
    assert len(await site.get("/v1/nodes")) == 5


@story
async def test_the_server_is_no_proxy(site: Site) -> None:
    raw = await Raw.open(site)
    raw.send(b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: elsewhere:443\r\n\r\n")
    assert b" 400 " in (await raw.rest())[:20]


@story
async def test_an_address_may_be_written_whole(site: Site) -> None:
    raw = await Raw.open(site)
    raw.send(head(site, "GET").replace(b"GET /v1", b"GET http://localhost/v1", 1))
    assert (await raw.next()).startswith(b"HTTP/1.1 200 ")
    await raw.close()


@story
async def test_a_client_of_version_1_0_gets_streams_without_chunks(site: Site) -> None:
    await site.add(command())
    raw = await Raw.open(site)
    raw.send(head(site, "GET").replace(b"/v1/nodes HTTP/1.1", b"/v1/events?after=0 HTTP/1.0", 1))
    told = await raw.until(b"submitted")
    assert b"transfer-encoding" not in told
    assert b"connection: close" in told
    await raw.close()
