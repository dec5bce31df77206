"""A Disbatch client, a command node and an execution node that are all Ganger: from a queue to what was printed."""

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx2

from ganger.assembly.node import NodeWishes, open_node
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.core.ids import from_object_id
from ganger.engine.engine import Engine
from ganger.node.options import NodeOptions

PATIENCE: Final = 60.0
PROGRAM: Final = """#!/bin/sh
printf '{"status": 3, "stdout": "%s"}' "$(tr -d '"{}' < "$1" | tr ',' '\\n' | sed -n 's/^user://p')" > "$2"
"""


async def ask(client: httpx2.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    reply = await client.request(method, path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def run_all(
    client: httpx2.AsyncClient, engine: Engine, queue: str, lot: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Make tasks, and wait until they have ended."""
    made = await ask(client, "POST", f"/tasks/{queue}", lot)
    faces = [one["_id"] for one in made["MongoDB::InsertManyResult"]["inserted"]]
    await engine.wait([from_object_id(face) for face in faces], PATIENCE)
    found: list[dict[str, Any]] = await ask(client, "GET", f"/tasks?queue={queue}")
    return found


def test_plugins_under_disbatch_names_run_what_disbatch_clients_make(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o700)

    async def tell() -> None:
        store = f"sqlite:{tmp_path / 'tasks.db'}"
        settings = Settings(store=store, listen="127.0.0.1:0", disbatch="/", plugins=f"My::Program={program}")
        async with (
            open_node(settings, NodeOptions("here", slots=4), NodeWishes()) as opened,
            open_server(settings, opened.engine) as server,
        ):
            headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
                assert await ask(client, "GET", "/plugins") == ["Disbatch::Plugin::Demo", "My::Program"]
                for name, plugin in (("demo", "Disbatch::Plugin::Demo"), ("mine", "My::Program")):
                    await ask(client, "POST", "/queues", {"name": name, "plugin": plugin})
                lot = [{"commands": letters} for letters in ("a", "b", "*")]
                found = await run_all(client, opened.engine, "demo", lot)
                assert [task["status"] for task in found] == [1, 1, 2]
                assert [task["stdout"] for task in found] == ["a is for apple\n", "", "a is for apple\n"]
                assert found[2]["stderr"] == "b is for banana\nc is for cry\n"
                (task,) = await run_all(client, opened.engine, "mine", [{"user": "ada"}])
                assert (task["status"], task["node"]) == (3, "here")
                (node,) = await ask(client, "GET", "/nodes")
                assert [queue["tasks_done"] for queue in node["queues"]] == [3, 1]
                assert (await ask(client, "GET", "/monitoring"))["disbatch"]["status"] == "OK"

    asyncio.run(tell())
