"""A graph as people write it: TOML, JSON, or a text in the manner of a Makefile, read into wishes by name.

TOML and JSON have a table `tasks` with a table for each task. In the text, a line `name: others` begins a task that
waits for the others, and the indented lines under it are its script; a `#` at the beginning of a line is a comment.
As in a Makefile, the first line that fails ends the script; unlike there, the lines are one script, and nothing in it
is replaced: `$` is the shell's.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import click
import msgspec

from ganger.cli.tasks import Wish
from ganger.cli.words import read_duration
from ganger.core.errors import BadInput

_RULE: Final = re.compile(r"(?P<name>[^\s:#]+)\s*:(?P<parents>[^=]*)")
_TIMES: Final = ("delay", "timeout")
_KNOWN: Final = ("toml", "json", "make")
Wishes = Mapping[str, Wish]


def choose_format(path: str) -> str:
    """By the end of its name; what is neither TOML nor JSON is read in the manner of a Makefile."""
    suffix = PurePath(path).suffix.removeprefix(".").lower()
    return suffix if suffix in _KNOWN else "make"


def read_graph(text: str, form: str) -> Wishes:
    """The tasks of a graph by name, in their order. BadInput says what is wrong, and where."""
    try:
        if form == "toml":
            return _from_tables(tomllib.loads(text))
        return _from_tables(json.loads(text)) if form == "json" else _from_rules(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BadInput(f"the graph is not valid {form.upper()}: {error}") from None


def _from_tables(document: Any) -> Wishes:
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), dict):
        raise BadInput("a graph has a table `tasks` with a table for each task")
    if others := sorted(set(document) - {"tasks"}):
        raise BadInput(f"a graph has only the table `tasks`, not {others[0]!r}")
    return {name: _from_table(name, table) for name, table in document["tasks"].items()}


def _from_table(name: str, table: Any) -> Wish:
    if not isinstance(table, dict):
        raise BadInput(f"task {name!r} is not a table")
    try:
        times = {key: read_duration(str(table[key])) for key in _TIMES if key in table}
        return msgspec.convert({"description": name, **table, **times}, Wish)
    except (click.BadParameter, msgspec.ValidationError) as error:
        raise BadInput(f"task {name!r}: {error}") from None


def _from_rules(text: str) -> Wishes:
    wishes: dict[str, Wish] = {}
    scripts: dict[str, list[str]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t":
            _need(name, number, "a script has a line `name:` above it")
            scripts[name].append(line.strip())
            continue
        name, wish = _rule(line, number)
        _need(name not in wishes, number, f"{name!r} is there twice")
        wishes[name], scripts[name] = wish, []
    return {
        name: msgspec.structs.replace(wish, shell="\n".join(["set -e", *scripts[name]])) if scripts[name] else wish
        for name, wish in wishes.items()
    }


def _rule(line: str, number: int) -> tuple[str, Wish]:
    match = _RULE.fullmatch(line)
    if match is None:
        raise BadInput(f"line {number}: {line.strip()!r:.80} is neither `name: others` nor indented")
    return match["name"], Wish(after=match["parents"].split(), description=match["name"])


def _need(sound: object, number: int, words: str) -> None:
    if not sound:
        raise BadInput(f"line {number}: {words}")
