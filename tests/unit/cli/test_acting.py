"""`ganger hold`, `kick`, `cancel`, `kill`, `retry`, `rm` and `wait`."""

import pytest

from tests.unit.cli.console import Console


def _status(console: Console, task: int) -> object:
    return console.lines("show", task, "--json")[0]["status"]


def test_a_task_is_held_kicked_and_cancelled(console: Console) -> None:
    task = console.submit("--", "true")

    assert console.out("hold", task, "--reason", "not today") == str(task)
    assert "not today" in console.out("why", task)
    assert console.lines("kick", task, "--json") == [{"id": task, "done": True}]
    assert _status(console, task) == "queued"
    console.run("cancel", task)
    assert _status(console, task) == "cancelled"


def test_what_is_held_in_a_queue_is_kicked(console: Console) -> None:
    ids = [console.submit("--", "true") for _ in range(3)]
    console.run("hold", *ids)

    assert console.out("kick", "--queue", "default", "-n", 2).split() == ["1", "2"]
    assert "give ids" in console.err("kick", exits=2)
    assert "[queue_not_found]" in console.err("kick", "--queue", "none", exits=3)


def test_an_id_that_is_given_twice_is_meant_once(console: Console) -> None:
    task = console.submit("--", "true")

    assert console.out("hold", task, task) == str(task)


@pytest.mark.parametrize("act", ["hold", "kick", "cancel", "kill", "rm"])
def test_some_may_be_refused_and_the_others_are_done(console: Console, act: str) -> None:
    task = console.submit("--delay", "1h", "--", "true")

    result = console.run(act, task, 99, exits=4)

    assert result.stdout.split() == [str(task)]
    assert "task 99 is not there" in result.stderr
    assert [line["done"] for line in console.lines(act, 99, "--json", exits=3)] == [False]


def test_a_task_that_has_ended_stays_as_it_is(console: Console) -> None:
    task = console.submit("--", "true")
    console.work()

    for act in ("hold", "kick", "cancel", "kill"):
        assert "[wrong_status]" in console.err(act, task, exits=4)
    assert _status(console, task) == "succeeded"


def test_a_task_that_has_ended_is_tried_again_as_another(console: Console) -> None:
    task = console.submit("--", "false")
    assert "[wrong_status]" in console.err("retry", task, exits=4)
    console.work(code=2)

    made = int(console.out("retry", task))
    assert console.lines("show", made, "--json")[0]["retry_of"] == task


def test_removing_a_task_gives_its_children_its_parents(console: Console) -> None:
    first = console.submit("--", "true")
    second = console.submit("--after", first, "--", "true")
    third = console.submit("--after", second, "--", "true")

    console.run("rm", second)
    assert console.lines("show", third, "--json")[0]["parents"] == [{"task": first, "on": "success"}]
    console.run("rm", "--descendants", first)
    assert console.out("ls") == ""


def test_waiting_tells_how_tasks_ended_by_the_exit_code(console: Console) -> None:
    good, bad, never = (console.submit("--", "true") for _ in range(3))
    console.work()
    console.work(code=5)

    assert console.out("wait", good) == ""
    assert f"task {bad} ended failed(5)" in console.err("wait", good, bad, exits=1)
    assert "is still queued" in console.err("wait", never, "--timeout", "10ms", exits=124)
    assert console.lines("wait", good, "--json") == [{"id": good, "status": "succeeded", "code": 1}]


def test_waiting_for_a_held_task_ends_and_says_what_to_do(console: Console) -> None:
    good, held = console.submit("one"), console.submit("two")
    console.run("hold", held, "--reason", "look at it")
    console.work()

    said = console.err("wait", good, held, exits=4)
    assert f"task {held} is held" in said
    assert f"ganger kick {held}" in said
    assert "is held" in console.err("wait", held, "--through-hold", "--timeout", "10ms", exits=124)


def test_waiting_for_a_task_behind_a_held_one_ends_and_names_that_one(console: Console) -> None:
    held = console.submit("one")
    child = console.submit("--after", held, "two")
    console.run("hold", held)

    said = console.err("wait", child, exits=4)
    assert f"task {child} is still blocked" in said
    assert f"ganger kick {held}" in said


def test_a_group_is_killed_with_its_members(console: Console) -> None:
    (console.folder / "graph").write_text("a:\n true\nb: a\n true\n")
    (made,) = console.lines("graph", str(console.folder / "graph"), "--json")

    assert console.out("kill", made["group"]) == str(made["group"])
    assert {task["status"] for task in console.lines("ls", "--json")} == {"cancelled"}
