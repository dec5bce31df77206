"""Requests that are sent again, or by two at once, with one key: one wins whole, the other is told so."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2

from tests.protocol.v1.harness import Site, command, story_in

ROUNDS = 25


async def _send(site: Site, key: str, *words: str) -> httpx2.Response:
    nodes: list[Any] = [command(word) for word in words]
    return await site.ask("POST", "/v1/nodes", nodes, headers={"idempotency-key": key})


@story_in
async def test_of_two_bodies_with_one_key_at_once_one_is_stored_whole_and_nothing_of_the_other(
    site: Site, folder: Path
) -> None:
    for number in range(ROUNDS):
        key, shorter, longer = f"key {number}", ("a", "b"), ("c", "d", "e")
        replies = await asyncio.gather(_send(site, key, *shorter), _send(site, key, *longer))
        assert sorted(reply.status_code for reply in replies) == [201, 409]
        winner = shorter if replies[0].status_code == 201 else longer
        stored = await asyncio.gather(*(site.get(f"/v1/nodes?key={key} {index}&metadata=id") for index in range(3)))
        assert [len(found) for found in stored] == [1] * len(winner) + [0] * (3 - len(winner))


@story_in
async def test_the_same_request_many_times_at_once_makes_its_nodes_once(site: Site, folder: Path) -> None:
    for number in range(ROUNDS):
        replies = await asyncio.gather(*(_send(site, f"key {number}", "a", "b") for _ in range(4)))
        assert {reply.status_code for reply in replies} == {201}
        assert len({tuple(node["id"] for node in reply.json()) for reply in replies}) == 1
    assert len(await site.get("/v1/nodes?limit=1000")) == 2 * ROUNDS
