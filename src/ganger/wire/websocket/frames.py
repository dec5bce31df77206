"""The frames of a websocket (RFC 6455), on the side of the server.

A frame may be as long as an upload, and a message may have any number of them. Whoever waits for a frame to be whole
keeps it in memory, once for each connection; so here the content of a frame is handed on as it arrives. Only what
cannot be used in part is kept until it is whole: heads (14 bytes at most) and control frames (125 bytes at most).
"""

from enum import IntEnum
from typing import Final, NamedTuple

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
BAD_TEXT: Final = 1007
NOT_WANTED: Final = 1008
TOO_BIG: Final = 1009
BROKEN: Final = 1011

_LONGEST_CONTROL: Final = 125
_LONGEST_REASON: Final = 123
_SHORT: Final = 126
_LONG: Final = 127
_FIN: Final = 0x80
_RESERVED: Final = 0x70
_MASKED: Final = 0x80


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Piece(NamedTuple):
    """Some content of a message, in order; `ended`: the message is whole with it."""

    opcode: Opcode
    data: bytes
    ended: bool


class Control(NamedTuple):
    """A control frame."""

    opcode: Opcode
    data: bytes


class Violation(Exception):
    """The client did what the protocol forbids: the connection is closed with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Head(NamedTuple):
    fin: bool
    opcode: Opcode
    mask: bytes
    length: int

    @property
    def is_control(self) -> bool:
        return self.opcode >= Opcode.CLOSE


class Decoder:
    """Bytes in, pieces out. `largest` bounds one frame; messages are bounded by whoever takes them in."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._left = 0
        self._message: Opcode | None = None

    def feed(self, data: bytes) -> list[Piece | Control]:
        """What these bytes complete. Raises Violation, after which nothing more may be fed."""
        found: list[Piece | Control] = []
        if self._head is not None and self._left and not self._buffer and not self._head.is_control:
            data = self._pass_on(self._head, data, found)
        self._buffer += data
        while self._step(found):
            pass
        return found

    def _pass_on(self, head: _Head, data: bytes, found: list[Piece | Control]) -> bytes:
        """In the middle of a frame: what belongs to it need not go through the buffer. What is behind it is left."""
        size = min(self._left, len(data))
        with memoryview(data) as view, view[:size] as masked:
            self._hand_on(head, self._unmask(head, masked), found)
        return data[size:]

    def _step(self, found: list[Piece | Control]) -> bool:
        """Take one head or one piece from the buffer; False if it has not enough for that."""
        if self._head is None:
            return self._take_head()
        if self._head.is_control:
            return self._take_control(self._head, found)
        return self._take_piece(self._head, found)

    def _take_head(self) -> bool:
        head = _read_head(self._buffer)
        if head is None:
            return False
        read, size = head
        self._check(read)
        del self._buffer[:size]
        self._head, self._left = read, read.length
        return True

    def _check(self, head: _Head) -> None:
        if head.is_control:
            if not head.fin or head.length > _LONGEST_CONTROL:
                raise Violation(PROTOCOL_ERROR, "a control frame is whole, and has 125 bytes at most")
            return
        if (head.opcode == Opcode.CONTINUATION) != (self._message is not None):
            raise Violation(PROTOCOL_ERROR, "a message is begun once, and then continued until its end")
        if head.length > self._largest:
            ways = "send the message in several frames, or (protocol 2) in chunks or past the server"
            raise Violation(TOO_BIG, f"a frame has {self._largest} bytes at most: {ways}")
        if self._message is None:
            self._message = head.opcode

    def _take_control(self, head: _Head, found: list[Piece | Control]) -> bool:
        if len(self._buffer) < head.length:
            return False
        found.append(Control(head.opcode, self._cut(head, head.length)))
        self._head = None
        return True

    def _take_piece(self, head: _Head, found: list[Piece | Control]) -> bool:
        if self._left and not self._buffer:
            return False
        self._hand_on(head, self._cut(head, min(self._left, len(self._buffer))), found)
        return True

    def _hand_on(self, head: _Head, data: bytes, found: list[Piece | Control]) -> None:
        self._left -= len(data)
        ended = head.fin and not self._left
        found.append(Piece(self._message or head.opcode, data, ended))
        if not self._left:
            self._head = None
            self._message = None if ended else self._message

    def _cut(self, head: _Head, size: int) -> bytes:
        with memoryview(self._buffer) as view, view[:size] as masked:
            data = self._unmask(head, masked)
        del self._buffer[:size]
        return data

    def _unmask(self, head: _Head, masked: memoryview) -> bytes:
        shift = (head.length - self._left) % 4
        return apply_mask(masked, head.mask[shift:] + head.mask[:shift])


def _read_head(buffer: bytearray) -> tuple[_Head, int] | None:
    """The head at the front of the buffer and its size; None if it is not whole."""
    if len(buffer) < 2:
        return None
    first, second = buffer[0], buffer[1]
    if first & _RESERVED:
        raise Violation(PROTOCOL_ERROR, "no extension was agreed upon, and a frame uses one")
    if not second & _MASKED:
        raise Violation(PROTOCOL_ERROR, "a client masks its frames")
    length, start = second & ~_MASKED, 2
    if length >= _SHORT:
        start += 2 if length == _SHORT else 8
        length = int.from_bytes(buffer[2:start], "big")
    if len(buffer) < start + 4:
        return None
    return _Head(bool(first & _FIN), _read_opcode(first & 0x0F), bytes(buffer[start : start + 4]), length), start + 4


def _read_opcode(number: int) -> Opcode:
    try:
        return Opcode(number)
    except ValueError:
        raise Violation(PROTOCOL_ERROR, f"{number} is no opcode") from None


def mask_plainly(data: bytes | bytearray | memoryview, mask: bytes | bytearray) -> bytes:
    """Each byte of the data with the byte of the mask in its place; twice gives the data again."""
    size = len(data)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")


try:
    # The same in C, a hundred times as fast; it is not there on every platform.
    from websockets.speedups import apply_mask as _apply
except ImportError:
    _apply = mask_plainly

apply_mask: Final = _apply


def encode_head(opcode: Opcode, length: int, *, fin: bool = True) -> bytes:
    """What goes before the content of a frame from the server, which masks nothing."""
    first = (_FIN if fin else 0) | opcode
    if length < _SHORT:
        return bytes((first, length))
    if length < 1 << 16:
        return bytes((first, _SHORT)) + length.to_bytes(2, "big")
    return bytes((first, _LONG)) + length.to_bytes(8, "big")


def encode(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return encode_head(opcode, len(data), fin=fin) + data


def encode_close(code: int, reason: str) -> bytes:
    """A close frame; a reason that is too long for one is cut."""
    told = reason.encode()[:_LONGEST_REASON].decode("utf-8", "ignore").encode()
    return encode(Opcode.CLOSE, code.to_bytes(2, "big") + told)
