"""One word for one thing: a task is a task, and a node is what runs it, but for the addresses of `/v1`."""

import ast
import re
from collections.abc import Iterator

from click import Command, Context, Group

from ganger.cli.main import main
from tests.architecture.tree import PACKAGE, modules

NODE = re.compile(r"(?<![/`'\w-])nodes?(?![/`'\w-])", re.IGNORECASE)
WORKER = re.compile(r"(?<![/`'\w-])workers?(?![/`'\w-])", re.IGNORECASE)
FOR_NODES = frozenset({"workers.py", "remote.py", "remote_door.py", "engine_acts.py", "engine_reads.py", "reports.py"})
"""Files of `/v1` that speak of nodes, and of tasks as everybody does."""
SPEAKS_OF_NODES = re.compile(r"a node (has|asks|is)|how many nodes|nodes, which run|slots|on a node", re.IGNORECASE)
"""Sentences in which a node is what the glossary says."""
OF_WORKERS = frozenset({"worker", "workers"})
"""Commands for workers of jobs."""
MOTTO = "Ganger gives every piece of work to a worker, watches it, and never loses it."


def said_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of what is raised, of routes and of parameters: what somebody outside reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Dict) or (isinstance(node, ast.Call) and _name(node.func) == "Route"):
            yield from (
                (one.lineno, one.value)
                for one in ast.walk(node)
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and " " in one.value
            )


def _name(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else ""


def described(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of types, which are in the description of the API."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.lineno, ast.get_docstring(node) or ""


def commands(command: Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    yield path, command
    if isinstance(command, Group):
        context = Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


def test_what_v1_says_of_a_task_calls_it_a_task() -> None:
    wrong = [
        f"{file}:{line}: {text}"
        for room in ("faces/v1", "wire/v1")
        for file, tree in modules(PACKAGE / room)
        if file.rpartition("/")[2] not in FOR_NODES
        for line, text in (*said_in(tree), *(described(tree) if room == "wire/v1" else ()))
        if (NODE.search(text) and not SPEAKS_OF_NODES.search(text)) or (WORKER.search(text) and "jobs" not in text)
    ]

    assert wrong == []


def test_the_command_line_says_worker_of_workers_of_jobs_alone() -> None:
    wrong = [
        (" ".join(path), text)
        for path, command in commands(main)
        if not OF_WORKERS & set(path)
        for text in (command.help, command.short_help, *(getattr(one, "help", None) for one in command.params))
        if text and WORKER.search(text) and text.strip() != MOTTO
    ]

    assert wrong == []


def test_the_rule_finds_what_it_is_there_for() -> None:
    planted = ast.parse('def f():\n    raise BadInput(f"there is no node {id}")\n')

    assert [text for _, text in said_in(planted) if NODE.search(text)] == ["there is no node "]
