"""A graph as people write it: TOML, JSON, YAML, or a text in the manner of a Makefile, read into wishes by name.

TOML, JSON and YAML have a table `tasks` with a table for each task. In the text, a line `name: others` begins a task
that waits for the others, and the indented lines under it are its script; a `#` at the beginning of a line is a
comment. As in a Makefile, the first line that fails ends the script; unlike there, the lines are one script, and
nothing in it is replaced: `$` is the shell's. A line `if name: others` or `until name: others` begins a condition, and
the indented lines under it, `key = value`, are what it asks.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

import click
import msgspec

from ganger.cli.branches import Branches, join_branches
from ganger.cli.questions import read_question, refuse_unknown
from ganger.cli.tasks import Wish
from ganger.cli.words import read_duration
from ganger.core.errors import BadInput

_RULE: Final = re.compile(r"(?:(?P<ask>if|until)\s+)?(?P<name>[^\s:#]+)\s*:(?P<parents>[^=]*)")
_ANSWER: Final = re.compile(r"(?P<key>\w+)\s*=\s*(?P<value>.*)")
_TIMES: Final = ("delay", "timeout")
_QUESTIONS: Final = ("if", "until", "condition")
_BRANCHES: Final = ("then", "else")
_TASK_KEYS: Final = (*Wish.__struct_fields__, "if", "until")
_CONDITION_KEYS: Final = (
    *_QUESTIONS, *_BRANCHES,
    "after", "join", "queue", "priority", "delay", "key", "once", "description", "cwd", "requires",
)  # fmt: skip
_ENDINGS: Final = {"toml": "toml", "json": "json", "yaml": "yaml", "yml": "yaml"}
Wishes = Mapping[str, Wish]


def choose_format(path: str) -> str:
    """By the end of its name; what is none of the known ones is read in the manner of a Makefile."""
    return _ENDINGS.get(PurePath(path).suffix.removeprefix(".").lower(), "make")


def read_graph(text: str, form: str) -> Wishes:
    """The tasks of a graph by name, in their order. BadInput says what is wrong, and where."""
    try:
        return _from_rules(text) if form == "make" else _from_tables(_LOADERS[form](text))
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"the graph is not valid {form.upper()}: {error}") from None


_LOADERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "toml": tomllib.loads,
    "json": json.loads,
    "yaml": msgspec.yaml.decode,
}


def _from_tables(document: Any) -> Wishes:
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), dict):
        raise BadInput("a graph has a table `tasks` with a table for each task")
    if others := sorted(map(str, set(document) - {"tasks"})):
        raise BadInput(f"a graph has only the table `tasks`, not {others[0]!r}")
    tables = {str(name): table for name, table in document["tasks"].items()}
    wishes = {name: _from_table(name, table) for name, table in tables.items()}
    return join_branches(wishes, {name: _branches(name, table) for name, table in tables.items()})


def _from_table(name: str, table: Any) -> Wish:
    if not isinstance(table, dict):
        raise BadInput(f"task {name!r} is not a table")
    asks = [key for key in _QUESTIONS if key in table]
    try:
        refuse_unknown(table, _CONDITION_KEYS if asks else _TASK_KEYS, "a condition" if asks else "a task")
        plain = {key: value for key, value in table.items() if key not in ("if", "until", *_BRANCHES)}
        times = {key: read_duration(str(table[key])) for key in _TIMES if key in table}
        return msgspec.convert({"description": name, **plain, **times, **_question(table, asks)}, Wish)
    except (BadInput, click.BadParameter, msgspec.ValidationError) as error:
        raise BadInput(f"task {name!r}: {error}") from None


def _question(table: Mapping[str, Any], asks: list[str]) -> dict[str, Any]:
    if len(asks) > 1:
        raise BadInput(f"a condition has one question, not both {asks[0]} and {asks[1]}")
    if not asks or asks == ["condition"]:
        return {}
    words = table[asks[0]]
    if not isinstance(words, dict):
        raise BadInput(f"{asks[0]} is followed by a table, as in {asks[0]} = {{ file = '/data/ready' }}")
    folder = Path(str(table.get("cwd") or ".")).absolute()
    spec = read_question(words, wait=asks == ["until"], folder=str(folder))
    return {"condition": msgspec.to_builtins(spec)}


def _branches(name: str, table: Mapping[str, Any]) -> Branches:
    try:
        return Branches(*(_names(table.get(key, [])) for key in _BRANCHES))
    except msgspec.ValidationError:
        raise BadInput(f"task {name!r}: then and else are followed by names of tasks") from None


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else msgspec.convert(value, list[str])


def _from_rules(text: str) -> Wishes:
    rules: dict[str, tuple[re.Match[str], list[str]]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t":
            _need(name, number, "a script has a line `name:` above it")
            rules[name][1].append(line.strip())
            continue
        rule = _rule(line, number)
        name = rule["name"]
        _need(name not in rules, number, f"{name!r} is there twice")
        rules[name] = rule, []
    return _from_tables({"tasks": {name: _table(rule, lines) for name, (rule, lines) in rules.items()}})


def _rule(line: str, number: int) -> re.Match[str]:
    match = _RULE.fullmatch(line)
    if match is None:
        raise BadInput(f"line {number}: {line.strip()!r:.80} is neither `name: others` nor indented")
    return match


def _need(sound: object, number: int, words: str) -> None:
    if not sound:
        raise BadInput(f"line {number}: {words}")


def _table(rule: re.Match[str], lines: list[str]) -> dict[str, Any]:
    """The table that says the same as a rule of the text."""
    after = {"after": rule["parents"].split()}
    if rule["ask"] is None:
        return {**after, "shell": "\n".join(["set -e", *lines])} if lines else after
    said = dict(_answer(rule["name"], line) for line in lines)
    outside: dict[str, Any] = {key: said.pop(key).split() for key in (*_BRANCHES, "requires") if key in said}
    if "command" in said:
        said["command"] = _split(rule["name"], said["command"])
    return {**after, **outside, rule["ask"]: said}


def _answer(name: str, line: str) -> tuple[str, Any]:
    match = _ANSWER.fullmatch(line)
    if match is None:
        raise BadInput(f"task {name!r}: {line!r:.80} is not `key = value`, as in `file = /data/ready`")
    return match["key"], match["value"]


def _split(name: str, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise BadInput(f"task {name!r}: the command cannot be split into words: {error}") from None
