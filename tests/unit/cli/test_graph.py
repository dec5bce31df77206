"""`ganger graph`."""

import json

import pytest

from tests.unit.cli.console import Console

RULES = """
# how it is built
all: build test
build: fetch
\tmake
\techo $HOME
test: fetch:finished
  make test
fetch:
\tcurl x
"""
TABLES = """
[tasks.fetch]
command = ["curl", "x"]
timeout = "5m"
[tasks.build]
shell = "make"
after = ["fetch"]
retries = 2
"""


def test_rules_become_tasks_that_wait_for_each_other(console: Console) -> None:
    (console.folder / "build.mk").write_text(RULES)

    (made,) = console.lines("graph", "build.mk", "--json")

    tasks = made["tasks"]
    (build,) = console.lines("show", tasks["build"], "--json")
    (test,) = console.lines("show", tasks["test"], "--json")
    assert build["parents"] == [{"task": tasks["fetch"], "on": "success"}]
    assert test["parents"] == [{"task": tasks["fetch"], "on": "finished"}]
    assert build["group"] == made["group"]
    assert json.loads(build["spec"]) == {"cwd": str(console.folder), "script": "set -e\nmake\necho $HOME"}


def test_a_graph_is_waited_for_as_one_and_its_meeting_points_end_by_themselves(console: Console) -> None:
    (console.folder / "build.mk").write_text(RULES)
    (made,) = console.lines("graph", "build.mk", "--json")

    for _ in range(3):
        console.work()

    console.run("wait", made["group"], *made["tasks"].values(), "--timeout", "5s")


def test_whoever_waits_for_a_graph_is_told_how_many_of_its_tasks_went_well(console: Console) -> None:
    (console.folder / "gates.toml").write_text('[tasks.a]\n[tasks.b]\nafter = ["a"]\n[tasks.c]\nafter = ["b:failed"]\n')

    said = console.err("graph", "gates.toml", "--wait", exits=1)

    assert said.endswith("2 of 3 tasks succeeded"), said


def test_a_meeting_point_is_cancelled_when_what_it_waits_for_fails(console: Console) -> None:
    (console.folder / "build.mk").write_text(RULES)
    (made,) = console.lines("graph", "build.mk", "--json")

    console.work(code=2)
    console.work()

    assert console.lines("show", made["tasks"]["all"], "--json")[0]["status"] == "cancelled"
    console.run("wait", *made["tasks"].values(), "--timeout", "5s", exits=1)


def test_a_graph_is_drawn_as_text_with_ids(console: Console) -> None:
    drawn = console.run("graph", "-", types=RULES)

    assert drawn.stdout.splitlines() == [
        "5  fetch",
        "3    build  <- fetch",
        "4    test  <- fetch:finished",
        "2      all  <- build, test",
    ]
    assert "ganger wait 1" in drawn.stderr


def test_a_dry_run_draws_and_stores_nothing(console: Console) -> None:
    drawn = console.out("graph", "-", "--dry-run", "--dot", "--format", "toml", types=TABLES)

    assert '  "fetch" -> "build";' in drawn.splitlines()
    assert not console.database.exists()


@pytest.mark.parametrize("form", ["toml", "json"])
def test_tables_say_everything_about_a_task(console: Console, form: str) -> None:
    text = TABLES if form == "toml" else json.dumps({"tasks": {"fetch": {"command": ["curl", "x"], "timeout": "5m"}}})
    (console.folder / f"build.{form}").write_text(text)

    (made,) = console.lines("graph", f"build.{form}", "--json")

    (fetch,) = console.lines("show", made["tasks"]["fetch"], "--json")
    assert (fetch["kind"], fetch["timeout"], fetch["description"]) == ("command", 300_000, "fetch")


@pytest.mark.parametrize(
    ("form", "text", "code", "said"),
    [
        ("make", "a: b\n\tx\nb: a\n\ty\n", 2, "a -> b -> a [cycle_found]"),
        ("make", "\tx\n", 2, "line 1"),
        ("make", "a:\n\tx\na:\n\ty\n", 2, "line 3: 'a' is there twice"),
        ("make", "what is this", 2, "neither"),
        ("make", "a: gone\n\tx\n", 2, "[unknown_parent]"),
        ("make", "", 2, "no tasks"),
        ("toml", "tasks = 3", 2, "a table for each task"),
        ("toml", "x = [", 2, "not valid TOML"),
        ("toml", "[tasks.a]\ncomand = ['x']", 2, "`comand`"),
        ("toml", "[tasks.a]\nshell = 'x'\ndelay = 'soon'", 2, "not a duration"),
        ("toml", "[tasks.a]\nshell = 'x'\ncommand = ['y']", 2, "not several"),
        ("toml", "[tasks.a]\nshell = 'x'\nqueue = 'id:77'", 3, "77"),
        ("json", "{", 2, "not valid JSON"),
        ("json", '{"tasks": {}, "task": {}}', 2, "'task'"),
    ],
)
def test_a_graph_that_is_wrong_is_refused_whole(console: Console, form: str, text: str, code: int, said: str) -> None:
    console.submit("--", "true")

    assert said in console.err("graph", "-", "--format", form, types=text, exits=code)
    assert len(console.lines("ls", "--json")) == 1
