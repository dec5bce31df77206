"""`ganger export`, `import`, `backup`, `restore` and `doctor`."""

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from ganger.assembly.backup import beside, copy_store
from ganger.core.ids import TaskId
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from tests.unit.cli.console import Console

pytestmark = pytest.mark.slow


@pytest.fixture
def other(tmp_path: Path) -> Console:
    folder = tmp_path / "other"
    folder.mkdir()
    return Console(folder)


def test_open_tasks_move_to_another_store_as_they_are(console: Console, other: Console) -> None:
    console.run("queue", "create", "video", "--max-active", 2)
    ended = console.submit("--", "true")
    console.work()
    first = console.submit("--queue", "video", "--key", "k", "--description", "grün", "--after", ended, "--", "ü")
    console.submit("--after", first, "--after", f"{ended}:finished", "--shell", "x")
    third = console.submit("--", "false")
    console.run("hold", third)

    lines = console.out("export", "--open")
    assert other.out("import", "-", types=lines) == "3 tasks added, 0 were there already"

    moved = {task["description"]: task for task in other.lines("ls", "--json")}
    assert [task["status"] for task in moved.values()] == ["held", "blocked", "queued"]
    assert (moved["grün"]["queue"], moved["grün"]["key"]) == ("video", "k")
    (child,) = other.lines("show", moved["x"]["id"], "--json")
    assert [parent["on"] for parent in child["parents"]] == ["success"]
    assert json.loads(child["spec"])["script"] == "x"
    assert other.lines("queue", "ls", "--json")[0]["max_active"] == 2


def test_importing_again_adds_no_task_whose_key_is_taken(console: Console, other: Console) -> None:
    console.submit("--key", "k", "--", "true")
    lines = console.out("export")

    other.run("import", "-", types=lines)
    assert other.out("import", "-", types=lines) == "0 tasks added, 1 were there already"


def test_a_spec_that_is_no_text_is_carried_too(console: Console, other: Console) -> None:
    other.submit("--", "true")
    line = {"type": "task", "id": 5, "queue": "raw", "kind": "payload", "code": -2, "spec_base64": "/wA="}
    other.run("import", "-", types=json.dumps(line))

    exported = [json.loads(text) for text in other.out("export", "--queue", "raw").splitlines()]
    assert exported[-1]["spec_base64"] == "/wA="


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "line 1 is not one of an export"),
        ('{"type": "song"}', "line 1"),
        ('{"type": "queue", "name": "a"}\n{"type": "task"}', "line 2"),
        ('{"type": "task", "id": 1, "queue": "a", "kind": "payload", "code": -2, "spec_base64": "?"}', "not base64"),
        ('{"type": "task", "id": 1, "queue": "a", "kind": "dance", "code": -2}', "kind 'dance' is unknown"),
    ],
)
def test_lines_that_are_no_export_are_refused(console: Console, text: str, said: str) -> None:
    assert said in console.err("import", "-", types=text, exits=2)


def test_a_backup_is_a_store_with_its_large_data(console: Console, other: Console) -> None:
    task = console.submit("--", "true")
    body = bytes(range(256)) * 2_000
    console.act(lambda engine: engine.put_data(TaskId(task), "film", body))

    (copied,) = console.lines("backup", other.database, "--json")

    assert (copied["blobs"], copied["bytes"]) == (1, other.database.stat().st_size)
    assert other.lines("show", task, "--json") == console.lines("show", task, "--json")
    assert other.act(lambda engine: engine.read_data(TaskId(task), "film", 0, 1 << 20)).body == body
    assert [finding["well"] for finding in other.lines("doctor", "--json")] == [True] * 11


def test_a_backup_is_made_while_another_has_the_store_open(console: Console, other: Console) -> None:
    console.submit("--", "true")

    async def body(_: Engine) -> None:
        await asyncio.to_thread(console.run, "backup", other.database)

    console.act(body)
    assert len(other.lines("ls", "--json")) == 1


def test_a_backup_taken_while_tasks_come_in_is_one_moment_of_the_store(console: Console, other: Console) -> None:
    first = console.submit("--description", "x" * 5_000, "--", "true")

    async def body(engine: Engine) -> None:
        (queue,) = await engine.queues.all()
        copying = asyncio.ensure_future(copy_store(beside(console.database), beside(other.database)))
        while not copying.done():
            await engine.submit([NewTask(queue.id, "payload", b"x" * 2_000)] * 20)
        await copying

    console.act(body)

    ids = sorted(task["id"] for task in other.lines("ls", "-n", 10_000, "--json"))
    assert ids == list(range(first, len(ids) + 1))
    assert len(ids) % 20 == 1
    assert all(finding["well"] for finding in other.lines("doctor", "--json"))


def test_a_copy_gets_its_name_where_files_have_no_links(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    console.submit("--", "true")
    monkeypatch.setattr(os, "link", refuse)
    console.run("backup", "copy.db")

    assert sorted(path.name for path in console.folder.glob("copy*")) == ["copy.db", "copy.db-blobs"]


def test_a_restored_store_is_the_one_of_the_backup(console: Console, other: Console) -> None:
    task = console.submit("--", "true")
    console.run("backup", "copy.db")

    other.run("restore", console.folder / "copy.db")

    assert [found["id"] for found in other.lines("ls", "--json")] == [task]
    assert other.submit("--", "true") == task + 1


def test_nothing_is_ever_replaced_by_a_copy(console: Console) -> None:
    console.submit("--", "true")
    console.run("backup", "copy.db")

    assert "[conflict]" in console.err("backup", "copy.db", exits=4)
    assert "[conflict]" in console.err("restore", "copy.db", exits=4)
    assert "[not_found]" in console.err("restore", "none.db", exits=3)
    assert "[store_missing_folder]" in console.err("backup", "nowhere/copy.db", exits=5)
    assert not list(console.folder.glob("*-draft*"))


@pytest.mark.parametrize("left", ["copy.db-wal", f"copy.db-bag-{'ab' * 16}"])
def test_what_another_store_left_does_not_become_part_of_a_copy(console: Console, left: str) -> None:
    """SQLite plays whatever log it finds into the database beside it, and whatever is in a bag is run."""
    console.submit("--", "true")
    (console.folder / left).write_bytes(b"of another time")

    said = console.err("backup", "copy.db", exits=4)

    assert "[conflict]" in said
    assert left in said
    assert not (console.folder / "copy.db").exists()


def test_a_store_is_not_restored_beside_the_log_of_the_one_before(console: Console, other: Console) -> None:
    console.submit("--", "true")
    console.run("backup", "copy.db")
    log = other.database.with_name(f"{other.database.name}-wal")
    log.write_bytes(b"of the one before")

    assert str(log) in other.err("restore", console.folder / "copy.db", exits=4)
    log.unlink()
    other.run("restore", console.folder / "copy.db")


def test_a_damaged_store_is_found_and_not_copied(console: Console) -> None:
    for _ in range(20):
        console.submit("--description", "x" * 500, "--", "true")
    image = bytearray(console.database.read_bytes())
    for page in range(2, len(image) // 4096):
        image[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    console.database.write_bytes(image)

    assert "BAD" in console.out("doctor", exits=6)
    assert console.err("backup", "copy.db", exits=5)
    assert not (console.folder / "copy.db").exists()


def test_a_file_of_another_program_is_told_by_the_doctor(console: Console) -> None:
    console.database.write_text("this is not a database, however long one looks at it" * 100)

    assert "BAD" in console.out("doctor", exits=6)
    assert "[store_not_a_database]" in console.err("ls", exits=5)
