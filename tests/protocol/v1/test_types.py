"""The section Node Types: commands and shell commands, as they are given and as they end."""

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
