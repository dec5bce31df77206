"""The routes that show tasks, and their options."""

import json

from ganger.core.ids import to_object_id
from ganger.core.outcome import Fail, Succeed
from tests.protocol.disbatch.harness import DEMO, Site, everywhere, story


@everywhere
async def test_a_task_is_shown_as_the_protocol_has_it(site: Site) -> None:
    queue = await site.make_queue()
    (face,) = await site.make_tasks({"user1": "ashley@example.com", "commands": "*"})
    await site.finish(face, stdout="out", stderr="err")

    shown = await site.get(f"/tasks/{face}")
    assert {name: shown[name] for name in ("_id", "queue", "node", "status", "stdout", "stderr")} == {
        "_id": face, "queue": queue, "node": "by-hand", "status": 1, "stdout": "out", "stderr": "err",
    }  # fmt: skip
    assert shown["parameters"] == shown["params"] == {"user1": "ashley@example.com", "commands": "*"}
    assert shown["ctime"] <= shown["mtime"]
    assert len(shown["ctime"]) == len("2019-01-23T19:42:56")


@story
async def test_a_queued_task_is_unclaimed_and_has_printed_nothing(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    shown = await site.get(f"/tasks/{face}")
    assert (shown["node"], shown["status"], shown["stdout"], shown["stderr"]) == (-1, -2, None, None)
    await site.take(face)
    shown = await site.get(f"/tasks/{face}")
    assert (shown["node"], shown["status"], shown["stdout"]) == ("by-hand", 0, None)


@story
async def test_an_id_that_is_no_task_is_404(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})
    another_second = to_object_id(7, int(face[8:], 16))  # type: ignore[arg-type]

    for strange in ("571fac85ee63413233049fbd", another_second, "f" * 24, "1", "x"):
        refused = await site.refuse("GET", f"/tasks/{strange}", status=404)
        assert refused["error"] == f"no task with id {strange}"


@everywhere
async def test_tasks_are_found_by_what_is_indexed(site: Site) -> None:
    first = await site.make_queue("one")
    await site.make_queue("two")
    done, failed, waits = await site.make_tasks({"n": 1}, {"n": 2}, {"n": 3}, queue="one")
    (other,) = await site.make_tasks({"n": 4}, queue="two")
    await site.finish(done)
    await site.finish(failed, Fail(7))

    async def find(**asked: object) -> list[str]:
        return [task["_id"] for task in await site.get("/tasks", **asked)]

    assert await find(queue=first) == await find(queue="one") == [done, failed, waits]
    assert await find(queue="one,two", status=-2) == [waits, other]
    assert await find(queue="one", status="1,7") == [done, failed]
    assert await find(node="by-hand") == [done, failed]
    assert await find(node="-1", queue="two") == [other]
    assert await find(id=f"{other},{done}") == [other, done]
    assert await find(status=99) == []


@story
async def test_other_fields_are_not_indexed(site: Site) -> None:
    refused = await site.refuse("GET", "/tasks", {"colour": "red", "queue": "x"})

    assert (refused["error"], refused["invalid_params"]) == ("non-indexed params given", ["colour"])
    assert refused["indexes"] == ["id", "node, status, queue", "queue, status"]


@story
async def test_everything_is_not_returned_at_once(site: Site) -> None:
    for query in ({}, {".terse": "1"}, {"queue": ""}):
        refused = await site.refuse("GET", "/tasks", params=query)
        assert refused["error"].startswith("refusing to return everything")


@story
async def test_limit_and_skip_cut_a_page_out(site: Site) -> None:
    await site.make_queue()
    faces = await site.make_tasks(*({"n": n} for n in range(5)))

    assert [task["_id"] for task in await site.get("/tasks", **{".limit": 2, ".skip": 1})] == faces[1:3]
    assert [task["_id"] for task in await site.get("/tasks", **{"queue": "demo", ".skip": 3})] == faces[3:]
    assert (await site.get("/tasks", **{".limit": 1, ".skip": 4}))["_id"] == faces[4]
    assert await site.get("/tasks", **{".limit": 1, ".skip": 5}) == {}
    refused = await site.refuse("GET", "/tasks", params={".limit": 100_000})
    assert refused["error"] == "limit cannot exceed 1000"


@story
async def test_more_than_a_page_is_not_cut_off_in_silence(site: Site) -> None:
    await site.make_queue()
    await site.make_tasks(*({"n": n} for n in range(1_001)))

    assert "more than 1000" in (await site.refuse("GET", "/tasks", params={"queue": "demo"}))["error"]
    assert len(await site.get("/tasks", **{"queue": "demo", ".limit": 1_000, ".fields": '["status"]'})) == 1_000


@story
async def test_count_says_how_many_there_are(site: Site) -> None:
    await site.make_queue()
    done, _, _ = await site.make_tasks({"n": 1}, {"n": 2}, {"n": 3})
    await site.finish(done)

    for asked, number in (({}, 3), ({"queue": "demo"}, 3), ({"status": -2}, 2), ({"node": "by-hand"}, 1)):
        assert await site.get("/tasks", **asked, **{".count": 1}) == {"count": number}


@story
async def test_terse_leaves_out_what_was_printed(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})
    await site.finish(face, stdout="much")

    shown = await site.get(f"/tasks/{face}", **{".terse": 1})
    assert (shown["stdout"], shown["stderr"]) == ("[terse mode]", "")


@everywhere
async def test_long_output_is_an_id_until_all_is_asked_for(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})
    await site.finish(face, stdout="x" * 70_000, stderr="short")

    shown = await site.get(f"/tasks/{face}")
    assert (shown["stdout"], shown["stderr"]) == (face, "short")
    (found,) = await site.get("/tasks", **{"queue": "demo", ".full": 1})
    assert found["stdout"] == "x" * 70_000


@story
async def test_epoch_gives_seconds_with_their_fractions(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    shown = await site.get(f"/tasks/{face}", **{".epoch": 1})
    assert isinstance(shown["ctime"], float)
    assert int(shown["ctime"]) == int(face[:8], 16)


@story
async def test_pretty_is_in_lines_and_one_task_is_unless_told_otherwise(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    async def lines(path: str, **asked: object) -> int:
        return (await site.ask("GET", path, params=asked)).text.count("\n")

    assert await lines(f"/tasks/{face}") > 5
    assert await lines(f"/tasks/{face}", **{".pretty": 0}) == 0
    assert await lines("/tasks", **{".limit": 5}) == 0
    assert await lines("/tasks", **{".limit": 5, ".pretty": 1}) > 5


@story
async def test_fields_may_be_chosen(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    for fields in ('["status"]', '{"status": 1, "queue": 0}'):
        assert await site.get("/tasks", **{"queue": "demo", ".fields": fields}) == [{"_id": face, "status": -2}]
    assert ".fields" in (await site.refuse("GET", "/tasks", params={".fields": "5", ".limit": "1"}))["error"]


@story
async def test_options_may_come_in_a_body_too(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    reply = await site.ask("GET", "/tasks", {"queue": ["demo"], ".limit": 1, ".epoch": True})
    assert reply.json()["_id"] == face
    assert "option" in (await site.refuse("GET", "/tasks", {".colour": 1}))["error"]


@story
async def test_tasks_of_other_doors_are_shown_like_the_others(site: Site) -> None:
    reply = await site.client.post("/v1/nodes", json={"metadata": {"type": "command"}, "data": {"command": "true"}})
    assert reply.status_code == 201

    (shown,) = await site.get("/tasks", queue="default")
    assert shown["parameters"] == {"argv": ["true"]}


@story
async def test_keys_are_sorted_as_disbatch_sorts_them(site: Site) -> None:
    await site.make_queue(DEMO)

    text = (await site.ask("GET", "/queues")).text
    (told,) = json.loads(text)
    assert list(told) == sorted(told)


@everywhere
async def test_how_the_process_of_a_plugin_ended_is_told(site: Site) -> None:
    await site.make_queue()
    clean, broken, silent = await site.make_tasks({"n": 1}, {"n": 2}, {"n": 3})
    for face, code, outcome in ((clean, b"0", None), (broken, b"-1", Fail(2, "it was killed"))):
        claimed = await site.take(face)
        await site.engine.put_data(claimed.lease, "exit", code)
        await site.engine.settle([(claimed, outcome or Succeed(b"1"))])
    await site.finish(silent)

    told = [await site.get(f"/tasks/{face}") for face in (clean, broken, silent)]
    assert [(task.get("cmdExit"), task.get("cmdErr")) for task in told] == [
        (0, None),
        (-1, "it was killed"),
        (None, None),
    ]
