"""Named values of a task: text is itself, bytes are base64, anything else is JSON.

Beside a value that came in through this protocol and is no text stands a *mark* that says what it was, as data under
another key, so that what was put is what is got. Values without a mark were written by the task or through another
door: a result is JSON if it can be read as JSON, all others are text, or base64 where they are no text.

A value too large for one answer comes in pieces. A piece of text never ends inside of a character; a piece of JSON is
text that has to be put together before it is read, and says so by its encoding.
"""

import base64
import binascii
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput
from ganger.wire.unreadable import UNREADABLE

TEXT: Final = "text"
JSON: Final = "json"
JSON_TEXT: Final = "json-text"
BASE64: Final = "base64"
MARK: Final = "as:"
"""The key of a value's mark begins so."""

_RESERVED: Final = (MARK, "out:")
_LONGEST_CHARACTER: Final = 4


class ValueIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a PUT of a value says. With the encoding `base64` the value is a string that stands for bytes."""

    value: Any
    encoding: str | None = None


class Shown(NamedTuple):
    """A value, or a piece of one, as an answer carries it; `used` is how many bytes of the stored form it covers."""

    data: Any
    encoding: str
    used: int


def pack(given: ValueIn) -> tuple[bytes, str]:
    """The content that is stored, and its mark."""
    if given.encoding == BASE64:
        return _from_base64(given.value), BASE64
    if given.encoding not in (None, TEXT, JSON):
        raise BadInput(f"encoding {given.encoding!r:.80} is unknown; use text, json or base64", field="encoding")
    if isinstance(given.value, str) and given.encoding != JSON:
        return to_bytes(given.value), TEXT
    if given.encoding == TEXT:
        raise BadInput("a value with the encoding text is a string", field="value")
    return msgspec.json.encode(given.value), JSON


def to_bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput("the value holds half of a surrogate pair, which no text can", field="value") from None


def _from_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadInput("the value is not base64, as its encoding says", field="value") from None


def show(content: bytes, mark: str | None) -> Shown:
    """A whole value."""
    if mark == BASE64:
        return _show_bytes(content)
    if mark == JSON:
        try:
            return Shown(msgspec.json.decode(content), JSON, len(content))
        except UNREADABLE:
            # The mark is older than the value: another door has written it since.
            return show(content, None)
    return show_piece(content, None, whole=True)


def show_piece(content: bytes, mark: str | None, whole: bool) -> Shown:
    """A piece of a value; only the last one (`whole`) may end inside of a character, and is no text then."""
    if mark == BASE64:
        return _show_bytes(content)
    kept = content if whole else trim(content)
    try:
        return Shown(kept.decode(), JSON_TEXT if mark == JSON else TEXT, len(kept))
    except UnicodeDecodeError:
        return _show_bytes(content)


def _show_bytes(content: bytes) -> Shown:
    return Shown(base64.b64encode(content).decode(), BASE64, len(content))


def trim(content: bytes) -> bytes:
    """The bytes without the beginning of a character at their end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(content)) + 1):
        byte = content[-back]
        if byte & 0xC0 != 0x80:
            return content[:-back] if _width(byte) > back else content
    return content


def _width(lead: int) -> int:
    """How many bytes the character has that begins with this one."""
    if lead < 0x80:
        return 1
    return 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2


def check_key(key: str) -> str:
    """A key that a client may use."""
    if key.startswith(_RESERVED):
        raise BadInput(f"no key begins with {' or '.join(_RESERVED)}", field="key")
    return key
