"""Writes docs/reference/engine.md out of the docstrings of the engine: `python -m scripts.draw_engine`."""

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Final

from ganger.engine import contents, engine, explain, nodes, queues

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "engine.md"

_HEAD: Final = """# The engine's operations

This page is drawn from the engine's docstrings by `make docs`; a test holds it to them. Whatever can be done to tasks
is one of these operations; every door calls them. "Uses" names the operations of the
[store contract](../decisions/0002-the-store-contract.md) that one is made of. Times are milliseconds, except for
timeouts of waiting, which are seconds. Errors are in [their own reference](errors.md).
"""

_PARTS: Final = (
    ("Tasks: `engine`", engine, "Engine"),
    ("Queues: `engine.queues`", queues, "Queues"),
    ("Nodes: `engine.nodes`", nodes, "Nodes"),
    ("Large values: `engine.contents`", contents, "Contents"),
)


def draw() -> str:
    """The whole page."""
    titles = [title for title, _, _ in _PARTS]
    told = [line for title, part in zip(titles, parts(), strict=True) for line in (f"## {title}", "", *_told(part))]
    return "\n".join((_HEAD, *told, "## Why a task is not running", "", *_reasons(), ""))


def parts() -> list[ast.ClassDef]:
    """The classes whose operations are the engine's."""
    return [_class(module, name) for _, module, name in _PARTS]


def _class(module: ModuleType, name: str) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(module))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def operations(part: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public ones, in the order in which they are written."""
    methods = [node for node in part.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [method for method in methods if not method.name.startswith("_")]


def _told(part: ast.ClassDef) -> list[str]:
    return [line for method in operations(part) for line in _operation(method)]


def _operation(method: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    said = inspect.cleandoc(ast.get_docstring(method) or "")
    returns = f" -> {ast.unparse(method.returns)}" if method.returns is not None else ""
    arguments = ast.unparse(method.args).removeprefix("self").removeprefix(", ")
    return [f"### `{method.name}`", "", "```text", f"{method.name}({arguments}){returns}", "```", "", said, ""]


def _reasons() -> list[str]:
    """The table of codes in the docstring of `explain`."""
    return [line for line in (explain.__doc__ or "").splitlines() if line.startswith("|")]


if __name__ == "__main__":
    PAGE.write_text(draw())
