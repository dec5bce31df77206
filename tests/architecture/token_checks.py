"""Secrets are compared in constant time: whoever measures how long `==` takes learns them letter by letter."""

import ast
import re
from typing import Final

from tests.architecture.tree import Offence

_SECRET: Final = re.compile(r"(^|_)(token|secret|password|signature|mac)s?$")
_WAYS: Final = ast.Eq | ast.NotEq | ast.In | ast.NotIn


def find_token_comparisons(file: str, tree: ast.Module) -> list[Offence]:
    """Tokens that are compared by anything but `hmac.compare_digest`."""
    return [
        Offence(f"{file}:{node.lineno}", f"{ast.unparse(node)}: a token is compared by hmac.compare_digest")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(way, _WAYS) for way in node.ops)
        if any(_is_secret(side) for side in (node.left, *node.comparators))
    ]


def _is_secret(side: ast.expr) -> bool:
    """A name or a field that is called a secret, whatever it is wrapped in."""
    if isinstance(side, ast.Call):
        # Its length and its type are no secret.
        return ast.unparse(side.func) not in {"len", "type"} and any(map(_is_secret, side.args))
    name = side.id if isinstance(side, ast.Name) else side.attr if isinstance(side, ast.Attribute) else ""
    return _SECRET.search(name) is not None
