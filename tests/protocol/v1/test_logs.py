"""What a node writes: in ranges, and as it comes."""

import json
from typing import Any

from ganger.core.outcome import Release, Succeed
from tests.protocol.v1.harness import Site, command, run_story, soon, story


async def read_events(site: Site, path: str, **headers: str) -> list[dict[str, Any]]:
    """All events of a stream that ends."""
    reply = await site.ask("GET", path, headers=headers)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream")
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in reply.text.split("\n\n") if block]
    return [
        {**json.loads(told["data"]), "event": told["event"], "place": told.get("id")}
        for told in blocks
        if "event" in told
    ]


@story
async def test_a_range_of_a_stream_is_read_as_it_is(site: Site) -> None:
    (one,) = await site.add(command())
    held = await site.take(one)
    await site.engine.append_output(held.lease, "stdout", 0, b"0123\xff456789")

    reply = await site.ask("GET", f"/v1/nodes/{one}/logs?offset=3&limit=4")

    assert (reply.content, reply.headers["content-type"]) == (b"3\xff45", "application/octet-stream")
    assert [reply.headers[f"ganger-{name}"] for name in ("size", "next", "ended")] == ["11", "7", "false"]
    await site.engine.settle([(held, Succeed())])
    reply = await site.ask("GET", f"/v1/nodes/{one}/logs?offset=7")
    assert (reply.content, reply.headers["ganger-ended"]) == (b"6789", "true")


@run_story
async def test_a_stream_is_followed_until_the_node_has_ended(site: Site) -> None:
    text = "echo one; sleep 0.3; echo two; echo oops >&2"
    (one,) = await site.add({"metadata": {"type": "shell command"}, "data": {"command": text}})

    told = await read_events(site, f"/v1/nodes/{one}/logs?follow=true")

    assert "".join(part["data"] for part in told[:-1]) == "one\ntwo\n"
    assert (told[-1]["event"], told[-1]["state"]) == ("end", "finished")
    again = await read_events(site, f"/v1/nodes/{one}/logs?follow", **{"last-event-id": f"{told[0]['attempt']}-4"})
    assert "".join(part["data"] for part in again[:-1]) == "two\n"
    other = await read_events(site, f"/v1/nodes/{one}/logs?follow=1&stream=stderr")
    assert other[0]["data"] == "oops\n"


@run_story
async def test_whoever_comes_again_and_again_reads_what_a_running_node_has_written(site: Site) -> None:
    text = "echo one; sleep 100"
    (one,) = await site.add({"metadata": {"type": "shell command"}, "data": {"command": text}})

    async def is_heard() -> bool:
        return (await site.ask("GET", f"/v1/nodes/{one}/logs")).text == "one\n"

    async def is_a_value() -> bool:
        return bool((await site.ask("GET", f"/v1/nodes/{one}/data/mixedout")).json().get("data") == "one\n")

    await soon(is_heard)
    await soon(is_a_value)
    assert (await site.get(f"/v1/nodes/{one}"))["metadata"]["state"] == "running"
    await site.put(f"/v1/scheduler/kill?id={one}")
    assert (await site.get(f"/v1/scheduler/wait?id={one}"))[0]["state"] == "killed"


@story
async def test_a_reader_that_comes_back_gets_the_attempts_that_followed(site: Site) -> None:
    (one,) = await site.add(command())
    for text in (b"first \xc3\xa4", b"second"):
        held = await site.take(one)
        await site.engine.append_output(held.lease, "stdout", 0, text)
        await site.engine.settle([(held, Release() if text.startswith(b"first") else Succeed())])

    told = await read_events(site, f"/v1/nodes/{one}/logs?follow", **{"last-event-id": "1-6"})
    assert [(part["attempt"], part["data"]) for part in told[:-1]] == [(1, "ä"), (2, "second")]
    alone = await read_events(site, f"/v1/nodes/{one}/logs?follow&attempt=1")
    assert [part["data"] for part in alone[:-1]] == ["first ä"]
    newest = await read_events(site, f"/v1/nodes/{one}/logs?follow")
    assert [part["data"] for part in newest[:-1]] == ["second"]


@story
async def test_what_is_not_understood_is_refused(site: Site) -> None:
    (one,) = await site.add(command())

    for query in ("offset=x", "offset=-1", "attempt=x", "follow=perhaps", "limit=0", "odd=1", "stream=odd"):
        await site.refuse(400, "GET", f"/v1/nodes/{one}/logs?{query}")
    await site.refuse(400, "GET", f"/v1/nodes/{one}/logs?follow", headers={"last-event-id": "odd"})
    await site.refuse(404, "GET", "/v1/nodes/999/logs")
