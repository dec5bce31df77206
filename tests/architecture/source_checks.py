"""What a linter cannot see in Python code: each check takes parsed code and gives the offences found in it."""

import ast
import sys
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from tests.architecture.tree import Offence

FORBIDDEN_NAMES: Final = frozenset(
    {"base", "bases", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_forbidden_names(file: str) -> list[Offence]:
    """A module or package whose name says nothing about what it holds."""
    parts = PurePath(file).with_suffix("").parts
    return [Offence(file, f"no module is called {part!r}") for part in parts if FORBIDDEN_NAMES & set(part.split("_"))]


def find_long_functions(file: str, tree: ast.Module, limit: int) -> list[Offence]:
    """Functions longer than the limit, their docstrings not counted."""
    return [
        Offence(f"{file}:{node.lineno}", f"{node.name} has {_length(node)} lines, at most {limit} are allowed")
        for node in ast.walk(tree)
        if isinstance(node, Function) and _length(node) > limit
    ]


def function_lengths(tree: ast.Module) -> list[int]:
    return [_length(node) for node in ast.walk(tree) if isinstance(node, Function)]


def _length(node: Function) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return lines - _docstring_lines(node)


def _docstring_lines(node: Function) -> int:
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1 if ast.get_docstring(node) else 0


def find_missing_docstring(file: str, tree: ast.Module) -> list[Offence]:
    return [] if ast.get_docstring(tree) else [Offence(file, "a module begins with a sentence that says what it is")]


def find_foreign_imports(file: str, tree: ast.Module, own: str) -> list[Offence]:
    """Imports of anything but the standard library and the package `own`."""
    return [
        Offence(f"{file}:{line}", f"imports {name}, which is not in the standard library")
        for line, name in _imports(tree)
        if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith(f"{own}.")
    ]


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def find_module_state(file: str, tree: ast.Module) -> list[Offence]:
    """Names of a module bound to something that can change. `Final` says that nobody changes it."""
    return [
        Offence(f"{file}:{node.lineno}", "a module keeps no state: bind it as Final, or make it a value")
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_mutable(node.value) and not _is_constant(node)
    ]


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in {"list", "dict", "set", "defaultdict", "deque", "bytearray"}
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _is_constant(node: ast.Assign | ast.AnnAssign) -> bool:
    if isinstance(node, ast.AnnAssign):
        return "Final" in ast.unparse(node.annotation)
    return all(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def find_unseeded_generators(file: str, tree: ast.Module) -> list[Offence]:
    """`random.Random()` without a seed draws randomness that nobody handed in."""
    return [
        Offence(f"{file}:{node.lineno}", "a generator of random numbers is given its seed")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"random.Random", "Random"}
        if not node.args and not node.keywords
    ]


def find_sleeps(file: str, tree: ast.Module) -> list[Offence]:
    """A test that sleeps to let something happen. One that looks again and again for what it waits for may pause."""
    looking = {id(call) for node in ast.walk(tree) if _looks_for_something(node) for call in ast.walk(node)}
    return [
        Offence(f"{file}:{node.lineno}", "a test waits for a signal or a condition, never for a while")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        if id(node) not in looking and [ast.unparse(argument) for argument in node.args] != ["0"]
    ]


def _looks_for_something(node: ast.AST) -> bool:
    return isinstance(node, ast.While) and not isinstance(node.test, ast.Constant)
