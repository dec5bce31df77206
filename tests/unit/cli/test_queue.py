"""`ganger queue`."""

import pytest

from tests.unit.cli.console import Console


def test_a_queue_is_made_changed_and_listed(console: Console) -> None:
    console.run("queue", "create", "video", "--max-active", 4, "--retries", 2, "--pin", "a,b", "--sort", "lifo")
    console.run("queue", "change", "video", "--max-active", "none", "--batch-size", 10, "--rename", "films")

    (queue,) = console.lines("queue", "ls", "--json")
    assert (queue["name"], queue["max_active"], queue["batch_size"]) == ("films", None, 10)
    assert (queue["pin"], queue["sort"]) == (["a", "b"], "lifo")
    listed = console.out("queue", "ls").splitlines()[1]
    assert "films" in listed
    assert "retry=3 attempts" in listed


def test_results_become_tasks_of_a_named_queue(console: Console) -> None:
    console.run("queue", "create", "out")
    console.run("queue", "create", "in", "--becomes", "out")

    assert [queue["becomes"] for queue in console.lines("queue", "ls", "--json")] == [None, 1]


def test_a_queue_is_paused_and_resumed(console: Console) -> None:
    task = console.submit("--", "true")

    assert "until" in console.err("queue", "pause", "default", "--for", "1h")
    assert "[queue_paused]" in console.out("why", task)
    assert "paused" in console.out("queue", "ls")
    console.run("queue", "resume", "id:1")
    assert "[queue_paused]" not in console.out("why", task)


def test_a_queue_with_open_tasks_is_removed_only_if_they_are_dropped(console: Console) -> None:
    console.submit("--", "true")

    assert "[queue_in_use]" in console.err("queue", "rm", "default", exits=4)
    console.run("queue", "rm", "default", "--drop")
    assert "no queues" in console.err("queue", "ls")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "default"), 4, "called 'default' already"),
        (("create", " x"), 2, "[bad_name]"),
        (("create", "x", "--max-active", "many"), 2, "neither a number nor none"),
        (("create", "x", "--becomes", "none-such"), 3, "[queue_not_found]"),
        (("change", "default"), 2, "say what to change"),
        (("change", "none", "--sort", "fifo"), 3, "[queue_not_found]"),
        (("pause", "none"), 3, "[queue_not_found]"),
        (("resume", "id:9"), 3, "[queue_not_found]"),
        (("rm", "none"), 3, "[queue_not_found]"),
    ],
)
def test_what_is_wrong_is_refused(console: Console, words: tuple[str, ...], code: int, said: str) -> None:
    console.submit("--", "true")

    assert said in console.err("queue", *words, exits=code)
