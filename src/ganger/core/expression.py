"""A small language over the results of parents, read by a parser of its own and never given to Python to run.

What a submitter writes is evaluated where the upkeep runs, with all that process may do, so nothing of Python's
meaning is borrowed but its grammar: the text is parsed into a tree, and each node of the tree is either in the table
below or refused. There are no calls, no arithmetic, no attributes but two, no names but one, and so nothing that
could reach out, loop, or grow: the work is bounded by the length of the text.

| written | means |
|---|---|
| `parent[22].status`, `parent[22].result` | of the parent with this id |
| `parent[-2].result` | of the second of the parents, in the order of their ids |
| `parent.result` | of the only parent |
| `parent[22].result["size"][0]` | a part of it |
| `1`, `-2.5`, `"text"`, `True`, `None` | itself |
| `== != < <= > >= in`, `not in` | a comparison, or a chain of them |
| `and`, `or`, `not`, `( )` | as everybody expects; what is decided is not looked at further |
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganger.core.errors import BadInput

LONGEST: Final = 2_000
_SHOWN: Final = 20


class Parent(NamedTuple):
    """What an expression may know of a parent. `result` is plain data, None if there is none."""

    status: int
    result: Any = None


def check(text: str) -> None:
    """Refuse with BadInput what is not an expression of this language, whatever the parents will be."""
    try:
        _check(_parse(text))
    except RecursionError:
        raise BadInput("the expression is nested too deeply") from None


def _check(node: ast.expr) -> None:
    match node:
        case ast.Attribute(value=ast.Name(id="parent"), attr="status" | "result"):
            return
        case ast.Attribute(value=ast.Subscript(value=ast.Name(id="parent"), slice=number), attr="status" | "result"):
            _check_number(number)
        case ast.Attribute():
            raise BadInput("only a parent has parts with a dot: its status and its result, as in parent[22].result")
        case ast.Name(id="parent") | ast.Subscript(value=ast.Name(id="parent")):
            raise BadInput("a parent is no value: ask for its status or its result, as in parent[22].result")
        case ast.Constant():
            _constant(node, {})
        case _:
            _check_parts(node)


def _check_number(number: ast.expr) -> None:
    match number:
        case ast.Constant(value=int(found)) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(found))):
            if not isinstance(found, bool):
                return
    raise BadInput("a parent is named by a number in brackets: its id, or -n for the n-th")


def _check_parts(node: ast.expr) -> None:
    if type(node) not in _EVALUATORS:
        raise _foreign(node)
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            _check(part)
        elif not isinstance(part, _SIGNS):
            raise _foreign(part)


def names_results(text: str) -> bool:
    """Does it ask for any parent's result?"""
    return any(isinstance(node, ast.Attribute) and node.attr == "result" for node in ast.walk(_parse(text)))


def number_parents(text: str, numbers: Mapping[str, int]) -> str:
    """The expression with parents by number that are named in it: `build.result` or `parent["build-1"].result`."""
    try:
        return ast.unparse(_Numbering(numbers).visit(_parse(text)))
    except RecursionError:
        raise BadInput("the expression is nested too deeply") from None


class _Numbering(ast.NodeTransformer):
    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id == "parent" and "parent" not in self._numbers else self._number(node.id)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Name(id="parent"), slice=ast.Constant(value=str(name))):
                return self._number(name)
            case ast.Subscript(value=ast.Name(id="parent")):
                return node
        self.generic_visit(node)
        return node

    def _number(self, name: str) -> ast.expr:
        if name not in self._numbers:
            known = ", ".join(list(self._numbers)[:20]) or "none"
            raise BadInput(f"the expression names {name!r:.80}, which is not one of its parents; known are {known}")
        return ast.Subscript(ast.Name("parent", ast.Load()), ast.Constant(self._numbers[name]), ast.Load())


def evaluate(text: str, parents: Mapping[int, Parent]) -> bool:
    """Is it true of these parents (by id)? BadInput says what cannot be read, found or compared."""
    try:
        return bool(_value(_parse(text), parents))
    except RecursionError:
        raise BadInput("the expression is nested too deeply") from None


def _parse(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise BadInput(f"the expression has {len(text)} characters; use at most {LONGEST}", size=len(text))
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        place = f": look at character {error.offset}" if error.offset else ""
        raise BadInput(f"the expression {text!r:.80} cannot be read{place}") from None
    except (ValueError, RecursionError, MemoryError):
        raise BadInput(f"the expression {text!r:.80} cannot be read") from None


def _value(node: ast.expr, parents: Mapping[int, Parent]) -> Any:
    evaluator = _EVALUATORS.get(type(node))
    if evaluator is None:
        raise _foreign(node)
    return evaluator(node, parents)


def _foreign(node: ast.AST) -> BadInput:
    word = _FOREIGN.get(type(node), "such thing")
    return BadInput(f"an expression holds no {word}: only parents, constants and comparisons")


_FOREIGN: Final[dict[type[ast.AST], str]] = {
    ast.Call: "call",
    ast.BinOp: "arithmetic",
    ast.Name: "name but parent",
    ast.IfExp: "if",
    ast.Lambda: "function",
    ast.JoinedStr: "text with gaps",
    ast.Slice: "slice",
}


def _constant(node: ast.Constant, _: Mapping[int, Parent]) -> Any:
    if isinstance(node.value, str | int | float | None):
        return node.value
    raise BadInput(f"{node.value!r:.80} is no constant of an expression; use a number, a text, True, False or None")


def _all_or_any(node: ast.BoolOp, parents: Mapping[int, Parent]) -> bool:
    judge = all if isinstance(node.op, ast.And) else any
    return judge(bool(_value(part, parents)) for part in node.values)


def _unary(node: ast.UnaryOp, parents: Mapping[int, Parent]) -> Any:
    value = _value(node.operand, parents)
    if isinstance(node.op, ast.Not):
        return not value
    if isinstance(node.op, ast.USub) and isinstance(value, int | float):
        return -value
    raise BadInput("a minus stands before a number, and `not` before anything; there is no other sign")


def _compare(node: ast.Compare, parents: Mapping[int, Parent]) -> bool:
    left = _value(node.left, parents)
    for sign, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, parents)
        if not _related(sign, left, right):
            return False
        left = right
    return True


def _related(sign: ast.cmpop, left: Any, right: Any) -> bool:
    relation = _RELATIONS.get(type(sign))
    if relation is None:
        raise _foreign(sign)
    try:
        return bool(relation(left, right))
    except TypeError:
        raise BadInput(f"{left!r:.40} and {right!r:.40} cannot be compared") from None


def _subscript(node: ast.Subscript, parents: Mapping[int, Parent]) -> Any:
    whole, key = _value(node.value, parents), _value(node.slice, parents)
    try:
        return whole[key]
    except (TypeError, LookupError):
        raise BadInput(f"{whole!r:.40} has no part {key!r:.40}") from None


def _attribute(node: ast.Attribute, parents: Mapping[int, Parent]) -> Any:
    parent = _find(node.value, parents)
    if node.attr == "status":
        return parent.status
    if node.attr == "result":
        return parent.result
    raise BadInput(f"a parent has a status and a result, and no {node.attr!r:.40}")


def _find(node: ast.expr, parents: Mapping[int, Parent]) -> Parent:
    match node:
        case ast.Name(id="parent"):
            return _only(parents)
        case ast.Subscript(value=ast.Name(id="parent")):
            return _named(_value(node.slice, parents), parents)
        case _:
            raise BadInput("only a parent has attributes: write parent[22].result")


def _only(parents: Mapping[int, Parent]) -> Parent:
    if len(parents) != 1:
        raise BadInput(f"it has {len(parents)} parents: say which one, as in parent[22].result or parent[-1].result")
    return next(iter(parents.values()))


def _named(number: Any, parents: Mapping[int, Parent]) -> Parent:
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadInput(f"{number!r:.40} names no parent: give an id, or -n for the n-th")
    ids = sorted(parents)
    if -len(ids) <= number < 0:
        return parents[ids[-number - 1]]
    if number not in parents:
        raise BadInput(f"{number} is not one of its parents {', '.join(map(str, ids[:_SHOWN]))}", parent=number)
    return parents[number]


_RELATIONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_EVALUATORS: Final[dict[type[ast.expr], Callable[[Any, Mapping[int, Parent]], Any]]] = {
    ast.Constant: _constant,
    ast.BoolOp: _all_or_any,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
}
_SIGNS: Final = (*_RELATIONS, ast.And, ast.Or, ast.Not, ast.USub, ast.Load)
