"""Clients that are slow, huge or rude: each is cut off, and the others are served."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ganger.faces.http.limits import PLAIN_LIMITS, HttpLimits
from tests.protocol.v1.harness import Site, command, serve, soon, story

QUICK = PLAIN_LIMITS._replace(head_time=0.3, body_time=0.3, body=1 << 20)


def on(limits: HttpLimits, tell: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serve(limits=limits) as site:
            await tell(site)

    asyncio.run(run())


class Raw:
    """A connection without manners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, site: Site) -> "Raw":
        host, _, port = site.server.url.removeprefix("http://").rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def next(self) -> bytes:
        """The next answer; the connection stays open."""
        async with asyncio.timeout(60):
            told = await self._reader.readuntil(b"\r\n\r\n")
            length = int(told.partition(b"content-length: ")[2].partition(b"\r")[0])
            return told + await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        async with asyncio.timeout(60):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""
            finally:
                self._writer.close()


def head(site: Site, method: str = "POST", more: str = "") -> bytes:
    token = site.client.headers["authorization"]
    return f"{method} /v1/nodes HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n{more}\r\n".encode()


@pytest.mark.parametrize("begun", [b"", b"GET", b"GET /v1/nodes HTTP/1.1\r\nhost: local", b"\r\n"])
def test_a_head_that_never_ends_is_cut_off(begun: bytes) -> None:
    async def tell(site: Site) -> None:
        raw = await Raw.open(site)
        raw.send(begun)
        assert b" 408 " in (await raw.rest())[:20]

    on(QUICK, tell)


@story
async def test_a_head_that_is_too_large_is_refused(site: Site) -> None:
    for line in (b"x: %b\r\n" % (b"y" * 100_000), b"".join(b"x%d: y\r\n" % n for n in range(9_000))):
        raw = await Raw.open(site)
        raw.send(b"GET /v1/nodes HTTP/1.1\r\n" + line + b"\r\n")
        assert b" 431 " in (await raw.rest())[:20]
    raw = await Raw.open(site)
    raw.send(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
    assert b" 431 " in (await raw.rest())[:20]


@story
async def test_a_header_without_end_is_cut_off(site: Site) -> None:
    raw = await Raw.open(site)
    raw.send(b"GET / HTTP/1.1\r\nx: ")
    for _ in range(20):
        raw.send(b"y" * 50_000)
    assert (await raw.rest())[:20].startswith((b"HTTP/1.1 431 ", b""))
    assert await site.get("/v1/nodes") == []


@story
async def test_what_is_not_http_is_refused(site: Site) -> None:
    for junk in (b"\x16\x03\x01\x02\x00\x01", b"hello\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        raw = await Raw.open(site)
        raw.send(junk)
        answer = await raw.rest()
        assert b" 400 " in answer[:20]
        assert b"application/problem+json" in answer


def test_a_body_that_never_ends_is_cut_off() -> None:
    async def tell(site: Site) -> None:
        raw = await Raw.open(site)
        raw.send(head(site, more="content-length: 100\r\n") + b"[")
        answer = await raw.rest()
        assert b" 408 " in answer[:20]
        assert b"too_slow" in answer

    on(QUICK, tell)


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    async def tell(site: Site) -> None:
        raw = await Raw.open(site)
        raw.send(head(site, more=f"content-length: {1 << 40}\r\n"))
        assert b" 413 " in (await raw.rest())[:20]
        raw = await Raw.open(site)
        raw.send(head(site, more="transfer-encoding: chunked\r\n") + (b"10000\r\n" + b"a" * 65_536 + b"\r\n") * 20)
        assert b" 413 " in (await raw.rest())[:20]

    on(QUICK, tell)


@story
async def test_a_body_for_which_nobody_asked_closes_the_connection(site: Site) -> None:
    raw = await Raw.open(site)
    raw.send(b"POST /v1/nodes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n")
    assert b" 401 " in (await raw.rest())[:20]


def test_others_are_served_beside_many_who_send_nothing() -> None:
    async def tell(site: Site) -> None:
        silent = [await Raw.open(site) for _ in range(200)]
        for raw in silent[:100]:
            raw.send(b"GET /v1/nodes HTTP/1.1\r\n")
        assert len(await site.add(*(command() for _ in range(10)))) == 10
        for raw in silent:
            await raw.rest()

    on(QUICK._replace(head_time=1.0), tell)


def test_more_requests_at_once_than_allowed_are_refused() -> None:
    async def tell(site: Site) -> None:
        replies = await asyncio.gather(*(site.ask("POST", "/v1/nodes", command()) for _ in range(60)))
        statuses = {reply.status_code for reply in replies}
        assert 201 in statuses
        assert statuses <= {201, 429}
        stored = await site.get("/v1/nodes?limit=1000")
        assert len(stored) == sum(reply.status_code == 201 for reply in replies)

    on(PLAIN_LIMITS._replace(at_once=2), tell)


def test_a_request_without_a_chance_is_refused_at_its_head_and_the_connection_goes_on() -> None:
    async def tell(site: Site) -> None:
        first, other = await Raw.open(site), await Raw.open(site)
        first.send(head(site, more="content-length: 2\r\n") + b"[")
        await soon(lambda: _somebody_is_served(site))
        other.send(head(site, "GET"))
        assert (await other.next()).startswith(b"HTTP/1.1 429 ")
        other.send(head(site, more="content-length: 4\r\n"))
        refused = await other.next()
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"application/problem+json" in refused
        assert b"retry-after: 1" in refused
        first.send(b"]")
        assert (await first.next()).startswith(b"HTTP/1.1 201 ")
        other.send(b"[   " + head(site, "GET"))
        assert (await other.next()).startswith(b"HTTP/1.1 200 ")
        await first.close()
        await other.close()

    on(PLAIN_LIMITS._replace(at_once=1), tell)


def test_more_waiting_requests_than_allowed_are_refused() -> None:
    async def tell(site: Site) -> None:
        waiting = asyncio.ensure_future(site.ask("GET", "/v1/nodes?new=0"))
        await soon(lambda: _somebody_waits(site))
        assert (await site.refuse(429, "GET", "/v1/nodes?new=0"))["code"] == "too_many_requests"
        await site.add(command())
        assert (await waiting).status_code == 200

    on(PLAIN_LIMITS._replace(visits=1), tell)


async def _somebody_is_served(site: Site) -> bool:
    return site.server.service.door.at_once > 0


async def _somebody_waits(site: Site) -> bool:
    return len(site.server.service.door.visits) > 0


@story
async def test_the_right_answer_to_wrong_addresses_and_methods(site: Site) -> None:
    for path in ("/v1", "/v1/", "/v1/nodes/", "/v1/odd", "/v1/nodes/1/odd", "//v1/nodes", "/v1/nodes/1/data/a/b"):
        await site.refuse(404, "GET", path)
    reply = await site.ask("DELETE", "/v1/nodes")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, POST")
    for path in ("/v1/nodes", "/v1/events"):
        assert (await site.ask("HEAD", path)).status_code == 200
    await site.refuse(400, "GET", "/v1/nodes/%ff")
    await site.refuse(400, "GET", "/v1/nodes?type=%ff")


@story
async def test_no_answer_is_kept_by_anybody(site: Site) -> None:
    reply = await site.ask("GET", "/v1/nodes")

    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "server" not in reply.headers


@story
async def test_a_trailer_is_no_header(site: Site) -> None:
    token = site.client.headers["authorization"]
    raw = await Raw.open(site)
    raw.send(
        b"POST /v1/nodes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\n[]\r\n0\r\nauthorization: %b\r\nhost: elsewhere\r\n\r\n" % token.encode()
    )
    assert b" 401 " in (await raw.next())[:20]

    raw.send(head(site, more="transfer-encoding: chunked\r\n") + b"2\r\n[]\r\n0\r\nhost: elsewhere\r\n\r\n")
    assert b" 201 " in (await raw.next())[:20]

    raw.send(head(site, more="transfer-encoding: chunked\r\n") + b"2\r\n[]\r\n0\r\n")
    for _ in range(100):
        raw.send(b"x: %b\r\n" % (b"y" * 1_000))
    # In the middle of a request nothing can be said.
    assert await raw.rest() == b""


@pytest.mark.parametrize("line", ["host: localhost", "Host: elsewhere", "authorization: Bearer x"])
def test_who_is_called_and_who_calls_is_said_once(line: str) -> None:
    async def tell(site: Site) -> None:
        raw = await Raw.open(site)
        raw.send(head(site, more=f"content-length: 2\r\n{line}\r\n") + b"[]")
        told = await raw.rest()
        assert b" 400 " in told[:20]
        assert b"is there twice" in told

    on(PLAIN_LIMITS, tell)
