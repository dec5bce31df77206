"""`ganger progress`, `add`, `family` and `edit`: what a task says while it runs."""

import pytest

from ganger.assembly.key import open_key
from ganger.assembly.location import Location
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.task import Kind, NewTask
from ganger.core.token import make_token
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from ganger.runtime.entropy import SystemEntropy
from tests.unit.cli.console import Console

pytestmark = pytest.mark.slow


def _claim(console: Console, task: int) -> Lease:
    async def body(engine: Engine) -> Lease:
        node = await engine.nodes.register(Registration("worker", "token"))
        (claimed,) = await engine.claim(Claim(node.id, ids=(TaskId(task),), start=True))
        return claimed.lease

    return console.act(body)


def _succeed(console: Console, lease: Lease) -> None:
    console.act(lambda engine: engine.settle_by_lease(lease, Succeed()))


@pytest.fixture
def lease(console: Console, monkeypatch: pytest.MonkeyPatch) -> Lease:
    """That of a task that runs, with its environment."""
    console.run("queue", "create", "video")
    held = _claim(console, console.submit("--queue", "video", "--", "true"))
    monkeypatch.setenv("GANGER_TASK", str(held.task))
    monkeypatch.setenv("GANGER_FENCE", str(held.fence))
    monkeypatch.setenv("GANGER_TOKEN", make_token(_key(console), held.task, held.fence))
    return held


def _key(console: Console) -> bytes:
    return open_key(Location(console.database, console.folder), SystemEntropy())


def _see(console: Console, task: int) -> dict[str, object]:
    return next(seen for seen in console.lines("ls", "--json") if seen["id"] == task)


def test_a_task_says_how_far_it_is(console: Console, lease: Lease) -> None:
    console.run("progress", 40, "the second file")

    seen = _see(console, lease.task)
    assert (seen["percent"], seen["info"]) == (40, "the second file")
    assert "Invalid value" in console.err("progress", 101, exits=2)


def test_a_child_waits_until_its_parent_has_ended_well(console: Console, lease: Lease) -> None:
    child = int(console.out("add", "--", "echo", "-n", "x"))
    other = console.lines("add", "--json", "--on", "failed", "--shell", "echo sorry")[0]["id"]

    seen = _see(console, child)
    assert (seen["status"], seen["queue"], seen["description"]) == ("blocked", "video", "echo -n x")
    _succeed(console, lease)
    assert [_see(console, task)["status"] for task in (child, other)] == ["queued", "cancelled"]


def test_a_child_with_a_key_is_added_once(console: Console, lease: Lease) -> None:
    first = console.out("add", "--key", f"after-{lease.task}", "--once", "--", "true")
    again = console.run("add", "--key", f"after-{lease.task}", "--once", "--", "true")

    assert again.stdout.strip() == first
    assert "nothing was added" in again.stderr


def test_who_has_lost_the_lease_is_refused(console: Console, lease: Lease) -> None:
    _succeed(console, lease)

    assert "[stale_lease]" in console.err("progress", 50, exits=4)
    assert "[stale_lease]" in console.err("add", "--", "true", exits=4)
    assert "[stale_lease]" in console.err("family", exits=4)
    assert len(console.lines("ls", "--json")) == 1


@pytest.mark.parametrize(
    ("variable", "said"), [(None, "for use inside a task"), ("0", "no number"), ("x", "no number")]
)
def test_outside_of_a_task_they_are_refused(
    console: Console, lease: Lease, monkeypatch: pytest.MonkeyPatch, variable: str | None, said: str
) -> None:
    if variable is None:
        monkeypatch.delenv("GANGER_FENCE")
    else:
        monkeypatch.setenv("GANGER_FENCE", variable)

    assert said in console.err("progress", 50, exits=2)
    assert said in console.err("add", "--", "true", exits=2)
    assert _see(console, lease.task)["percent"] is None


def _seen(console: Console) -> list[tuple[str, int, str, str | None]]:
    lines = console.lines("family", "--json")
    return [(seen["who"], seen["id"], seen["status"], seen["on"]) for seen in lines]


def test_a_task_sees_its_parents_itself_and_its_children(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = console.submit("--", "true")
    middle = console.submit("--after", f"{parent}:finished", "--", "cat")
    console.submit("--", "echo", "a stranger")
    assert console.work() == [parent]
    held = _claim(console, middle)
    for name, value in (("TASK", held.task), ("FENCE", held.fence)):
        monkeypatch.setenv(f"GANGER_{name}", str(value))
    monkeypatch.setenv("GANGER_TOKEN", make_token(_key(console), held.task, held.fence))
    child = int(console.out("add", "--on", "failed", "--", "echo", "sorry"))

    assert _seen(console) == [
        ("parent", parent, "succeeded", "finished"),
        ("self", middle, "running", None),
        ("child", child, "blocked", "failed"),
    ]
    assert [line.split() for line in console.out("family").splitlines()] == [
        ["WHO", "ID", "STATUS", "ON", "TASK"],
        ["parent", str(parent), "succeeded", "finished", "true"],
        ["self", str(middle), "running", "cat"],
        ["child", str(child), "blocked", "failed", "echo", "sorry"],
    ]


def test_a_task_changes_what_is_still_open_in_its_family(console: Console, lease: Lease) -> None:
    child = int(console.out("add", "--env", "A=1", "--", "echo", "old"))

    changes = ("--priority", 7, "--timeout", "5s", "--retries", 2, "--env", "B=2", "--cwd", "/")
    console.run("edit", "--family", *changes, child, "--", "echo", "new")

    (seen,) = console.lines("show", "--json", child)
    assert (seen["priority"], seen["timeout"], seen["description"]) == (7, 5_000, "echo new")
    assert '"argv":["echo","new"]' in seen["spec"]
    assert '"A":"1"' in seen["spec"]
    assert '"B":"2"' in seen["spec"]
    assert '"cwd":"/"' in seen["spec"]


def test_a_task_reaches_its_own_family_only_and_only_while_it_has_the_lease(console: Console, lease: Lease) -> None:
    stranger, child = console.submit("--", "true"), int(console.out("add", "--", "true"))

    assert "neither a parent nor a child" in console.err("edit", "--family", "--priority", 1, stranger, exits=7)
    _succeed(console, lease)
    assert "[stale_lease]" in console.err("edit", "--family", "--priority", 1, child, exits=4)
    assert [_see(console, task)["priority"] for task in (stranger, child)] == [1024, 1024]


@pytest.mark.parametrize(
    "words", [("progress", 50), ("add", "--", "true"), ("family",), ("edit", "--family", "--priority", 1, 1)]
)
def test_a_token_that_no_node_gave_is_refused(
    console: Console, lease: Lease, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.setenv("GANGER_TOKEN", make_token(b"x" * 32, lease.task, lease.fence))
    assert "[not_authenticated]" in console.err(*words, exits=7)

    other = make_token(_key(console), TaskId(lease.task + 1), lease.fence)
    monkeypatch.setenv("GANGER_TOKEN", other)
    assert "[not_authenticated]" in console.err(*words, exits=7)

    monkeypatch.delenv("GANGER_TOKEN")
    assert "for use inside a task" in console.err(*words, exits=2)
    assert _see(console, lease.task)["percent"] is None


def test_a_store_on_which_no_node_has_worked_has_no_tokens(console: Console, lease: Lease) -> None:
    Location(console.database, console.folder).key.unlink()

    assert "there is no key" in console.err("family", exits=7)


def test_an_operator_changes_what_waits_and_nothing_else(console: Console) -> None:
    command, script = console.submit("--", "true"), console.submit("--shell", "exit 1")

    assert console.out("edit", "--description", "first", command) == str(command)
    assert console.lines("edit", "--json", "--shell", "exit 2", script) == [{"id": script, "done": True}]

    assert _see(console, command)["description"] == "first"
    assert (_see(console, script)["description"], _see(console, script)["retry"]) == ("exit 2", None)
    assert "stays one" in console.err("edit", "--shell", "x", command, exits=2)
    assert "stays one" in console.err("edit", script, "--", "x", exits=2)
    assert "say what is to be changed" in console.err("edit", command, exits=2)
    assert "not both" in console.err("edit", "--shell", "x", command, "--", "y", exits=2)
    assert "[task_not_found]" in console.err("edit", "--priority", 1, 99, exits=3)
    assert console.work() == [command]
    assert "[wrong_status]" in console.err("edit", "--priority", 1, command, exits=4)


def test_a_task_that_is_no_command_keeps_its_spec(console: Console) -> None:
    group = int(console.out("submit", "--shell", "true"))
    console.act(lambda engine: engine.submit([NewTask(QueueId(1), Kind.GROUP, open_group=True)]))

    assert "only of commands and scripts" in console.err("edit", group + 1, "--", "x", exits=2)
