"""`ganger progress` and `ganger add`: what a task says while it runs."""

import pytest

from ganger.core.ids import TaskId
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from tests.unit.cli.console import Console


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
    return held


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
