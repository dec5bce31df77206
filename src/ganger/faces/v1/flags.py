"""Parameters that several endpoints read alike."""

from collections.abc import Mapping
from typing import Final

from ganger.core.errors import BadInput, BadNumber

_WORDS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


def read_flag(asked: Mapping[str, str], name: str) -> bool:
    """Yes or no; a parameter without a value is a yes."""
    if name not in asked:
        return False
    if asked[name].lower() not in _WORDS:
        raise BadInput(f"{name} is true or false", field=name)
    return _WORDS[asked[name].lower()]


def read_limit(text: str | None, most: int, least: int = 1) -> int:
    """How much is wanted on a page: at most what the server gives, which is also the default."""
    if text is None:
        return most
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise BadNumber(f"limit is {text!r:.80}; give a number from {least} to {most}", field="limit")
    return int(text)
