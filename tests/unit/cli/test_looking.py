"""`ganger ls`, `show`, `why`, `logs`, `stats`, `nodes` and `events`."""

import re
from datetime import date

import pytest

from ganger import Ganger
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from tests.unit.cli.console import Console

READERS = (
    ("ls",), ("show", "1"), ("why", "1"), ("logs", "1"), ("stats",), ("nodes",), ("events",), ("wait", "1"),
    ("queue", "ls"), ("export",), ("doctor",), ("audit", "verify"), ("backup", "copy.db"), ("kill", "1"),
)  # fmt: skip


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_a_command_that_only_reads_makes_no_store(console: Console, words: tuple[str, ...]) -> None:
    said = console.err(*words, exits=3)

    assert f"no store at {console.database}" in said
    assert not list(console.folder.iterdir())


@pytest.mark.parametrize("words", [("show", "9"), ("why", "9"), ("logs", "9"), ("wait", "9"), ("retry", "9")])
def test_a_task_that_is_not_there_is_told(console: Console, words: tuple[str, ...]) -> None:
    console.submit("--", "true")

    assert "there is no task 9 [task_not_found]" in console.err(*words, exits=3)
    if words[0] in ("show", "why"):
        assert "no task has the id or the key 'nine' [task_not_found]" in console.err(words[0], "nine", exits=3)
    else:
        assert "not the id of a task" in console.err(words[0], "nine", exits=2)


def test_a_task_is_shown_and_explained_by_its_key_too(console: Console) -> None:
    task = console.submit("--key", "nightly", "--", "true")

    for command in ("show", "why"):
        assert console.out(command, "nightly") == console.out(command, task)


def test_tasks_are_listed_newest_first_in_pages(console: Console) -> None:
    for name in ("a", "b", "c"):
        console.submit("--description", name, "--", "true")

    page = console.run("ls", "-n", 2)
    assert [line.split()[-1] for line in page.stdout.splitlines()] == ["TASK", "c", "b"]
    assert "--from 2" in page.stderr
    assert console.out("ls", "--from", 2).splitlines()[1].endswith("a")
    assert [task["description"] for task in console.lines("ls", "--oldest-first", "--json")] == ["a", "b", "c"]


def _greet(name: str, *, times: int = 1, until: date | None = None) -> None: ...


def _step(given: int) -> int:
    return given


def test_a_list_says_how_long_a_task_ran_and_with_which_arguments(console: Console) -> None:
    app = Ganger(console.url)
    app.task(_greet).delay("Ann", times=3, until=date(2027, 1, 31))
    app.command(["echo", "two words"])
    app.close()
    console.work(most=2)

    heading, *rows = console.out("ls").splitlines()
    assert heading.split() == ["ID", "STATUS", "QUEUE", "AGE", "TOOK", "TASK"]
    assert rows[0].endswith("echo 'two words'")
    assert rows[1].endswith("('Ann', times=3, until='2027-01-31')")
    assert all(re.fullmatch(r"<?\d+m?s", row.split()[4]) for row in rows), rows


def test_inner_tasks_are_listed_only_for_those_who_ask(console: Console) -> None:
    app = Ganger(console.url)
    step = app.task(_step)
    with app.graph() as graph:
        first = graph.task(step, 1)
        graph.task(step, first.result)
    app.close()
    console.run("schedule", "add", "nightly", "--cron", "@daily", "--", "true")

    assert len(console.lines("ls", "--json")) == 2
    assert "gate" not in console.out("ls")
    assert {"the gate of a graph", "nightly"} <= {
        task["description"] for task in console.lines("ls", "--all", "--json")
    }
    assert "gate" in console.out("ls", "--kind", "group")


def test_tasks_are_listed_by_status_with_every_code_of_a_failure(console: Console) -> None:
    failed, waiting = console.submit("--", "false"), console.submit("--delay", "1h", "--", "true")
    console.work(code=77)

    assert [task["id"] for task in console.lines("ls", "--status", "failed", "--json")] == [failed]
    assert [task["id"] for task in console.lines("ls", "--status", "open", "--json")] == [waiting]
    assert [task["id"] for task in console.lines("ls", "--status", "ended", "--json")] == [failed]
    assert "failed(77)" in console.out("ls")
    assert "Invalid value" in console.err("ls", "--status", "tired", exits=2)


def test_tasks_are_listed_by_queue_key_and_parent(console: Console) -> None:
    console.run("queue", "create", "other")
    first = console.submit("--", "true")
    second = console.submit("--queue", "other", "--key", "k", "--after", first, "--", "true")

    for words in (("--queue", "other"), ("--queue", "id:1"), ("--key", "k"), ("--parent", first)):
        assert [task["id"] for task in console.lines("ls", *words, "--json")] == [second]
    assert "[queue_not_found]" in console.err("ls", "--queue", "none", exits=3)


def test_no_stored_text_breaks_a_line_of_a_table(console: Console) -> None:
    console.submit("--description", "one\ntwo\x1b[31mred", "--", "true")

    assert len(console.out("ls").splitlines()) == 2
    assert "\x1b" not in console.out("ls") + console.out("show", 1)


def test_a_task_is_shown_with_its_family_and_attempts(console: Console) -> None:
    first = console.submit("--", "false")
    console.submit("--after", first, "--", "true")
    console.work(code=3, output=b"oops\n")

    shown = console.out("show", first)
    assert "failed(3)" in shown
    assert "mixedout" in shown
    assert "worker" in shown.splitlines()[-1]
    (task,) = console.lines("show", first, "--json")
    assert (task["code"], task["children"], len(task["history"])) == (3, [{"task": 2, "on": "success"}], 1)


def test_a_task_that_runs_is_shown_with_its_node(console: Console) -> None:
    task = console.submit("--", "true")
    assert "runs on" not in console.out("show", task)

    async def take(engine: Engine) -> Lease:
        node = await engine.nodes.register(Registration("worker", "token"))
        queues = tuple(queue.id for queue in await engine.queues.all())
        (claimed,) = await engine.claim(Claim(node.id, queues, most=1))
        return claimed.lease

    lease = console.act(take)
    assert "runs on" not in (shown := console.out("show", task))
    assert "claimed by   worker" in shown
    console.act(lambda engine: engine.start([lease]))

    assert "runs on      worker" in console.out("show", task)
    assert console.lines("show", task, "--json")[0]["node"] == "worker"


def test_why_says_what_keeps_a_task(console: Console) -> None:
    first = console.submit("--", "true")
    second = console.submit("--after", first, "--", "true")
    later = console.submit("--delay", "1h", "--", "true")

    assert "[no_node]" in console.out("why", first)
    assert "[parents_open]" in console.out("why", second)
    assert console.lines("why", second, "--json")[0]["reasons"][0]["fields"]["parents"] == [first]
    due = console.lines("show", later, "--json")[0]["due"]
    assert str(due) not in console.out("why", later)


def test_the_output_of_a_task_comes_byte_by_byte(console: Console) -> None:
    task, silent = console.submit("--", "true"), console.submit("--", "true")
    body = b"\xff\x00" + b"line\n" * 40_000
    console.work(output=body)

    assert console.run("logs", task).stdout_bytes == body
    assert console.run("logs", "-f", task).stdout_bytes == body
    assert console.run("logs", "--stream", "stderr", task).stdout_bytes == b""
    assert "nothing" in console.err("logs", silent)


def test_stats_count_by_queue(console: Console) -> None:
    console.submit("--", "true")
    console.submit("--", "true")
    console.work()

    assert console.out("stats").splitlines()[1].split() == ["default", "1", "0", "0", "0", "1", "0", "0", "2"]
    (counted,) = console.lines("stats", "--json")
    assert counted["statuses"] == {"queued": 1, "succeeded": 1}
    assert (counted["todo"], counted["facts"]["submitted"]) == (1, 2)


def test_nodes_are_listed(console: Console) -> None:
    console.submit("--", "true")
    assert "no node is here" in console.err("nodes")

    console.act(lambda engine: engine.nodes.register(Registration("anvil", "t", slots=4, labels=("gpu",))))
    assert console.out("nodes").splitlines()[1].split()[:2] == ["anvil", "active"]
    assert console.out("nodes").splitlines()[1].split()[4:] == ["4", "0", "0", "-", "-", "all", "gpu"]
    assert console.lines("nodes", "--json")[0]["labels"] == ["gpu"]


def test_events_are_told_from_a_position_on_and_for_one_task(console: Console) -> None:
    first, second = console.submit("--", "true"), console.submit("--", "true")
    console.run("hold", first)

    told = console.lines("events", "--json")
    assert [event["fact"] for event in told] == ["queue_changed", "submitted", "submitted", "held"]
    assert [event["fact"] for event in console.lines("events", "--after", told[2]["position"], "--json")] == ["held"]
    assert [event["fact"] for event in console.lines("events", "-n", 1, "--task", second, "--json")] == ["submitted"]
    assert "held" in console.out("events", "--fact", "held")
    assert "Invalid value" in console.err("events", "--fact", "rumour", exits=2)


def test_a_function_is_listed_by_its_name(console: Console) -> None:
    async def body(engine: Engine) -> list[int]:
        queue = await engine.queues.ensure("default", by="tester")
        specs = (b'{"path":"shop.mail:send","args":[1]}', b"no json")
        return [int(task) for task in (await engine.submit([NewTask(queue.id, "function", one) for one in specs])).ids]

    console.act(body)

    assert [line.split()[-1] for line in console.out("ls").splitlines()[1:]] == ["(function)", "shop.mail:send(1)"]
