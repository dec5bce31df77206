"""`ganger submit`."""

import json

import pytest

from tests.unit.cli.console import Console


def test_a_command_becomes_a_task_that_runs_where_it_was_submitted(console: Console) -> None:
    task = console.submit("--", "echo", "-n", "hello world")

    (shown,) = console.lines("show", task, "--json")
    assert json.loads(shown["spec"]) == {"cwd": str(console.folder), "argv": ["echo", "-n", "hello world"]}
    assert (shown["status"], shown["queue"], shown["kind"]) == ("queued", "default", "command")
    assert shown["description"] == "echo -n 'hello world'"


def test_the_options_of_a_task_are_kept(console: Console) -> None:
    console.run("queue", "create", "video")
    first = console.submit("--", "true")

    task = console.submit(
        "--queue", "video", "--priority", 7, "--key", "k", "--after", f"{first}:finished", "--description", "all of it",
        "--timeout", "2m", "--retries", 2, "--env", "A=b=c", "--label", "gpu", "--shell", "make; make install",
    )  # fmt: skip

    (shown,) = console.lines("show", task, "--json")
    assert (shown["queue"], shown["priority"], shown["key"], shown["timeout"]) == ("video", 7, "k", 120_000)
    assert (shown["description"], shown["requires"], shown["kind"]) == ("all of it", ["gpu"], "shell")
    assert shown["parents"] == [{"task": first, "on": "finished"}]
    assert json.loads(shown["retry"])[0] == 3
    assert json.loads(shown["spec"])["env"] == {"A": "b=c"}


def test_a_queue_that_is_not_there_is_made(console: Console) -> None:
    assert "the queue mail is new" in console.err("submit", "--queue", "mail", "--", "true")
    console.submit("--queue", "mail", "--", "true")

    assert [line["name"] for line in console.lines("queue", "ls", "--json")] == ["mail"]


def test_what_a_command_reads_and_the_variables_of_here_go_along(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    (console.folder / "words.txt").write_text("one\ntwo\n")
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("VIRTUAL_ENV", "/opt/venv")

    task = console.submit("--stdin", console.folder / "words.txt", "--env", "COLOUR", "--", "sort")

    (shown,) = console.lines("show", task, "--json")
    spec = json.loads(shown["spec"])
    assert spec["stdin"] == "one\ntwo\n"
    assert spec["env"] == {"VIRTUAL_ENV": "/opt/venv", "COLOUR": "red"}


def test_nought_is_a_word_too(console: Console) -> None:
    console.run("queue", "create", "stubborn", "--retries", 5)
    task = console.submit("--queue", "stubborn", "--retries", 0, "--priority", 0, "--", "true")

    (shown,) = console.lines("show", task, "--json")
    assert (json.loads(shown["retry"])[0], shown["priority"]) == (1, 0)


def test_a_delay_makes_a_task_due_later(console: Console) -> None:
    task = console.submit("--delay", "1.5h", "--", "true")

    (shown,) = console.lines("show", task, "--json")
    assert shown["status"] == "delayed"
    assert 5_399_000 < shown["due"] - shown["created"] <= 5_400_000


def test_a_key_that_is_taken_is_refused_or_given_back(console: Console) -> None:
    task = console.submit("--key", "nightly", "--", "true")

    assert "[duplicate_key]" in console.err("submit", "--key", "nightly", "--", "true", exits=4)
    assert console.submit("--key", "nightly", "--once", "--", "true") == task
    assert console.lines("submit", "--key", "nightly", "--once", "--json", "--", "true") == [
        {"id": task, "existed": True}
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "either a command"),
        (("--shell", "x", "--", "y"), 2, "either a command"),
        (("--once", "--", "x"), 2, "--key"),
        (("--delay", "soon", "--", "x"), 2, "not a duration"),
        (("--env", "NO_SUCH", "--", "x"), 2, "NO_SUCH=VALUE"),
        (("--env", "=", "--", "x"), 2, "neither NAME=VALUE nor NAME"),
        (("--stdin", "gone.txt", "--", "x"), 2, "No such file"),
        (("--typo", "--", "x"), 2, "No such option"),
        (("--", "a\udcff"), 2, "kept as UTF-8"),
        (("--shell", "a\udcff"), 2, "kept as UTF-8"),
        (("--env", "A=\udcff", "--", "x"), 2, "kept as UTF-8"),
        (("--queue", "id:77", "--", "x"), 3, "77"),
        (("--key", "", "--", "x"), 2, "the key name has 0 characters"),
        (("--timeout", "0", "--", "x"), 2, "timeout is 0"),
        (("--after", "77", "--", "x"), 2, "[unknown_parent]"),
        (("--after", "first", "--", "x"), 2, "[unknown_parent]"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_do(
    console: Console, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in console.err("submit", *words, exits=code)
