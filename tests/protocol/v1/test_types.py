"""The section Node Types: commands and shell commands, as they are given and as they end."""

import re
from typing import Any

from tests.protocol.v1.harness import Site, command, run_story, story


@run_story
async def test_a_command_node_is_executed_and_has_the_documented_format(site: Site) -> None:
    (one,) = await site.add(command("echo", "hello", "world"))
    await site.get(f"/v1/scheduler/wait?id={one}")

    shown = await site.get(f"/v1/nodes/{one}")

    assert shown["metadata"]["id"] == one
    assert shown["metadata"]["type"] == "command"
    assert shown["data"] == {
        "command": "echo",
        "args": ["hello", "world"],
        "result": 0,
        "stdout": "hello world\n",
        "stderr": "",
        "mixedout": "hello world\n",
    }


@run_story
async def test_a_shell_command_node_runs_the_command_in_a_bash_shell(site: Site) -> None:
    text = "echo hello $((1 + 1)); echo oops >&2; [[ -n $BASH_VERSION ]] && exit 3"
    (one,) = await site.add({"metadata": {"type": "shell command"}, "data": {"command": text}})
    await site.get(f"/v1/scheduler/wait?id={one}")

    shown = await site.get(f"/v1/nodes/{one}")

    assert (shown["metadata"]["type"], shown["metadata"]["status"]) == ("shell command", "failed")
    data = shown["data"]
    assert (data["command"], data["result"]) == (text, 3)
    assert (data["stdout"], data["stderr"]) == ("hello 2\n", "oops\n")
    assert sorted(data["mixedout"].splitlines()) == ["hello 2", "oops"]


@run_story
async def test_a_command_that_a_signal_ends_has_failed_and_is_retried_by_its_policy(site: Site) -> None:
    once, twice = await site.add(
        {"metadata": {"type": "shell command"}, "data": {"command": "kill -9 $$"}},
        {"metadata": {"type": "shell command", "retries": 1}, "data": {"command": "kill -TERM $$"}},
    )
    await site.get(f"/v1/scheduler/wait?id={once},{twice}")

    first, second = [await site.get(f"/v1/nodes/{node}") for node in (once, twice)]

    assert [(each["metadata"]["state"], each["data"]["result"]) for each in (first, second)] == [
        ("failed", 137),
        ("failed", 143),
    ]
    assert [each["metadata"]["code"] for each in (first, second)] == [137, 143]
    assert [(each["metadata"]["attempts"], each["metadata"].get("crashes", 0)) for each in (first, second)] == [
        (1, 0),
        (2, 0),
    ]


@run_story
async def test_children_run_as_soon_as_nothing_further_up_prevents_them(site: Site) -> None:
    ids = await site.add(command("true", ref="a"), command("true", parent="@a", ref="b"), command("true", parent="@b"))

    told = await site.get(f"/v1/scheduler/wait?id={','.join(ids)}")

    assert [node["state"] for node in told] == ["finished"] * 3


@story
async def test_a_command_needs_a_command(site: Site) -> None:
    for data in ({}, {"command": 5}, {"command": ""}, {"command": "a", "args": "b"}, {"command": "a", "args": [1]}):
        for kind in ("command", "shell command"):
            if kind == "command" or "args" not in data:
                problem = await site.refuse(400, "POST", "/v1/nodes", {"metadata": {"type": kind}, "data": data})
                assert "data." in problem["fields"]["field"]


def condition(probe: Any, **data: Any) -> dict[str, Any]:
    return {"metadata": {"type": "condition"}, "data": {"probe": probe, **data}}


@story
async def test_a_probe_that_can_never_be_answered_is_refused_at_once(site: Site) -> None:
    wrong: list[Any] = [
        {"if": "expression", "text": "1 +"},
        {"if": "expression", "text": "open('x')"},
        {"if": "expression", "text": "parent[1].size"},
        {"if": "file", "path": "data/ready"},
        {"if": "command", "argv": []},
        {"if": "command", "argv": ["true"], "cwd": "here"},
        {"if": "url", "url": "ftp://localhost/x"},
        {"if": "url", "url": "http://localhost/", "status": 7},
        {"if": "port", "host": "", "port": 80},
        {"if": "port", "host": "localhost", "port": 70_000},
        {"if": "delay", "ms": -1},
        {"if": "moon", "phase": "full"},
    ]
    for probe in wrong:
        await site.refuse(400, "POST", "/v1/nodes", condition(probe))
    await site.refuse(400, "POST", "/v1/nodes", condition({"if": "delay", "ms": 1}, deadline=-1))
    (one,) = await site.add(condition({"if": "file", "path": "/data/ready"}))
    await site.refuse(400, "PATCH", f"/v1/nodes/{one}", {"data": {"probe": {"if": "file", "path": "ready"}}})
    await site.refuse(400, "PUT", f"/v1/nodes/{one}/data/probe", {"value": {"if": "expression", "text": "x"}})


@story
async def test_a_relative_folder_is_refused_at_once(site: Site) -> None:
    for kind in ("command", "shell command"):
        body = {"metadata": {"type": kind}, "data": {"command": "true", "cwd": "here"}}
        assert (await site.refuse(400, "POST", "/v1/nodes", body))["fields"]["field"] == "data.cwd"


@story
async def test_a_branch_is_asked_of_a_condition_alone(site: Site) -> None:
    plain, chooses = await site.add(command(), condition({"if": "delay", "ms": 1}))

    for on in ("then", "else"):
        for parents in ([{"id": plain, "on": on}], [{"id": "@a", "on": on}]):
            nodes = [command(ref="a"), {"metadata": {"type": "command", "parents": parents}, "data": {"command": "x"}}]
            problem = await site.refuse(400, "POST", "/v1/nodes", nodes)
            assert "no condition" in problem["detail"]
    waits, _ = await site.add(command(parents=[{"id": chooses, "on": "then"}]), command())
    body = {"metadata": {"parents": [{"id": plain, "on": "else"}]}}
    await site.refuse(400, "PATCH", f"/v1/nodes/{waits}", body)


@story
async def test_errors_speak_to_people_who_know_no_python(site: Site) -> None:
    (one,) = await site.add(command())
    wrong: list[tuple[str, str, Any]] = [
        ("POST", "/v1/nodes", command(parents=[{"id": one, "on": "maybe"}])),
        ("POST", "/v1/nodes", command(join="some")),
        ("POST", "/v1/nodes", command(on_conflict="shrug")),
        ("POST", "/v1/nodes", command(priority=-1)),
        ("POST", "/v1/nodes", {"metadata": {"type": "condition"}, "data": {"probe": {"if": "x"}}}),
        ("POST", "/v1/nodes", condition({"if": "expression", "text": "1 +"})),
        ("POST", "/v1/nodes", {"metadata": {"type": 5}}),
        ("PATCH", f"/v1/nodes/{one}", {"metadata": {"parents": [{"id": one, "on": "maybe"}]}}),
        ("POST", "/v1/actions", {"action": "sing", "ids": [one]}),
        ("POST", "/v1/queues", {"name": "q", "sort": "odd"}),
        ("GET", "/v1/nodes?limit=0", None),
        ("GET", "/v1/nodes?state=happy", None),
    ]
    for method, path, body in wrong:
        problem = await site.refuse(400, method, path, body)
        assert not re.search(r"<\w+|\[['\"]|\{['\"]|__|Struct|Spec\b|unknown>|frozenset|\bNone\b", problem["detail"]), (
            problem["detail"]
        )


@story
async def test_every_other_kind_has_its_data_too(site: Site) -> None:
    given = {
        "function": {"path": "operator:add", "args": [1, 2]},
        "plugin:mine": {"params": {"a": 1}},
        "condition": {"probe": {"if": "time", "at": 1}},
        "payload": {"payload": "anything"},
        "group": {},
    }
    for kind, data in given.items():
        (one,) = await site.add({"metadata": {"type": kind}, "data": data})
        shown = await site.get(f"/v1/nodes/{one}")
        assert shown["metadata"]["type"] == kind
        assert shown["data"] == data


@story
async def test_surroundings_of_a_command_are_data(site: Site) -> None:
    node = command("env")
    node["data"] |= {"cwd": "/tmp", "env": {"A": "b"}, "stdin": "x"}
    (one,) = await site.add(node)

    data = (await site.get(f"/v1/nodes/{one}"))["data"]

    assert (data["cwd"], data["env"], data["stdin"]) == ("/tmp", {"A": "b"}, "x")
    node["data"]["env"] = "odd"
    await site.refuse(400, "POST", "/v1/nodes", [node])
