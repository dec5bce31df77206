"""Values in sentences for people: as JSON has them, in whatever language it is that they are read."""

import json
from typing import Any, Final

SHOWN: Final = 80


def show(value: Any, most: int = SHOWN) -> str:
    """A value that somebody gave: text in quotes, null, true, a list; of what JSON has not, the name of its type."""
    if isinstance(value, str):
        return f"{value!r:.{most}}"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
    return f"{text:.{most}}"


def say_error(error: BaseException, most: int = 400) -> str:
    """An exception in a sentence: its sort and its words."""
    words = str(error)
    return f"{type(error).__name__}: {words}"[:most] if words else type(error).__name__
