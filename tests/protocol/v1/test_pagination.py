"""The section Pagination: parameters in the address, and `pagination` in answers that have more to come."""

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.protocol.v1.harness import Site, command, story, story_in


@story
async def test_requests_to_pagination_enabled_apis_can_continue_as_normal(site: Site) -> None:
    ids = await site.add(command(), command())

    assert [node["id"] for node in await site.get("/v1/nodes")] == ids


@story
async def test_an_answer_with_more_to_come_has_pagination_with_next_and_pid(site: Site) -> None:
    ids = await site.add(*(command() for _ in range(3)))

    page = await site.get("/v1/nodes?limit=2")

    assert [node["id"] for node in page["nodes"]] == ids[:2]
    assert {type(page["pagination"][name]) for name in ("next", "pid")} == {str}


@story
async def test_next_is_passed_as_start_in_additional_requests(site: Site) -> None:
    ids = await site.add(*(command() for _ in range(7)))

    seen, page = [], await site.get("/v1/nodes?limit=3")
    while isinstance(page, dict):
        seen += [node["id"] for node in page["nodes"]]
        page = await go_on(site, "/v1/nodes?limit=3", page)

    assert seen + [node["id"] for node in page] == ids


async def go_on(site: Site, path: str, page: Any) -> Any:
    told = page["pagination"]
    return await site.get(f"{path}&start={told['next']}&pid={told['pid']}")


@story
async def test_pid_must_be_passed_with_start_to_ensure_pagination_is_still_valid(site: Site) -> None:
    await site.add(*(command() for _ in range(3)))
    told = (await site.get("/v1/nodes?limit=1"))["pagination"]

    assert (await site.refuse(410, "GET", f"/v1/nodes?limit=1&start={told['next']}"))["code"] == "stale_page"
    for name in ("pid", "pagid"):
        assert await site.get(f"/v1/nodes?limit=1&start={told['next']}&{name}={told['pid']}")


@story
async def test_a_page_id_of_another_question_is_gone(site: Site) -> None:
    await site.add(*(command() for _ in range(3)))
    told = (await site.get("/v1/nodes?limit=1"))["pagination"]

    await site.refuse(410, "GET", f"/v1/nodes?limit=1&type=command&start={told['next']}&pid={told['pid']}")


@story
async def test_a_start_that_is_none_is_refused(site: Site) -> None:
    for start in ("x", "-1", "1e3", "9" * 30):
        assert (await site.refuse(400, "GET", f"/v1/nodes?start={start}&pid=p"))["code"] == "bad_cursor"


@story
async def test_each_node_is_seen_once_while_others_come_and_go(site: Site) -> None:
    ids = await site.add(*(command() for _ in range(20)))
    seen, page = [], await site.get("/v1/nodes?limit=3")
    while isinstance(page, dict):
        seen += [node["id"] for node in page["nodes"]]
        ids += await site.add(command()) if len(ids) < 26 else []
        await site.ask("DELETE", f"/v1/nodes/{seen[0]}")
        page = await go_on(site, "/v1/nodes?limit=3", page)
    seen += [node["id"] for node in page]

    assert seen == ids


STAYING = 60
WRITERS = 3
READERS = 6


@story_in
async def test_each_node_is_seen_exactly_once_by_many_readers_under_concurrent_writes(site: Site, folder: Path) -> None:
    staying = set(await site.add(*(command() for _ in range(STAYING))))
    dice = random.Random(7)
    writing = [asyncio.ensure_future(_bustle(site, random.Random(dice.random()))) for _ in range(WRITERS)]
    try:
        seen = await asyncio.gather(*(_read_all(site, random.Random(dice.random())) for _ in range(READERS)))
    finally:
        for writer in writing:
            writer.cancel()
        await asyncio.wait(writing)
    for ids in seen:
        assert len(ids) == len(set(ids))
        assert ids == sorted(ids, key=int)
        assert staying <= set(ids)


async def _bustle(site: Site, dice: random.Random) -> None:
    """Add nodes, change some of them and remove others, without end."""
    own: list[str] = []
    while True:
        own += await site.add(*(command(str(dice.random())) for _ in range(dice.randint(1, 4))))
        node = own.pop(dice.randrange(len(own)))
        if dice.random() < 0.5:
            await site.ask("PATCH", f"/v1/nodes/{node}", {"metadata": {"priority": dice.randint(1, 9)}})
        else:
            await site.ask("DELETE", f"/v1/nodes/{node}")


async def _read_all(site: Site, dice: random.Random) -> list[str]:
    """All nodes in pages of any size. The reader ends at a page that is not followed by another at that moment."""
    page = await site.get(f"/v1/nodes?limit={dice.randint(1, 9)}")
    seen: list[str] = []
    while isinstance(page, dict) and len(seen) < 4 * STAYING:
        seen += [node["id"] for node in page["nodes"]]
        page = await go_on(site, f"/v1/nodes?limit={dice.randint(1, 9)}", page)
    return seen if isinstance(page, dict) else seen + [node["id"] for node in page]
