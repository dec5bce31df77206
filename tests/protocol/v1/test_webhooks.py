"""A webhook is told when its node has ended, whatever happens in between, and nobody else is asked."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ganger.core.ids import TaskId
from ganger.core.state import Status
from tests.protocol.doors import find_own
from tests.protocol.v1.harness import Site, command, serve, soon, story


class Heard(NamedTuple):
    """A request, as the receiver got it."""

    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """A server on loopback that answers with one status after another, the last of them for ever; 0: not at all."""

    def __init__(self, *statuses: int) -> None:
        self.url = ""
        self.heard: asyncio.Queue[Heard] = asyncio.Queue()
        self._statuses = list(statuses)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
            headers = {name.lower(): value for name, _, value in lines}
            self.heard.put_nowait(Heard(headers, await reader.readexactly(int(headers["content-length"]))))
            status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
            if status:
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
            await writer.drain()
            await reader.read()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    async def hear(self) -> Heard:
        return await asyncio.wait_for(self.heard.get(), 60)


@asynccontextmanager
async def receive(*statuses: int) -> AsyncIterator[Receiver]:
    receiver = Receiver(*statuses)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    async with server:
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/in"
        yield receiver


def hooked(tell: Callable[[Site, Receiver], Awaitable[None]], *statuses: int, folder: Path | None = None) -> None:
    """A story with a receiver that the operator trusts."""

    async def run() -> None:
        async with receive(*(statuses or (204,))) as receiver, serve(folder, webhook_hosts="127.0.0.1") as site:
            await tell(site, receiver)

    asyncio.run(run())


async def find_hook(site: Site, node: str) -> TaskId:
    (hook,) = await site.get(f"/v1/nodes?parent={node}")
    return TaskId(int(hook["id"]))


def test_a_webhook_is_told_how_its_node_ended_and_signed(tmp_path: Path) -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        (node,) = await site.add(command("echo", webhook=receiver.url, key="mine"))
        await site.fail(node, 7)
        heard = await receiver.hear()
        told = heard.told
        assert (told["id"], told["state"], told["phase"], told["code"]) == (node, "failed", "failed", 7)
        assert (told["queue"], told["key"]) == ("default", "mine")
        assert heard.headers["ganger-delivery"] == told["delivery"]
        own = find_own(tmp_path).database
        key = (own.with_name(f"{own.name}-secrets") / "webhook-key").read_bytes()
        stamp = heard.headers["ganger-timestamp"].encode()
        proof = hmac.new(key, stamp + b"." + heard.body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(heard.headers["ganger-signature"], f"v1={proof}")
        await site.get(f"/v1/scheduler/wait?id={told['delivery']}")
        assert (await site.get(f"/v1/nodes/{told['delivery']}"))["data"]["result"] == 204

    hooked(tell, folder=tmp_path)


def test_every_final_state_is_told() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        good, gone = await site.add(*(command(webhook=receiver.url) for _ in range(2)))
        await site.finish(good)
        await site.put(f"/v1/scheduler/kill?id={gone}")
        told = {(heard.told["id"], heard.told["state"]) for heard in [await receiver.hear() for _ in range(2)]}
        assert told == {(good, "finished"), (gone, "cancelled")}

    hooked(tell)


def test_a_refused_delivery_is_tried_again_as_stored_work() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        (node,) = await site.add(command(webhook=receiver.url))
        hook = await find_hook(site, node)
        # Cancelled, because a worker would be another holder, which a task that failed waits for.
        await site.put(f"/v1/scheduler/kill?id={node}")
        first = await receiver.hear()

        async def waits() -> bool:
            (task,) = await site.engine.tasks([hook])
            return task is not None and task.status == Status.DELAYED

        await soon(waits)
        await site.engine.kick([hook], by="test")
        second = await receiver.hear()
        assert (second.body, second.headers["ganger-delivery"]) == (first.body, str(hook))
        await site.get(f"/v1/scheduler/wait?id={hook}")

    hooked(tell, 500, 200)


def test_a_server_that_starts_again_delivers_what_was_left(tmp_path: Path) -> None:
    async def tell() -> None:
        async with receive(200) as receiver:
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as site:
                (node,) = await site.add(command(webhook=receiver.url))
                hook = await find_hook(site, node)
                await site.engine.hold([hook], by="test")
                await site.finish(node)
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as again:
                await again.engine.kick([hook], by="test")
                assert (await receiver.hear()).told["id"] == node

    asyncio.run(tell())


def test_a_delivery_that_is_under_way_when_the_server_stops_is_made_again(tmp_path: Path) -> None:
    async def tell() -> None:
        async with receive(0, 200) as receiver:
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as site:
                (node,) = await site.add(command(webhook=receiver.url))
                hook = await find_hook(site, node)
                await site.put(f"/v1/scheduler/kill?id={node}")
                await receiver.hear()
                began = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - began < 10
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as again:
                assert (await receiver.hear()).told["id"] == node
                (ended,) = await again.get(f"/v1/scheduler/wait?id={hook}")
                assert ended["state"] == "finished"

    asyncio.run(tell())


def test_a_removed_node_is_not_mistaken_for_its_parent() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        above, below = await site.add(
            command(ref="a", webhook=receiver.url), command(parent="@a", webhook=receiver.url)
        )
        hook = await find_hook(site, below)
        assert (await site.ask("DELETE", f"/v1/nodes/{below}")).status_code == 204
        await site.finish(above)
        assert (await receiver.hear()).told["id"] == above
        await site.get(f"/v1/scheduler/wait?id={hook}")
        assert (await site.get(f"/v1/nodes/{hook}"))["data"]["result"] == "removed"

    hooked(tell)


def test_a_request_that_is_sent_again_makes_one_delivery() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        body, header = command(webhook=receiver.url), {"idempotency-key": "once"}
        first = await site.ask("POST", "/v1/nodes", body, headers=header)
        second = await site.ask("POST", "/v1/nodes", body, headers=header)
        assert len(first.json()) == len(second.json()) == 1
        await find_hook(site, first.json()[0]["id"])

    hooked(tell)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("x", 400), ("ftp://a.example/", 400), ("https://u:p@a.example/", 400), ("http://a.example/", 403),
        ("https://127.0.0.1/", 403), ("https://169.254.169.254/latest", 403), ("https://[::1]/", 403),
    ],
)  # fmt: skip
def test_an_address_that_may_not_be_asked_is_refused_at_once(url: str, status: int) -> None:
    async def tell() -> None:
        async with serve() as site:
            await site.refuse(status, "POST", "/v1/nodes", command(webhook=url))
            assert await site.get("/v1/nodes") == []

    asyncio.run(tell())


@story
async def test_a_name_that_leads_inside_fails_the_delivery_for_good(site: Site) -> None:
    (node,) = await site.add(command(webhook="https://localhost/in"))
    hook = await find_hook(site, node)
    await site.finish(node)
    (ended,) = await site.get(f"/v1/scheduler/wait?id={hook}")
    assert ended["state"] == "failed"
    assert "public internet" in (await site.get(f"/v1/nodes/{hook}"))["metadata"]["reason"]


@story
async def test_without_webhooks_nobody_is_there_to_deliver_them(site: Site) -> None:
    await site.add(command())
    assert await site.get("/v1/workers") == []
    assert [queue["name"] for queue in await site.get("/v1/queues")] == ["default"]
