"""Conditions as people write them: in every form of a file, with `ganger if` and with `ganger until`."""

import json
from typing import Any

import pytest

from tests.unit.cli.console import Console

RULES = """
build:
\tmake
until ready:
\tfile = data/ready
\tevery = 5s
\tdeadline = 1h
if good: build:finished ready
\texpression = build.result == 0 and parent["ready"].status == 1
\tthen = publish
publish:
\t./publish
mend: good:else
\t./mend
done: publish:finished mend:finished
"""
TABLES = """
[tasks.build]
shell = "set -e\\nmake"
[tasks.ready]
until = { file = "data/ready", every = "5s", deadline = "1h" }
[tasks.good]
if.expression = 'build.result == 0 and parent["ready"].status == 1'
after = ["build:finished", "ready"]
then = "publish"
else = ["mend"]
[tasks.publish]
shell = "set -e\\n./publish"
[tasks.mend]
shell = "set -e\\n./mend"
[tasks.done]
after = ["publish:finished", "mend:finished"]
"""
YAML = """
tasks:
  build: {shell: "set -e\\nmake"}
  ready:
    until: {file: data/ready, every: 5s, deadline: 1h}
  good:
    if: {expression: 'build.result == 0 and parent["ready"].status == 1'}
    after: ["build:finished", ready]
    then: publish
    else: mend
  publish: {shell: "set -e\\n./publish"}
  mend: {shell: "set -e\\n./mend"}
  done:
    after: ["publish:finished", "mend:finished"]
"""


def read(console: Console, form: str, text: str) -> dict[str, Any]:
    """What is stored of each task: its spec, and whom it waits for by name."""
    (console.folder / "graph").write_text(text)
    (made,) = console.lines("graph", "graph", "--format", form, "--json")
    names = {number: name for name, number in made["tasks"].items()}
    shown = {name: console.lines("show", number, "--json")[0] for name, number in made["tasks"].items()}
    return {
        name: (task["spec"], [f"{names[edge['task']]}:{edge['on']}" for edge in task["parents"]])
        for name, task in shown.items()
    }


def spec_of(console: Console, number: object) -> Any:
    return json.loads(console.lines("show", number, "--json")[0]["spec"])


def test_every_form_of_a_file_says_the_same(console: Console) -> None:
    rules = read(console, "make", RULES)

    assert read(console, "toml", TABLES) == rules
    assert read(console, "yaml", YAML) == rules
    assert json.loads(rules["ready"][0]) == {
        "probe": {"if": "file", "path": str(console.folder / "data/ready"), "gone": False},
        "every": 5_000,
        "deadline": 3_600_000,
    }
    assert json.loads(rules["good"][0]) == {
        "probe": {"if": "expression", "text": "parent[-1].result == 0 and parent[-2].status == 1"},
        "wait": False,
    }
    assert rules["publish"][1] == ["good:then"]
    assert rules["mend"][1] == ["good:else"]


@pytest.mark.parametrize(
    ("line", "probe"),
    [
        ("gone = /x", {"if": "file", "path": "/x", "gone": True}),
        ("port = [::1]:80", {"if": "port", "host": "::1", "port": 80}),
        ("url = http://a/\n status = 404", {"if": "url", "url": "http://a/", "status": 404}),
        ("at = 2027-01-31T08:00Z", {"if": "time", "at": 1_801_382_400_000}),
        ("delay = 2m", {"if": "delay", "ms": 120_000}),
        ("shell = a | b\n timeout = 5s", {"if": "command", "argv": ["bash", "-c", "a | b"], "timeout": 5_000}),
        ("command = test -e 'a b'", {"if": "command", "argv": ["test", "-e", "a b"], "timeout": 30_000}),
    ],
)
def test_every_question_can_be_asked(console: Console, line: str, probe: dict[str, Any]) -> None:
    asked = json.loads(read(console, "make", f"until x:\n {line}\n requires = lab\n")["x"][0])["probe"]

    assert asked == probe | ({"cwd": str(console.folder)} if probe["if"] == "command" else {})


def test_a_wait_with_another_way_goes_it_at_its_deadline(console: Console) -> None:
    text = "until x:\n port = a:1\n deadline = 5s\ny: x:else\n true\n"

    assert json.loads(read(console, "make", text)["x"][0])["otherwise"]


def test_conditions_are_drawn_with_their_questions(console: Console) -> None:
    drawn = console.out("graph", "-", "--dry-run", types=RULES).splitlines()
    dot = console.out("graph", "-", "--dry-run", "--dot", types=RULES).splitlines()

    assert f"ready  (until file {console.folder}/data/ready)" in drawn
    assert "    mend  <- good:else" in drawn
    assert '  "good" -> "publish" [label="then"];' in dot
    assert f'  "ready" [shape=diamond, label="ready\\nuntil file {console.folder}/data/ready"];' in dot


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tasks.a]\nuntil = { fil = 'x' }", "one of file, gone, port, url, command, shell, expression, at, delay"),
        ("[tasks.a]\nuntil = { file = 'x', port = 'y:1' }", "about file and port"),
        ("[tasks.a]\nuntil = {}", "about nothing"),
        ("[tasks.a]\nuntil = 'x'", "followed by a table"),
        ("[tasks.a]\nif = { file = 'x', every = '1s' }", "`every`; known are file"),
        ("[tasks.a]\nuntil = { file = 'x', timeout = '1s' }", "`timeout`; known are file, every, deadline"),
        ("[tasks.a]\nif = { file = 'x' }\nretries = 1", "`retries`; known are if, until"),
        ("[tasks.a]\nshell = 'x'\nthen = ['b']", "`then`; known are command"),
        ("[tasks.a]\nif = { file = 'x' }\nuntil = { file = 'x' }", "not both if and until"),
        ("[tasks.a]\nif = { file = 'x' }\nthen = ['b']", "then names 'b'; known are a"),
        ("[tasks.a]\nif = { file = 'x' }\nthen = 3", "names of tasks"),
        ("[tasks.a]\nuntil = { file = 'x' }\n[tasks.b]\nafter = ['a:else']", "give it a deadline"),
        ("[tasks.a]\nshell = 'x'\n[tasks.b]\nafter = ['a:then']", "neither an if nor an until"),
        ("[tasks.a]\nif = { expression = 'c.result == 0' }\nafter = ['1']", "not one of its parents"),
        ("[tasks.a]\nif = { expression = 'open(1)' }", "expression"),
        ("[tasks.a]\nuntil = { port = 'nowhere' }", "HOST:PORT"),
        ("[tasks.a]\nuntil = { at = 'soon' }", "not a time"),
        ("[tasks.a]\nuntil = { delay = 'soon' }", "not a duration"),
        ("[tasks.a]\nuntil = { delay = [1] }", "not a duration"),
        ("[tasks.a]\nuntil = { file = 3 }", "Expected `str`"),
        ("[tasks.a]\ncondition = { probe = { if = 'file', path = '/x', pth = 1 } }", "`pth`"),
        ("[tasks.a]\nonce = true\n[tasks.b]\n[tasks.c]\nafter = ['a', 'b']\nif.expression = 'a.status'", "alone"),
    ],
)
def test_a_condition_that_is_wrong_is_refused_with_what_is_known(console: Console, text: str, said: str) -> None:
    assert said in console.err("graph", "-", "--format", "toml", types=text, exits=2)
    assert not console.database.exists()


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        ("make", "until x:\n what is this\n", "`key = value`"),
        ("make", "if x:\n command = 'a\n", "split into words"),
        ("make", "if x:\n file = a\n file2 = b\n", "`file2`"),
        ("yaml", "tasks: [", "not valid YAML"),
        ("yaml", "tasks:\n  a: &a {function: {path: 'x:y', args: [*a]}}", "holds itself"),
    ],
)
def test_a_file_that_is_wrong_is_refused(console: Console, form: str, text: str, said: str) -> None:
    assert said in console.err("graph", "-", "--format", form, types=text, exits=2)


def test_until_stores_a_condition_that_others_can_follow(console: Console) -> None:
    number = console.out("until", "--file", "ready", "--label", "lab")
    child = console.submit("--after", f"{number}:then", "--", "true")

    assert spec_of(console, number)["probe"]["path"] == str(console.folder / "ready")
    assert console.lines("show", child, "--json")[0]["parents"] == [{"task": int(number), "on": "then"}]
    assert console.lines("show", number, "--json")[0]["requires"] == ["lab"]


def test_if_stores_both_ways_as_one_group(console: Console) -> None:
    words = ["--shell", "test -e x", "--timeout", "2s", "--then", "echo yes", "--else", "echo no", "--json"]
    (made,) = console.lines("if", *words)

    tasks = made["tasks"]
    assert spec_of(console, tasks["condition"])["wait"] is False
    assert spec_of(console, tasks["else"])["script"] == "echo no"
    assert console.lines("show", tasks["then"], "--json")[0]["group"] == made["group"]
    console.run("cancel", made["group"])
    assert {task["status"] for task in console.lines("ls", "--json")} == {"cancelled"}


def test_if_asks_about_tasks_that_are_there(console: Console) -> None:
    parent = console.submit("--", "true")

    drawn = console.out("if", "--after", f"{parent}:finished", "--expression", "parent.result == 0", "--", "a")

    assert drawn.splitlines() == [
        f"3  condition  (if parent.result == 0)  <- {parent}:finished",
        "4    then  <- condition:then",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "about nothing"),
        (["--file", "a", "--then", "b", "c"], "either a command"),
        (["--file", "a", "--timeout", "3s"], "`timeout`"),
        (["--file", "a", "--every", "often"], "not a duration"),
    ],
)
def test_until_refuses_what_is_no_question(console: Console, words: list[str], said: str) -> None:
    assert said in console.err("until", *words, exits=2)


def test_a_wait_for_a_graph_names_the_member_that_failed(console: Console) -> None:
    (console.folder / "graph").write_text("a:\n false\nb: a\n true\n")
    (made,) = console.lines("graph", "graph", "--json")
    console.work(code=3)

    told = console.err("wait", made["group"], "--timeout", "5s", exits=1)

    assert f"task {made['tasks']['a']} ended failed(3) (in group {made['group']})" in told.splitlines()


def test_a_wait_for_a_graph_ends_when_only_held_members_are_left(console: Console) -> None:
    (console.folder / "graph").write_text("a:\n false\nb: a\n true\nc: b\n")
    (made,) = console.lines("graph", "graph", "--json")
    console.run("hold", made["tasks"]["a"])

    told = console.err("wait", made["group"], "--timeout", "20s", exits=4)

    assert f"ganger kick {made['tasks']['a']}" in told
    console.run("kick", made["tasks"]["a"])
    console.run("wait", made["group"], "--timeout", "300ms", exits=124)


def test_a_graph_may_be_waited_for_where_it_is_stored(console: Console) -> None:
    told = console.err("graph", "-", "--wait", types="a: b\nb:\n", exits=0)

    assert "ganger wait 1" in told
