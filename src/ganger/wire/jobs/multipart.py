"""Forms with files (RFC 7578), read piece by piece: a file goes on as it arrives, however long it is.

The end of a part is known only by the line that follows it, which may be cut anywhere on its way here. So as many bytes
as that line has are kept back until it is clear that they are not its beginning; nothing else is kept.
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from ganger.core.errors import BadInput

_LONGEST_HEAD: Final = 8 << 10
_LONGEST_BOUNDARY: Final = 70
_END: Final = b"\r\n\r\n"
_DISPOSITION: Final = re.compile(rb"^content-disposition:\s*form-data\s*(.*)$", re.IGNORECASE | re.MULTILINE)
_PARAMETER: Final = re.compile(rb';\s*([\w*]+)=(?:"((?:[^"\\\r\n]|\\.)*)"|([^;\s"]*))')
_BOUNDARY: Final = re.compile(rb'^multipart/form-data\s*;.*?\bboundary=(?:"([^"]+)"|([^;\s]+))', re.IGNORECASE)


class Begin(NamedTuple):
    """A part begins. `filename` is None for a plain field."""

    name: str
    filename: str | None


class Content(NamedTuple):
    data: bytes


class End(NamedTuple):
    """The part is whole."""


Event = Begin | Content | End


class _At(Enum):
    CONTENT = auto()
    LINE = auto()
    HEAD = auto()
    BEHIND = auto()


def is_form(content_type: bytes) -> bool:
    return content_type.lower().startswith(b"multipart/")


def read_boundary(content_type: bytes) -> bytes:
    """What stands between the parts; BadInput if the header does not say."""
    found = _BOUNDARY.match(content_type)
    boundary = (found[1] or found[2]) if found else b""
    if not 0 < len(boundary) <= _LONGEST_BOUNDARY:
        raise BadInput("a form is sent as multipart/form-data with a boundary of 1 to 70 characters")
    return boundary


class Multipart:
    """Bytes in, events out. `ended` when the last line of the form has come."""

    def __init__(self, boundary: bytes) -> None:
        self._line = b"\r\n--" + boundary
        # The first line has no line break before it; with one given it is found as all others are.
        self._buffer = bytearray(b"\r\n")
        self._at = _At.CONTENT
        self._inside = False

    @property
    def ended(self) -> bool:
        return self._at is _At.BEHIND

    def feed(self, data: bytes) -> list[Event]:
        """What these bytes complete; BadInput if they are no form."""
        self._buffer += data
        found: list[Event] = []
        while self._step(found):
            pass
        return found

    def _step(self, found: list[Event]) -> bool:
        """Read on in the buffer; False if it has not enough for that."""
        if self._at is _At.CONTENT:
            return self._read_content(found)
        if self._at is _At.LINE:
            return self._read_line()
        if self._at is _At.HEAD:
            return self._read_head(found)
        self._buffer.clear()
        return False

    def _read_content(self, found: list[Event]) -> bool:
        end = self._buffer.find(self._line)
        if end < 0:
            self._hand_on(found, len(self._buffer) - len(self._line) + 1)
            return False
        self._hand_on(found, end)
        del self._buffer[: len(self._line)]
        if self._inside:
            found.append(End())
        self._inside, self._at = False, _At.LINE
        return True

    def _hand_on(self, found: list[Event], size: int) -> None:
        if size > 0:
            if self._inside:
                found.append(Content(bytes(self._buffer[:size])))
            del self._buffer[:size]

    def _read_line(self) -> bool:
        """Behind a boundary: two dashes end the form, a line break begins the next part."""
        if len(self._buffer) < 2:
            return False
        self._at = _At.BEHIND if self._buffer.startswith(b"--") else _At.HEAD
        return True

    def _read_head(self, found: list[Event]) -> bool:
        end = self._buffer.find(_END)
        if max(end, len(self._buffer) if end < 0 else 0) > _LONGEST_HEAD:
            raise BadInput(f"the head of a part of the form has more than {_LONGEST_HEAD} bytes")
        if end < 0:
            return False
        found.append(_read_part(bytes(self._buffer[:end])))
        del self._buffer[: end + len(_END)]
        self._inside, self._at = True, _At.CONTENT
        return True


def _read_part(head: bytes) -> Begin:
    found = _DISPOSITION.search(head.replace(b"\r\n", b"\n"))
    given = (
        {} if found is None else {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(found[1])}
    )
    if b"name" not in given:
        raise BadInput("a part of the form has no name: Content-Disposition: form-data; name=...")
    try:
        filename = given.get(b"filename", given.get(b"filename*"))
        return Begin(given[b"name"].decode(), None if filename is None else filename.decode())
    except UnicodeDecodeError:
        raise BadInput("the name of a part of the form is not UTF-8") from None
