"""Values as they stand in the text of a statement that is sent without parameters: numbers, bytes and plain words."""

import re
from collections.abc import Sequence
from typing import Final

_PLAIN: Final = re.compile(r"[a-z0-9_.:-]*")


def write_numbers(values: Sequence[int]) -> str:
    return "'{" + ",".join(str(int(value)) for value in values) + "}'"


def write_bytes(values: Sequence[bytes]) -> str:
    return "'{" + ",".join(f'"\\\\x{value.hex()}"' for value in values) + "}'"


def write_words(values: Sequence[str]) -> str:
    """Words that need no quoting; any other text is refused, for it would have to travel as a parameter."""
    for value in values:
        if not _PLAIN.fullmatch(value):
            raise ValueError(f"{value!r} is not a plain word")
    return "'{" + ",".join(f'"{value}"' for value in values) + "}'"
