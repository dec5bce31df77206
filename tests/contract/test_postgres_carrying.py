"""`ganger export` from one store, `ganger import` into a PostgreSQL store: every task, result and graph is kept."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ganger.assembly.embedded import open_engine
from ganger.cli.main import main
from ganger.core.graph import Edge
from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Succeed
from ganger.core.task import Kind, NewTask
from ganger.engine.engine import Engine
from ganger.engine.store import Claim

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
LEASE = 600_000
ALIKE = (
    "kind", "status", "code", "priority", "description", "reason", "attempts", "crashes", "created", "started", "ended",
    "branch", "key", "limit_key", "join", "spec", "result", "result_base64", "due",
)  # fmt: skip


def call(url: str, home: Path, *words: str, types: str | None = None) -> str:
    ran = CliRunner().invoke(main, list(words), input=types, env={"GANGER_STORE": url, "GANGER_HOME": str(home)})
    assert ran.exit_code == 0, (words, ran.output, ran.exception)
    return ran.stdout


async def _live(engine: Engine) -> None:
    """Tasks with all kinds of ends and beginnings: alone, in a diamond, in groups, lost with their parents."""
    queue = (await engine.queues.ensure("work", by="test")).id
    node = (await engine.nodes.register(Registration("ada", "ada", lease=LEASE))).id

    def task(description: str, *parents: int, kind: str = Kind.PAYLOAD, **fields: Any) -> NewTask:
        edges = tuple(Edge(parent) for parent in parents)
        return NewTask(queue, kind, f"spec of {description}".encode(), parents=edges, description=description, **fields)

    made = await engine.submit([
        task("root", key="the root"), task("left", -1), task("right", -1), task("join", -2, -3),
        task("doomed"), task("skipped", -5), task("group", kind=Kind.GROUP), task("member", group=-7),
        task("late member", -3, group=-7), task("waits for the group", -7), task("cancelled", delay=LEASE),
        task("later", delay=LEASE), task("limited", limit_key="k"), task("limited too", limit_key="k"),
    ])  # fmt: skip
    claim = Claim(node, (queue,), 100, start=True)
    ends: dict[str, Any] = {
        "root": Succeed(b'"result of the root"'), "left": Succeed(b"\xff\x00binary"), "doomed": Fail(7, "it broke"),
        "member": Fail(2, "bad luck"),
    }  # fmt: skip
    for _ in range(3):
        for one in await engine.claim(claim):
            (found,) = await engine.tasks([one.id])
            assert found is not None
            if (end := ends.get(str(found.description))) is not None:
                await engine.settle([(one, end)])
    await engine.cancel([TaskId(made.ids[10])], by="test")


async def _view(url: str | None, tell: Callable[[Engine], Any]) -> Any:
    async with open_engine(url, upkeep=False) as engine:
        return await tell(engine)


def by_name(lines: str) -> tuple[dict[str, dict[str, Any]], dict[int, str]]:
    tasks = [line for line in map(json.loads, lines.splitlines()) if line["type"] == "task"]
    names = {task["id"]: task["description"] for task in tasks}
    return {task["description"]: task for task in tasks}, names


def test_all_that_was_in_a_file_is_in_the_database(
    tmp_path: Path, postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, target = f"sqlite:{tmp_path / 'tasks.db'}", postgres_url()
    asyncio.run(_view(source, _live))
    lines = call(source, tmp_path, "export")
    assert call(target, tmp_path, "import", "-", types=lines) == "14 tasks added, 0 were there already\n"
    again = call(target, tmp_path, "export")

    (before, old), (after, new) = by_name(lines), by_name(again)
    assert before.keys() == after.keys()
    for name, task in before.items():
        moved, is_over = after[name], task["ended"] is not None
        fields = (
            ALIKE if is_over else [field for field in ALIKE if field not in {"created", "status", "code", "started"}]
        )
        assert {field: moved.get(field) for field in fields} == {field: task.get(field) for field in fields}, name
        assert [(new[parent], on) for parent, on in moved["parents"]] == [
            (old[parent], on) for parent, on in task["parents"]
        ], name
        assert new.get(moved["group"]) == old.get(task["group"]), name
    assert {name for name, task in after.items() if task["ended"] is not None} == {
        "root", "left", "doomed", "skipped", "member", "cancelled"
    }  # fmt: skip
    assert after["right"]["status"] == "queued", "what ran is to be run again"
    assert after["join"]["status"] == after["group"]["status"] == "blocked"
    asyncio.run(_view(target, _finish))
    done, _ = by_name(call(target, tmp_path, "export"))
    assert done["group"]["status"] == "failed", "a member had failed before it came"
    assert done["waits for the group"]["status"] == "cancelled"
    assert done["join"]["status"] == "succeeded"


async def _finish(engine: Engine) -> None:
    """Run all that is left; what waits for what is as it was."""
    queue = (await engine.queues.named("work")).id
    node = (await engine.nodes.register(Registration("bob", "bob", lease=LEASE))).id
    while claimed := await engine.claim(Claim(node, (queue,), 100, start=True)):
        assert await engine.settle([(one, Succeed()) for one in claimed])
