"""Subscribe for updates: a stream of events that can be resumed."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ganger.faces.http.limits import PLAIN_LIMITS
from tests.protocol.v1.harness import PATIENCE, Site, command, serve, soon, story


class Reader:
    """Reads one stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self) -> dict[str, Any]:
        """The next event, with the number that it has on the stream."""
        told: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            while (line := await anext(self._lines)) or "data" not in told:
                name, _, value = line.partition(": ")
                if line and name:
                    told[name] = value
        event: dict[str, Any] = json.loads(told["data"])
        assert event["fact"] == told["event"]
        assert told.get("id", event["position"]) == event["position"]
        return event

    async def until(self, fact: str) -> dict[str, Any]:
        while (event := await self.next())["fact"] != fact:
            pass
        return event


@asynccontextmanager
async def follow(site: Site, query: str = "", **headers: str) -> AsyncIterator[Reader]:
    async with site.client.stream("GET", f"/v1/events{query}", headers=headers) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream"
        lines = reply.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        yield Reader(lines)


@story
async def test_a_subscriber_is_told_of_updates(site: Site) -> None:
    async with follow(site) as reader:
        (one,) = await site.add(command())
        told = await reader.until("submitted")
        assert told["nodes"] == [{"id": one, "state": "incipient", "phase": "queued"}]
        assert told["queue"] == "default"
        await site.finish(one)
        assert (await reader.until("settled"))["nodes"][0] == {"id": one, "state": "finished", "phase": "succeeded"}


@story
async def test_a_subscriber_that_goes_is_unsubscribed(site: Site) -> None:
    async with follow(site):
        await soon(lambda: _count(site, 1))

    await soon(lambda: _count(site, 0))


async def _count(site: Site, number: int) -> bool:
    return len(site.server.service.door.visits) == number


@story
async def test_a_subscription_goes_on_behind_the_event_that_was_seen_last(site: Site) -> None:
    async with follow(site) as reader:
        await site.add(command())
        seen = (await reader.until("submitted"))["position"]
    (two,) = await site.add(command())

    for query, headers in ((f"?after={seen}", {}), ("", {"last-event-id": seen})):
        async with follow(site, query, **headers) as reader:
            told = await reader.next()
            assert (told["fact"], told["nodes"][0]["id"]) == ("submitted", two)


@story
async def test_everything_from_the_beginning_can_be_read(site: Site) -> None:
    ids = await site.add(*(command() for _ in range(3)))
    for node in ids:
        await site.finish(node)

    async with follow(site, "?after=0") as reader:
        positions = [int((await reader.next())["position"]) for _ in range(5)]

    assert positions == sorted(set(positions))
    assert positions[0] == 1


@story
async def test_a_position_that_the_store_has_not_reached_is_refused(site: Site) -> None:
    assert (await site.refuse(410, "GET", "/v1/events?after=999999"))["code"] == "stale_page"
    assert (await site.refuse(400, "GET", "/v1/events?after=odd"))["code"] == "bad_cursor"


@story
async def test_updates_of_one_queue_alone(site: Site) -> None:
    await site.engine.queues.create("mine", by="somebody")
    async with follow(site, "?queue=mine") as reader:
        await site.add(command())
        (mine,) = await site.add(command(queue="mine"))
        told = await reader.until("submitted")
        assert (told["queue"], told["nodes"][0]["id"]) == ("mine", mine)
    await site.refuse(404, "GET", "/v1/events?queue=nowhere")


@story
async def test_updates_of_some_nodes_alone(site: Site) -> None:
    one, two, three = await site.add(command(), command(), command())
    async with follow(site, f"?id={one},{three}") as reader:
        for node in (two, one, three):
            await site.finish(node)
        seen = [await reader.until("settled") for _ in range(2)]

    assert [told["nodes"][0]["id"] for told in seen] == [one, three]


@story
async def test_updates_of_everything_below_a_root(site: Site) -> None:
    root, child, stranger = await site.add(command(ref="a"), command(parent="@a"), command())
    async with follow(site, f"?root={root}") as reader:
        await site.finish(stranger)
        await site.finish(root)
        assert (await reader.until("settled"))["nodes"][0]["id"] == root
        (grandchild,) = await site.add(command(parent=child))
        await site.add(command(parent=stranger))
        assert [node["id"] for node in (await reader.until("submitted"))["nodes"]] == [grandchild]
        (late,) = await site.add(command())
        await site.ask("PATCH", f"/v1/nodes/{late}", {"metadata": {"parents": [grandchild]}})
        assert (await reader.until("edited"))["nodes"][0]["id"] == late
    await site.refuse(404, "GET", "/v1/events?root=999")
    await site.refuse(400, "GET", f"/v1/events?root={root}&id={child}")


@story
async def test_an_event_of_many_nodes_comes_in_parts_and_only_the_last_can_be_resumed_at(site: Site) -> None:
    async with follow(site) as reader:
        ids = await site.add(*(command(str(n)) for n in range(2_500)))
        parts = [await reader.until("submitted") for _ in range(3)]

    assert [len(part["nodes"]) for part in parts] == [1_000, 1_000, 500]
    assert [node["id"] for part in parts for node in part["nodes"]] == ids


def test_a_silent_stream_shows_that_it_lives() -> None:
    async def tell() -> None:
        limits = PLAIN_LIMITS._replace(beat=0.05)
        async with serve(limits=limits) as site, site.client.stream("GET", "/v1/events") as reply:
            lines = reply.aiter_lines()
            seen = [await anext(lines) for _ in range(6)]
        assert seen.count(": here") == 2

    asyncio.run(tell())


UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", UPGRADE], ids=["stream", "websocket"])
def test_a_slow_reader_is_cut_and_can_resume(tmp_path: Path, more: str) -> None:
    async def tell() -> None:
        # No ping comes in that time: what cuts the reader off is that it does not read.
        async with serve(tmp_path, limits=PLAIN_LIMITS._replace(write=0.3, beat=600.0)) as site:
            token = site.client.headers["authorization"]
            host, _, port = site.server.url.removeprefix("http://").rpartition(":")
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            narrow.connect((host, int(port)))
            head = f"GET /v1/events HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n{more}\r\n"
            narrow.send(head.encode())
            await soon(lambda: _count(site, 1))
            sent = 0
            while not await _count(site, 0):
                await site.add(*(command("x" * 50) for _ in range(5_000)))
                sent += 1
                assert sent < 60
            narrow.close()
            async with follow(site, "?after=0") as again:
                assert (await again.next())["position"] == "1"

    asyncio.run(tell())


def test_a_stream_is_ended_in_order_when_the_server_stops() -> None:
    async def tell() -> None:
        async with serve() as site, site.client.stream("GET", "/v1/events") as reply:
            lines = reply.aiter_lines()
            await anext(lines)
            stopping = asyncio.ensure_future(site.server.service.stop())
            assert [line async for line in lines] == [""]
            await stopping

    asyncio.run(tell())
