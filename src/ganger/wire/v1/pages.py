"""Pages: where the next one begins (`next`), and what it is a page of (`pid`).

A list of tasks goes on behind a position, which nothing that happens meanwhile can spoil; its page id names the
question, so that a page of one list is never taken for a page of another. A value goes on behind an offset; its page
id is the version of the value, which is another as soon as the value is.
"""

import hashlib
import json

from ganger.core.errors import BadCursor, StalePage
from ganger.core.ids import Position

_DIGITS = 19


def name_question(*words: object) -> str:
    """The page id of a list: the store and all that was asked of it."""
    return hashlib.sha256(json.dumps(words, default=str).encode()).hexdigest()[:32]


def read_position(start: str | None, page_id: str | None, question: str) -> Position | None:
    """Behind which position the page begins; None for the first page. StalePage if it is one of another list."""
    if start is None:
        return None
    position = read_offset(start)
    if page_id != question:
        raise StalePage("start goes with the pid of the page before, and with the same filters: begin again")
    return Position(position)


def read_offset(text: str, field: str = "start") -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise BadCursor(f"{field} is {text!r:.80}; give back the number of the answer before", field=field)
    return int(text)
