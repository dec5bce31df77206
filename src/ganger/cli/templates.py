"""A command with places in it, and what stands in them for each item.

The template is split into words once, before any item is seen, and an item is put into a word as it is. So no item can
become two words, an option of another command, or code: there is no shell that could read it.
"""

import os
import re
import shlex
from collections.abc import Sequence
from typing import Final

from ganger.core.errors import BadInput

_PLACE: Final = re.compile(r"\{[./#]?\}")
_SHELL_WORD: Final = re.compile(r"[|&;]{1,2}|[^;]*;|\d?(?:>>?|<)(?:&\d;?)?", re.ASCII)


def split_template(template: str) -> list[str]:
    """The words of the command; one that has no place for the item gets it at its end."""
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise BadInput(f"the command can not be split into words: {error}", field="template") from None
    if not words:
        raise BadInput("the command is empty", field="template")
    return words if any(map(has_place, words)) else [*words, "{}"]


def has_place(word: str) -> bool:
    return _PLACE.search(word) is not None


def find_shell_words(words: Sequence[str]) -> list[str]:
    """Words that mean something to a shell, and nothing here."""
    return [word for word in words if _SHELL_WORD.fullmatch(word)]


def fill(words: Sequence[str], item: str, number: int) -> list[str]:
    """The command for one item: {} itself, {.} without its ending, {/} without its folders, {#} its number."""
    values = {"{}": item, "{.}": os.path.splitext(item)[0], "{/}": os.path.basename(item), "{#}": str(number)}
    return [_PLACE.sub(lambda found: values[found[0]], word) for word in words]
