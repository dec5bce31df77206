"""Only core/state.py moves a status; a store may write one that was handed to it, and nothing else may.

A status is written by assignment, by `replace` and its kin, by `setattr`, or in SQL. A store applies moves: what it
writes comes out of a move (`move.target`) or is a parameter of its statement. A statement may spell the target of the
rule that it is named after, and is held to the table. Any other status that is named in the place where it is written
is a decision, and decisions are made in the table.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from ganger.core.state import RULES
from tests.architecture.tree import Offence

_WHAT: Final = "a status is moved by core/state.py alone: make a move and apply it"
_REPLACERS: Final = frozenset({"replace", "_replace", "copy_with", "force_setattr"})
_SET_STATUS: Final = re.compile(
    r"\bSET\b(?:(?!\bWHERE\b).)*?\bstatus\s*=\s*(?P<value>[^\s,;)]+)", re.IGNORECASE | re.DOTALL
)


def find_status_writes(file: str, tree: ast.Module, applies_moves: bool = False) -> list[Offence]:
    """Places that write a status. In a store (`applies_moves`) the target of a move may be written."""
    return [
        Offence(f"{file}:{line}", _WHAT)
        for line, value in _writes(tree)
        if not (applies_moves and _is_handed_in(value))
    ]


def _is_handed_in(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == "target"


def _writes(tree: ast.Module) -> Iterator[tuple[int, ast.expr | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((node.lineno, node.value) for target in node.targets if _names_status(target))
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and _names_status(node.target):
            yield node.lineno, node.value
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, value) for value in _written_by_call(node))


def _names_status(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return any(map(_names_status, target.elts))
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and target.slice.value == "status"
    return isinstance(target, ast.Attribute) and target.attr == "status"


def _written_by_call(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _REPLACERS:
        yield from (word.value for word in call.keywords if word.arg == "status")
    if name in {"setattr", "__setattr__"} and _names_status_in(call.args):
        yield call.args[-1]


def _names_status_in(arguments: list[ast.expr]) -> bool:
    return any(isinstance(argument, ast.Constant) and argument.value == "status" for argument in arguments)


def find_status_in_sql(file: str, text: str) -> list[Offence]:
    """Statements that set a status to a number, unless it is the target of the rule that they are named after."""
    return [
        Offence(file, f"{_WHAT} (sets it to {found['value']})")
        for found in _SET_STATUS.finditer(text)
        if re.fullmatch(r"[-+]?\d+", found["value"])
        if int(found["value"]) not in _targets(PurePath(file).stem)
    ]


def _targets(name: str) -> set[int]:
    return {int(rule.target) for rule in RULES.values() if f"_{rule.name}_" in f"_{name}_"}


def find_sql_in_python(file: str, tree: ast.Module) -> list[Offence]:
    """SQL that writes rows belongs into a .sql file, where it has a name, a plan and these checks."""
    return [
        Offence(f"{file}:{node.lineno}", "a statement that writes rows lives in a .sql file")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.match(r"\s*(INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b", node.value, re.IGNORECASE)
    ]
