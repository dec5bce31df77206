"""How much there is to do, over `/v1/stats` and for Prometheus."""

import re

from tests.protocol.v1.harness import Site, command, soon, story


@story
async def test_each_queue_says_how_deep_and_how_old_it_is_and_whom_it_wants(site: Site) -> None:
    running, *_ = await site.add(*(command() for _ in range(9)))
    await site.take(running)

    (told,) = (await site.get("/v1/stats?slots=4"))["queues"]

    assert (told["queue"], told["ready"], told["running"], told["todo"]) == ("default", 8, 1, 9)
    assert told["oldest_ready"] >= 0
    assert (told["wanted_slots"], told["wanted_workers"], told["paused"]) == (9, 3, False)
    for wrong in ("0", "x", "-1", "1000000", ""):
        await site.refuse(400, "GET", f"/v1/stats?slots={wrong}")


@story
async def test_workers_are_wanted_although_none_was_ever_there(site: Site) -> None:
    await site.add(*(command() for _ in range(3)))

    (told,) = (await site.get("/v1/stats"))["queues"]
    figures = (await site.ask("GET", "/metrics")).text

    assert (await site.get("/v1/workers"), told["wanted_workers"]) == ([], 3)
    for line in ("ready", "wanted_slots", "wanted_workers"):
        assert f'ganger_queue_{line}{{queue="default"}} 3\n' in figures
    assert re.search(r'ganger_queue_oldest_ready_seconds\{queue="default"\} \d', figures)


@story
async def test_rates_are_told_as_soon_as_they_can_be(site: Site) -> None:
    await site.add(command())

    async def has_rates() -> bool:
        (told,) = (await site.get("/v1/stats"))["queues"]
        return "submitted" in told["rates"]

    await soon(has_rates)
