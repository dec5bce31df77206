"""How much there is to do, over `/v1/stats` and for Prometheus."""

import re

from ganger.core.ids import TaskId
from ganger.engine.store import Claim
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
async def test_what_runs_is_told_from_what_is_only_claimed(site: Site) -> None:
    begun, fetched, _ = await site.add(command(), command(), command())
    worker = (await site.take(begun)).holder
    assert await site.engine.claim(Claim(worker, ids=(TaskId(int(fetched)),)))

    (told,) = (await site.get("/v1/stats?slots=1"))["queues"]
    assert (told["ready"], told["claimed"], told["running"], told["wanted_slots"]) == (1, 1, 1, 3)
    assert told["states"] == {"incipient": 1, "running": 2}
    assert told["phases"] == {"queued": 1, "claimed": 1, "running": 1}
    (queue,) = await site.get("/v1/queues")
    assert (queue["states"], queue["phases"]) == (told["states"], told["phases"])
    (node,) = await site.get("/v1/workers")
    assert (node["running"], node["claimed"]) == (1, 1)
    running = {node["id"]: node["phase"] for node in await site.get("/v1/scheduler/running")}
    assert running == {begun: "running", fetched: "claimed"}


@story
async def test_figures_for_prometheus_tell_running_from_claimed(site: Site) -> None:
    begun, fetched, _ = await site.add(command(), command(), command())
    worker = (await site.take(begun)).holder
    assert await site.engine.claim(Claim(worker, ids=(TaskId(int(fetched)),)))

    figures = (await site.ask("GET", "/metrics")).text.splitlines()

    assert {
        'ganger_tasks{queue="default",status="claimed"} 1', 'ganger_tasks{queue="default",status="running"} 1',
        'ganger_queue_claimed{queue="default"} 1', 'ganger_queue_running{queue="default"} 1',
        'ganger_node_claimed{node="by-hand"} 1', 'ganger_node_running{node="by-hand"} 1',
    } <= set(figures)  # fmt: skip


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
