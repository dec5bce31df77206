"""Webhooks of a queue: whoever put its nodes in, and through whichever door."""

import asyncio
from pathlib import Path

import pytest

from ganger.assembly.embedded import open_engine
from ganger.core.ids import TaskId
from ganger.core.task import Kind, NewTask
from tests.protocol.doors import choose_store
from tests.protocol.v1.harness import Site, command, serve, soon
from tests.protocol.v1.test_webhooks import Receiver, hooked, receive


async def name_webhooks(site: Site, *addresses: str, queue: str = "mail") -> None:
    """Make the queue with these webhooks, or give it those."""
    made = await site.ask("POST", "/v1/queues", {"name": queue, "webhooks": list(addresses)})
    if made.status_code == 409:
        changed = await site.ask("PATCH", f"/v1/queues/{queue}", {"webhooks": list(addresses)})
        assert changed.json()["webhooks"] == list(addresses)


async def hear(receiver: Receiver, count: int) -> set[tuple[str, str]]:
    heard = [await receiver.hear() for _ in range(count)]
    return {(one.told["id"], one.told["state"]) for one in heard}


def test_every_node_that_ends_in_the_queue_is_told_of_and_no_other() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        (elsewhere,) = await site.add(command())
        await name_webhooks(site, receiver.url)
        good, bad, gone = await site.add(*(command(queue="mail") for _ in range(3)))
        await site.finish(elsewhere)
        await site.finish(good)
        await site.fail(bad)
        await site.put(f"/v1/scheduler/kill?id={gone}")

        assert await hear(receiver, 3) == {(good, "finished"), (bad, "failed"), (gone, "cancelled")}
        assert receiver.heard.empty()

    hooked(tell)


def test_a_node_that_came_by_another_door_is_told_of_as_well() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        await name_webhooks(site, receiver.url)
        queue = await site.engine.queues.named("mail")
        (task,) = (await site.engine.submit([NewTask(queue.id, Kind.PAYLOAD)])).ids
        await site.finish(str(task))

        assert await hear(receiver, 1) == {(str(task), "finished")}

    hooked(tell)


def test_what_ends_at_once_after_the_webhook_was_named_is_told_and_what_ended_before_is_not() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        await site.ask("POST", "/v1/queues", {"name": "mail"})
        early, late = await site.add(*(command(queue="mail") for _ in range(2)))
        await site.finish(early)
        queue = await site.engine.queues.named("mail")
        policy = queue.policy._replace(webhooks=(receiver.url,))
        await site.engine.queues.change(queue.id, policy, by="test")
        await site.finish(late)

        assert await hear(receiver, 1) == {(late, "finished")}
        assert receiver.heard.empty()

    hooked(tell)


def test_each_address_is_told_once_of_each() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        await name_webhooks(site, f"{receiver.url}/a", f"{receiver.url}/b")
        nodes = await site.add(*(command(queue="mail") for _ in range(5)))
        await site.engine.cancel([TaskId(int(node)) for node in nodes], by="test")
        heard = [(await receiver.hear()).told for _ in range(10)]

        assert sorted(one["id"] for one in heard) == sorted(nodes * 2)
        assert len({one["delivery"] for one in heard}) == 10
        assert receiver.heard.empty()

    hooked(tell)


def test_a_server_that_comes_back_tells_what_ended_meanwhile_and_nothing_twice(tmp_path: Path) -> None:
    async def tell() -> None:
        async with receive(204) as receiver:
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as site:
                await name_webhooks(site, receiver.url)
                first, second, third = await site.add(*(command(queue="mail") for _ in range(3)))
                await site.finish(first)
                assert await hear(receiver, 1) == {(first, "finished")}
            async with open_engine(choose_store(tmp_path)) as engine:
                await engine.cancel([TaskId(int(second))], by="test")
            assert receiver.heard.empty()
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as site:
                assert await hear(receiver, 1) == {(second, "cancelled")}
                await site.finish(third)
                assert await hear(receiver, 1) == {(third, "finished")}
            assert receiver.heard.empty()

    asyncio.run(tell())


def test_what_ends_while_no_queue_names_a_webhook_is_told_to_nobody_later_either(tmp_path: Path) -> None:
    async def tell() -> None:
        async with receive(204) as receiver:
            async with serve(tmp_path, webhook_hosts="127.0.0.1") as site:
                await name_webhooks(site, receiver.url)
                first, second, third = await site.add(*(command(queue="mail") for _ in range(3)))
                await site.finish(first)
                assert await hear(receiver, 1) == {(first, "finished")}
                await name_webhooks(site)
                await soon(lambda: is_gone(tmp_path / "tasks.db-webhooks"))
                await site.finish(second)
                await name_webhooks(site, receiver.url)
                await site.finish(third)
                assert await hear(receiver, 1) == {(third, "finished")}
            assert receiver.heard.empty()

    asyncio.run(tell())


async def is_gone(path: Path) -> bool:
    return not await asyncio.to_thread(path.exists)


def test_two_servers_on_one_store_tell_each_end_once(tmp_path: Path) -> None:
    async def tell() -> None:
        async with (
            receive(204) as receiver,
            serve(tmp_path, webhook_hosts="127.0.0.1") as site,
            serve(tmp_path, webhook_hosts="127.0.0.1"),
        ):
            await name_webhooks(site, receiver.url)
            nodes = await site.add(*(command(queue="mail") for _ in range(4)))
            for node in nodes:
                await site.finish(node)
            assert await hear(receiver, 4) == {(node, "finished") for node in nodes}

            async def are_all_delivered() -> bool:
                hooks = await site.get("/v1/nodes?queue=webhooks")
                return len(hooks) == 4 and all(hook["state"] == "finished" for hook in hooks)

            await soon(are_all_delivered)
            assert receiver.heard.empty()

    asyncio.run(tell())


@pytest.mark.parametrize(
    ("addresses", "status"),
    [
        (["ftp://a/b"], 400),
        (["nonsense"], 400),
        (["http://10.0.0.1/x"], 403),
        (["https://127.0.0.1/x"], 403),
        ([f"https://a.example/{n}" for n in range(11)], 400),
        (["https://a.example/x", "https://a.example/x"], 400),
        (["https://a.example/\n"], 400),
    ],
)
def test_a_webhook_that_is_none_or_may_not_be_asked_is_refused(addresses: list[str], status: int) -> None:
    async def tell() -> None:
        async with serve() as site:
            await site.refuse(status, "POST", "/v1/queues", {"name": "mail", "webhooks": addresses})

    asyncio.run(tell())


def test_the_queue_of_deliveries_tells_of_none_of_them() -> None:
    async def tell(site: Site, receiver: Receiver) -> None:
        await name_webhooks(site, receiver.url)
        await name_webhooks(site, receiver.url, queue="webhooks")
        (node,) = await site.add(command(queue="mail"))
        await site.finish(node)
        assert await hear(receiver, 1) == {(node, "finished")}

        async def is_delivered() -> bool:
            (hook,) = await site.get("/v1/nodes?queue=webhooks")
            return bool(hook["state"] == "finished")

        await soon(is_delivered)
        assert receiver.heard.empty()

    hooked(tell)
