"""`/nodes/<id>/data`: the keys, and the data of a key in pages."""

import base64
from typing import Any
from urllib.parse import quote

from ganger.core.outcome import Succeed
from tests.protocol.v1.harness import Site, command, story


@story
async def test_a_list_of_data_keys_is_returned(site: Site) -> None:
    node = command("echo", "a")
    node["data"]["note"] = "n"
    (one,) = await site.add(node)

    assert await site.get(f"/v1/nodes/{one}/data") == {"keys": ["args", "command", "note"]}


@story
async def test_pagination_is_supported_for_the_keys(site: Site) -> None:
    node = command("echo")
    node["data"] |= {f"k{n}": n for n in range(5)}
    (one,) = await site.add(node)

    page, seen = await site.get(f"/v1/nodes/{one}/data?limit=3"), []
    while "pagination" in page:
        seen += page["keys"]
        page = await site.get(_next(f"/v1/nodes/{one}/data?limit=3", page))

    assert seen + page["keys"] == ["args", "command", "k0", "k1", "k2", "k3", "k4"]


def _next(path: str, page: Any) -> str:
    return f"{path}&start={page['pagination']['next']}&pid={page['pagination']['pid']}"


@story
async def test_a_page_of_keys_that_have_changed_is_gone(site: Site) -> None:
    (one,) = await site.add(command("echo"))
    page = await site.get(f"/v1/nodes/{one}/data?limit=1")
    await site.put(f"/v1/nodes/{one}/data/new", {"value": 1})

    await site.refuse(410, "GET", _next(f"/v1/nodes/{one}/data?limit=1", page))


@story
async def test_data_for_the_given_key_is_returned(site: Site) -> None:
    (one,) = await site.add(command("echo", "hello", "world"))

    told = await site.get(f"/v1/nodes/{one}/data/command")
    assert (told["key"], told["data"], told["encoding"]) == ("command", "echo", "text")
    told = await site.get(f"/v1/nodes/{one}/data/args")
    assert (told["data"], told["encoding"]) == (["hello", "world"], "json")
    assert "pagination" not in told


@story
async def test_pagination_is_supported_for_the_data(site: Site) -> None:
    (one,) = await site.add(command())
    text = "".join(f"line {n} ä€𝄞\n" for n in range(200))
    await site.put(f"/v1/nodes/{one}/data/text", {"value": text})

    page, seen = await site.get(f"/v1/nodes/{one}/data/text?limit=100"), ""
    while "pagination" in page:
        seen += page["data"]
        page = await site.get(_next(f"/v1/nodes/{one}/data/text?limit=100", page))

    assert seen + page["data"] == text


@story
async def test_a_page_is_never_mixed_from_two_values(site: Site) -> None:
    (one,) = await site.add(command())
    await site.put(f"/v1/nodes/{one}/data/text", {"value": "old" * 100})
    page = await site.get(f"/v1/nodes/{one}/data/text?limit=30")
    await site.put(f"/v1/nodes/{one}/data/text", {"value": "new" * 100})

    problem = await site.refuse(410, "GET", _next(f"/v1/nodes/{one}/data/text?limit=30", page))

    assert problem["code"] == "stale_page"
    await site.refuse(400, "GET", f"/v1/nodes/{one}/data/text?start=30")


@story
async def test_values_that_are_not_strings_are_json(site: Site) -> None:
    (one,) = await site.add(command())

    values: list[Any] = [0, 1.5, None, True, [], {"a": {"b": [1]}}, "text", "5", "null", ""]
    for value in values:
        await site.put(f"/v1/nodes/{one}/data/k", {"value": value})
        told = await site.get(f"/v1/nodes/{one}/data/k")
        assert told["data"] == value
        assert told["encoding"] == ("text" if isinstance(value, str) else "json")


@story
async def test_large_json_comes_in_pieces_of_its_text(site: Site) -> None:
    (one,) = await site.add(command())
    await site.put(f"/v1/nodes/{one}/data/k", {"value": list(range(100))})

    page = await site.get(f"/v1/nodes/{one}/data/k?limit=50")

    assert (page["encoding"], len(page["data"]), page["size"]) == ("json-text", 50, 291)


@story
async def test_bytes_are_base64_with_encoding_named(site: Site) -> None:
    (one,) = await site.add(command())
    content = bytes(range(256))
    body = {"value": base64.b64encode(content).decode(), "encoding": "base64"}

    await site.put(f"/v1/nodes/{one}/data/k", body)

    told = await site.get(f"/v1/nodes/{one}/data/k")
    assert (base64.b64decode(told["data"]), told["encoding"]) == (content, "base64")
    await site.refuse(400, "PUT", f"/v1/nodes/{one}/data/k", {"value": "?", "encoding": "base64"})


@story
async def test_put_replaces_data_values(site: Site) -> None:
    (one,) = await site.add(command())

    for value in ("first", "second"):
        await site.put(f"/v1/nodes/{one}/data/k", {"value": value})
        assert (await site.get(f"/v1/nodes/{one}/data/k"))["data"] == value


@story
async def test_start_without_a_value_replaces_only_if_the_key_is_unset(site: Site) -> None:
    (one,) = await site.add(command())

    first = await site.put(f"/v1/nodes/{one}/data/k?start=", {"value": "first"})
    second = await site.put(f"/v1/nodes/{one}/data/k?start=", {"value": "second"})

    assert (first["replaced"], second["replaced"]) == (True, False)
    assert (await site.get(f"/v1/nodes/{one}/data/k"))["data"] == "first"


@story
async def test_the_pagid_and_start_to_replace_the_first_slot_are_returned(site: Site) -> None:
    (one,) = await site.add(command())
    path = f"/v1/nodes/{one}/data/k"
    await site.put(path, {"value": "hello world"})

    told = await site.put(f"{path}?start=", {"value": "ignored"})
    await site.put(f"{path}?start={told['start']}&pagid={told['pid']}", {"value": "HELLO"})

    assert (await site.get(path))["data"] == "HELLO world"


@story
async def test_a_large_value_is_written_slot_by_slot(site: Site) -> None:
    (one,) = await site.add(command())
    path = f"/v1/nodes/{one}/data/k"
    slots = [f"{n:04}ü" * 30_000 for n in range(5)]

    told = await site.put(f"{path}?start=", {"value": slots[0]})
    for slot in slots[1:]:
        told = await site.put(_next(f"{path}?", told), {"value": slot})

    whole, page = "", await site.get(path)
    while "pagination" in page:
        whole += page["data"]
        page = await site.get(_next(f"{path}?", page))
    assert whole + page["data"] == "".join(slots)


@story
async def test_a_slot_with_a_stale_page_id_changes_nothing(site: Site) -> None:
    (one,) = await site.add(command())
    path = f"/v1/nodes/{one}/data/k"
    told = await site.put(f"{path}?start=", {"value": "mine"})
    await site.put(path, {"value": "theirs"})

    await site.refuse(410, "PUT", _next(f"{path}?", told), {"value": "more"})
    await site.refuse(400, "PUT", f"{path}?start=4", {"value": "more"})

    assert (await site.get(path))["data"] == "theirs"


@story
async def test_a_slot_begins_inside_of_the_value(site: Site) -> None:
    (one,) = await site.add(command())
    path = f"/v1/nodes/{one}/data/k"
    told = await site.put(f"{path}?start=", {"value": "abc"})

    problem = await site.refuse(400, "PUT", f"{path}?start=4&pid={told['pid']}", {"value": "x"})

    assert problem["code"] == "bad_cursor"


@story
async def test_the_result_and_the_streams_are_data(site: Site) -> None:
    (one,) = await site.add(command())
    claimed = await site.take(one)
    await site.engine.append_output(claimed.lease, "stdout", 0, b"hello \xc3\xa4")
    told = await site.get(f"/v1/nodes/{one}/data/stdout")
    assert told["data"] == "hello ä"
    await site.engine.append_output(claimed.lease, "stdout", 8, b" world")
    assert (await site.get(_next(f"/v1/nodes/{one}/data/stdout?", told)))["data"] == " world"

    await site.engine.settle([(claimed, Succeed(b"0"))])

    data = (await site.get(f"/v1/nodes/{one}"))["data"]
    assert (data["result"], data["stdout"], data["stderr"]) == (0, "hello ä world", "")
    assert {"result", "stdout", "stderr", "mixedout"} <= set((await site.get(f"/v1/nodes/{one}/data"))["keys"])


@story
async def test_what_a_run_makes_cannot_be_put(site: Site) -> None:
    (one,) = await site.add(command())

    for key in ("result", "stdout", "as:k", "out:stdout"):
        await site.refuse(400, "PUT", f"/v1/nodes/{one}/data/{key}", {"value": "x"})


@story
async def test_data_of_a_final_node_stays_as_it_is(site: Site) -> None:
    (one,) = await site.add(command())
    await site.finish(one)

    assert (await site.refuse(409, "PUT", f"/v1/nodes/{one}/data/k", {"value": 1}))["code"] == "wrong_status"


@story
async def test_a_key_may_be_any_name(site: Site) -> None:
    (one,) = await site.add(command())
    for key in ("a/b", "ä ö", "100%", "a?b=c&d"):
        await site.put(f"/v1/nodes/{one}/data/{quote(key, safe='')}", {"value": key})
        assert (await site.get(f"/v1/nodes/{one}/data/{quote(key, safe='')}"))["data"] == key
    await site.refuse(400, "PUT", f"/v1/nodes/{one}/data/a%0Ab", {"value": 1})
    await site.refuse(400, "PUT", f"/v1/nodes/{one}/data/{'k' * 300}", {"value": 1})


@story
async def test_what_is_not_there_is_not_found(site: Site) -> None:
    (one,) = await site.add(command())

    await site.refuse(404, "GET", f"/v1/nodes/{one}/data/nothing")
    await site.refuse(404, "GET", f"/v1/nodes/{one}/data/stdout")
    assert (await site.refuse(404, "GET", "/v1/nodes/999/data"))["code"] == "task_not_found"
    assert (await site.refuse(404, "PUT", "/v1/nodes/999/data/k", {"value": 1}))["code"] == "task_not_found"
    await site.refuse(400, "GET", "/v1/nodes/odd/data")
