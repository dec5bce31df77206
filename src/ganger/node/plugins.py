"""Plugins: what a queue names to do its tasks. A class, or any program.

Whoever starts a node may say what a name is. A name, or what it is, is one of these, in this order:

- an absolute path: a program. It is started with two arguments, the path of a JSON file with the task and the path at
  which it leaves its answer;
- an import path `module:Class`;
- the name of an entry point in the group `ganger.plugins`, which says such an import path. It may have any characters,
  also the `::` of other languages;
- the name of a plugin that is shipped.

A class is made with the task and has a method `run` that returns a status, standard output and standard error. It runs
in a process of its own, `python -m ganger.node.plugins IMPORT-PATH TASK ANSWER`, which is a program like the others.

An answer is `{"status": 1, "stdout": "...", "stderr": "..."}`: 1 is success, a larger number a failure with that code.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import distributions, entry_points
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

GROUP: Final = "ganger.plugins"
SHIPPED: Final = MappingProxyType({"Disbatch::Plugin::Demo": "ganger.node.demo:Demo"})
NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class PluginTask(msgspec.Struct, frozen=True):
    """The task as a plugin is given it. `attempt` counts from 1; `params` are as they were submitted."""

    id: int
    queue: int
    attempt: int
    fence: int
    params: Any = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plugin says at its end. A stream that it does not name is what its process wrote there."""

    status: int
    stdout: str | None = None
    stderr: str | None = None


class Plugin(NamedTuple):
    """A plugin that is here, and the words that start it."""

    name: str
    words: tuple[str, ...]


def find_plugin(name: str, paths: Sequence[str] = (), named: Mapping[str, str] = NO_NAMES) -> Plugin | None:
    """The plugin of this name, if it is here: in these folders, or where Python looks. Nothing of it is executed.

    `named` says what some names are.
    """
    place = named.get(name, name)
    if place.startswith("/"):
        return Plugin(name, (place,)) if os.path.isfile(place) and os.access(place, os.X_OK) else None
    is_path = place.count(":") == 1
    path = place if is_path else _read_entry(place, paths) or SHIPPED.get(place)
    if path is None or not _is_importable(path.partition(":")[0].strip(), [*paths, *sys.path]):
        return None
    return Plugin(name, (sys.executable, "-m", "ganger.node.plugins", path))


def _read_entry(name: str, paths: Sequence[str]) -> str | None:
    here = (entry for package in distributions(path=list(paths)) for entry in package.entry_points)
    wanted = (entry for entry in here if (entry.group, entry.name) == (GROUP, name))
    found = next(chain(wanted, entry_points(group=GROUP, name=name)), None)
    return None if found is None else f"{found.module}:{found.attr}"


def _is_importable(module: str, places: Sequence[str]) -> bool:
    """Is there such a module? Its packages are looked through without being imported."""
    done = ""
    for part in module.split("."):
        done = f"{done}.{part}" if done else part
        found = PathFinder.find_spec(done, places)
        if found is None:
            return False
        places = found.submodule_search_locations or []
    return True


def main(words: Sequence[str]) -> int:
    """Run a class on the task of a file, and leave its answer."""
    path, task, answer = words
    module, _, name = path.partition(":")
    maker = getattr(import_module(module.strip()), name.strip())
    given = msgspec.json.decode(Path(task).read_bytes(), type=PluginTask)
    status, stdout, stderr = maker(given).run()
    leave(Path(answer), Answer(int(status), _text(stdout), _text(stderr)))
    return 0


def _text(said: object) -> str | None:
    if said is None or isinstance(said, str):
        return said
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def leave(path: Path, answer: Answer) -> None:
    """An answer is there whole or not at all."""
    draft = path.with_name(f"{path.name}~")
    draft.write_bytes(msgspec.json.encode(answer))
    draft.rename(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
