"""Schedules over `/v1`: added, told, changed, paused, removed, and what their ticks add."""

from typing import Any

from ganger.engine.schedules import Scheduler
from ganger.runtime.clock import SystemClock
from tests.protocol.v1.harness import Site, soon, story

MINUTE = 60_000


def nightly(name: str = "nightly", **more: Any) -> dict[str, Any]:
    said = {"type": "command", "description": "sweep", "retries": 2}
    return {"name": name, "cron": "30 2 * * *", "metadata": said, "data": {"command": "sweep", "args": ["all"]}, **more}


async def add(site: Site, body: dict[str, Any]) -> Any:
    reply = await site.ask("POST", "/v1/schedules", body)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def change(site: Site, name: str, body: dict[str, Any]) -> Any:
    reply = await site.ask("PATCH", f"/v1/schedules/{name}", body)
    assert reply.status_code == 200, reply.text
    return reply.json()


@story
async def test_a_schedule_is_added_shown_and_listed(site: Site) -> None:
    told = await add(site, nightly(zone="Europe/Berlin"))

    assert told["data"] == {"command": "sweep", "args": ["all"]}
    assert told["metadata"] == {
        "type": "command", "queue": "default", "priority": 1024, "description": "sweep", "retries": 2,
    }  # fmt: skip
    assert (told["cron"], told["zone"], told["paused"], told["last"]) == ("30 2 * * *", "Europe/Berlin", False, None)
    assert told["next"] > 0
    assert await site.get("/v1/schedules/nightly") == told
    assert await site.get("/v1/schedules") == [told]


@story
async def test_a_tick_adds_a_node_with_that_data(site: Site) -> None:
    await add(site, {"name": "often", "every": 1000, "metadata": {"type": "command"}, "data": {"command": "x"}})

    async def was_made() -> bool:
        return (await site.get("/v1/schedules/often"))["last"] is not None

    scheduler = Scheduler(site.engine, SystemClock())
    await scheduler.start()
    await soon(was_made)
    await scheduler.stop()
    made = (await site.get("/v1/schedules/often"))["last"]
    assert (await site.get(f"/v1/nodes/{made}"))["data"]["command"] == "x"


@story
async def test_the_next_ticks_are_told(site: Site) -> None:
    await add(site, nightly())

    told = await site.get("/v1/schedules/nightly/ticks?after=0&limit=3")
    assert told == {"ticks": [day * 24 * 60 * MINUTE + 150 * MINUTE for day in range(3)]}
    assert len((await site.get("/v1/schedules/nightly/ticks"))["ticks"]) == 5
    assert len((await site.get(f"/v1/schedules/nightly/ticks?after={(1 << 47) - 1}"))["ticks"]) == 5
    for query in ("after=x", "limit=0", "after=-1", f"after={1 << 60}", "odd=1"):
        await site.refuse(400, "GET", f"/v1/schedules/nightly/ticks?{query}")


@story
async def test_its_times_and_what_it_adds_can_be_changed(site: Site) -> None:
    await add(site, nightly())
    await site.engine.queues.create("other", by="somebody")

    told = await change(
        site, "nightly",
        {"every": MINUTE, "overlap": True, "metadata": {"queue": "other", "priority": 5, "retries": 0},
         "data": {"args": ["some"], "cwd": "/tmp"}},
    )  # fmt: skip

    assert (told["cron"], told["every"], told["overlap"]) == (None, MINUTE, True)
    assert told["data"] == {"command": "sweep", "args": ["some"], "cwd": "/tmp"}
    assert (told["metadata"]["queue"], told["metadata"]["priority"], told["metadata"]["retries"]) == ("other", 5, 0)
    assert (await change(site, "nightly", {"cron": "@daily"}))["every"] is None


@story
async def test_it_is_paused_resumed_and_removed(site: Site) -> None:
    await add(site, nightly())

    assert (await change(site, "nightly", {"paused": True}))["paused"]
    assert (await change(site, "nightly", {"paused": True}))["paused"]
    assert not (await change(site, "nightly", {"paused": False}))["paused"]
    assert (await site.ask("DELETE", "/v1/schedules/nightly")).status_code == 204
    for method in ("GET", "DELETE"):
        await site.refuse(404, method, "/v1/schedules/nightly")
    await site.refuse(404, "PATCH", "/v1/schedules/nightly", {"paused": True})
    await site.refuse(404, "GET", "/v1/schedules/nightly/ticks")
    assert await site.get("/v1/schedules") == []


@story
async def test_a_wrong_schedule_is_refused_with_a_sentence(site: Site) -> None:
    await add(site, nightly())
    wrong: list[Any] = [
        {}, [], nightly("x", cron="odd"), nightly("x", every=5, cron=None), nightly("x", every=MINUTE),
        nightly("x", zone="Nowhere"), nightly("x", missed="odd"), nightly("x", most=0), nightly("a\nb"), nightly(""),
        nightly("x", metadata={"type": "odd"}), nightly("x", metadata={"type": "command", "parent": "1"}),
        nightly("x", data={"command": "x", "note": 1}), nightly("x", data={}), nightly("x" * 151),
        nightly("x", metadata={"type": "command", "priority": -1}),
    ]  # fmt: skip
    for body in wrong:
        await site.refuse(400, "POST", "/v1/schedules", body)
    for body in [{}, {"every": 1}, {"data": {"odd": 1}}, {"odd": 1}, {"metadata": {"priority": -1}}, {"cron": "x"}]:
        await site.refuse(400, "PATCH", "/v1/schedules/nightly", body)
    await site.refuse(409, "POST", "/v1/schedules", nightly())
    await site.refuse(413, "POST", "/v1/schedules", nightly("x", data={"command": "x" * 600_000}))
    await site.refuse(404, "POST", "/v1/schedules", nightly("x", metadata={"type": "command", "queue": "none"}))


@story
async def test_a_token_for_one_queue_keeps_schedules_of_that_queue_alone(site: Site) -> None:
    await site.engine.queues.create("mine", by="somebody")
    header, work = site.token("submit:mine"), {"type": "command", "queue": "mine"}
    await add(site, nightly("foreign"))

    await site.refuse(403, "POST", "/v1/schedules", nightly(), headers=header)
    made = await site.ask("POST", "/v1/schedules", nightly(metadata=work), headers=header)
    assert made.status_code == 201
    await site.refuse(403, "PATCH", "/v1/schedules/nightly", {"metadata": {"queue": "default"}}, headers=header)
    await site.refuse(403, "PATCH", "/v1/schedules/foreign", {"paused": True}, headers=header)
    assert (await site.ask("PATCH", "/v1/schedules/nightly", {"most": 5}, headers=header)).status_code == 200


@story
async def test_who_added_a_schedule_is_in_the_audit_log(site: Site) -> None:
    await add(site, nightly())

    lines = await site.engine.store.audit(0)  # type: ignore[arg-type]
    assert ("token admin", "schedule.add") in {(line.who, line.action) for line in lines}
