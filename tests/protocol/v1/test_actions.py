"""What operators do to many nodes at once."""

from typing import Any

from tests.protocol.v1.harness import Site, command, story


async def act(site: Site, action: str, **more: Any) -> Any:
    reply = await site.ask("POST", "/v1/actions", {"action": action, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def state(site: Site, node: str) -> str:
    return str((await site.get(f"/v1/nodes/{node}"))["metadata"]["state"])


@story
async def test_nodes_are_held_and_kicked_by_filter_and_by_id(site: Site) -> None:
    one, two, done = await site.add(command(), command(), command())
    await site.finish(done)

    assert await act(site, "hold", state="incipient", reason="why not") == {
        "done": [one, two],
        "refused": [],
        "more": False,
    }
    assert (await state(site, one), await state(site, two)) == ("held", "held")
    told = await act(site, "kick", ids=[one, done, "999"])
    assert told["done"] == [one]
    assert told["refused"] == [{"id": done, "why": "wrong_status"}, {"id": "999", "why": "gone"}]


@story
async def test_nodes_are_cancelled_killed_and_retried(site: Site) -> None:
    one, two, three = await site.add(command("a"), command("b"), command("c"))
    await site.fail(three)

    assert (await act(site, "cancel", ids=[one]))["done"] == [one]
    assert (await act(site, "kill", queue="default", state="incipient"))["done"] == [two]
    told = await act(site, "retry", ids=[three, "999"])
    (again,) = told["done"]
    assert (await site.get(f"/v1/nodes/{again}"))["metadata"]["retry_of"] == three
    assert told["refused"] == [{"id": "999", "why": "wrong_status"}]


@story
async def test_what_is_not_understood_is_refused(site: Site) -> None:
    wrong: list[Any] = [
        {}, {"action": "odd", "ids": ["1"]}, {"action": "hold"}, {"action": "hold", "ids": ["1"], "state": "held"},
        {"action": "hold", "ids": ["x"]}, {"action": "hold", "state": "odd"}, {"action": "hold", "odd": 1}, [],
    ]  # fmt: skip
    for body in wrong:
        await site.refuse(400, "POST", "/v1/actions", body)


@story
async def test_a_retry_needs_the_scope_of_the_queue_too(site: Site) -> None:
    (one,) = await site.add(command())
    await site.fail(one)

    reply = await site.ask("POST", "/v1/actions", {"action": "retry", "ids": [one]}, headers=site.token("cancel"))

    assert reply.json()["refused"] == [{"id": one, "why": "not_allowed"}]
