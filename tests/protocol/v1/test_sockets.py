"""Subscribe for updates by a websocket."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ganger.faces.http.limits import PLAIN_LIMITS
from ganger.faces.http.streams import StreamSocket
from tests.protocol.v1.harness import PATIENCE, Site, command, serve, soon, story

BUFFER = 1 << 20


@asynccontextmanager
async def follow(
    site: Site, query: str = "", path: str = "/v1/events", **header: str
) -> AsyncIterator[ClientConnection]:
    url = site.server.url.replace("http", "ws", 1) + path + query
    headers = header or {"authorization": site.client.headers["authorization"]}
    async with connect(url, additional_headers=headers) as socket:
        yield socket


async def until(socket: ClientConnection, fact: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while (told := json.loads(await socket.recv()))["fact"] != fact:
            pass
    return told


@story
async def test_a_websocket_is_told_of_updates_and_can_go_on_later(site: Site) -> None:
    async with follow(site) as socket:
        (one,) = await site.add(command())
        told = await until(socket, "submitted")
        assert told["nodes"] == [{"id": one, "state": "incipient", "phase": "queued"}]
    (two,) = await site.add(command())
    async with follow(site, f"?after={told['position']}") as socket:
        assert (await until(socket, "submitted"))["nodes"][0]["id"] == two


@story
async def test_filters_hold_for_a_websocket_too(site: Site) -> None:
    one, two = await site.add(command(), command())
    async with follow(site, f"?id={two}") as socket:
        await site.finish(one)
        await site.finish(two)
        assert (await until(socket, "settled"))["nodes"][0]["id"] == two


@story
async def test_an_event_of_many_nodes_says_that_there_is_more(site: Site) -> None:
    async with follow(site) as socket:
        await site.add(*(command(str(n)) for n in range(1_500)))
        parts = [await until(socket, "submitted") for _ in range(2)]

    assert [(len(part["nodes"]), part.get("more", False)) for part in parts] == [(1_000, True), (500, False)]


@story
async def test_a_websocket_is_refused_like_any_request(site: Site) -> None:
    for path, header, status in (
        ("/v1/events", {"authorization": "Bearer x"}, 401),
        ("/v1/events", site.token("cancel"), 403),
        ("/v1/events?odd=1", {}, 400),
        ("/v1/events?after=999999", {}, 410),
        ("/v1/nodes", {}, 405),
        ("/odd", {}, 404),
    ):
        with pytest.raises(InvalidStatus) as caught:
            async with follow(site, path=path, **header):
                pass
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body or b"{}")["status"] == status


@story
async def test_a_websocket_that_is_closed_is_unsubscribed(site: Site) -> None:
    async with follow(site) as socket:
        await soon(lambda: _count(site, 1))
        await socket.send("whatever")
    await soon(lambda: _count(site, 0))


async def _count(site: Site, number: int) -> bool:
    return len(site.server.service.door.visits) == number


@story
async def test_a_websocket_is_told_why_it_ends(site: Site) -> None:
    header = site.token("read", name="guest")
    async with follow(site, **header) as socket:
        await soon(lambda: _count(site, 1))
        site.server.tokens.remove("guest")
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "not_authenticated")
    async with follow(site) as socket:
        await soon(lambda: _count(site, 1))
        stopping = asyncio.ensure_future(site.server.service.stop())
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012
        await stopping


@pytest.mark.slow
def test_a_reader_that_pauses_is_written_no_more_than_a_buffer_holds_and_misses_nothing(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path, limits=PLAIN_LIMITS._replace(write=600.0, beat=600.0)) as site:
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            host, _, port = site.server.url.removeprefix("http://").rpartition(":")
            narrow.connect((host, int(port)))
            headers = {"authorization": site.client.headers["authorization"]}
            url = f"ws://{host}:{port}/v1/events"
            async with connect(url, sock=narrow, max_queue=1, ping_interval=None, additional_headers=headers) as reader:
                for _ in range(12):
                    await site.add(*(command("x" * 50) for _ in range(4_000)))
                await soon(_somebody_waits_for_room)
                assert _largest_buffer() < BUFFER
                seen = 0
                while seen < 48_000:
                    seen += len((await until(reader, "submitted"))["nodes"])
            assert seen == 48_000

    asyncio.run(tell())


def _largest_buffer() -> int:
    sockets = [found for found in gc.get_objects() if type(found) is StreamSocket]
    return max(found.unsent for found in sockets)


async def _somebody_waits_for_room() -> bool:
    return _largest_buffer() > 0
