"""The language between the owner of a file and the other processes on it: length-prefixed MessagePack, without IO.

A frame is a u32 (big endian) and so many bytes. A frame that is too long or that makes no sense is Malformed, and
ends the connection that it came on; the other side connects again. Fields are only ever added at the end of a frame,
so neighbouring versions understand each other.
"""

import struct
from enum import IntEnum
from typing import Any, Final, TypeAlias

import msgspec

from ganger.core.errors import GangerError, decode, encode

_LENGTH: Final = struct.Struct(">I")


class Rank(IntEnum):
    """Who should own a file: a process of a higher rank asks the owner to pass it on."""

    CLIENT = 1
    NODE = 2
    SERVER = 3


class Malformed(Exception):
    """Bytes that are no frame of ours."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first frame of a process that connects."""

    protocol: int
    minimum: int
    client: bytes
    rank: int
    application: str
    pid: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The owner takes the process in."""

    protocol: int
    pid: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The owner does not; the error says why."""

    code: str
    message: str
    fields: dict[str, Any]


class Call(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A unit of work; `again` if it may have been run before, `letter` if it is safe and nobody waits for the reply."""

    slot: int
    seq: int
    again: bool
    operation: str
    body: msgspec.Raw
    letter: bool = False


class Reply(msgspec.Struct, frozen=True, array_like=True, tag=5):
    slot: int
    seq: int
    body: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, array_like=True, tag=6):
    slot: int
    seq: int
    code: str
    message: str
    fields: dict[str, Any]


class Listen(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """From now on wake me for these; the owner answers with a first wake-up, so that nothing falls in between."""

    topics: list[str]


class Unlisten(msgspec.Struct, frozen=True, array_like=True, tag=8):
    topics: list[str]


class Wake(msgspec.Struct, frozen=True, array_like=True, tag=9):
    topics: list[str]


class Handover(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The file is yours: the lock and the listening socket travel with this frame."""


class Bye(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The process leaves on purpose."""


Frame: TypeAlias = Hello | Welcome | Refused | Call | Reply | Failure | Listen | Unlisten | Wake | Handover | Bye

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Frame]] = msgspec.msgpack.Decoder(Frame)


def pack(frame: Frame) -> bytes:
    body = _ENCODER.encode(frame)
    return _LENGTH.pack(len(body)) + body


def refuse(error: GangerError) -> Refused:
    return Refused(*encode(error))


def fail(slot: int, seq: int, error: GangerError) -> Failure:
    return Failure(slot, seq, *encode(error))


def error_of(frame: Refused | Failure) -> GangerError:
    return decode(frame.code, frame.message, frame.fields)


def unpack(frame: bytes) -> Frame:
    """The frame that `pack` made these bytes of."""
    return _decode(memoryview(frame)[_LENGTH.size :])


def body_of_call(frame: bytes) -> msgspec.Raw:
    """What a packed call asks for."""
    call = unpack(frame)
    if not isinstance(call, Call):
        raise Malformed(f"{type(call).__name__} is no call")
    return call.body


class Parser:
    """Bytes as they come in, frames as they are complete."""

    __slots__ = ("_largest", "_rest")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        if not self._rest and len(data) > 4 and _LENGTH.unpack_from(data)[0] == len(data) - 4:
            return [_decode(memoryview(data)[4:])]
        self._rest += data
        return self._split()

    def _split(self) -> list[Frame]:
        frames: list[Frame] = []
        start = 0
        while (end := self._end_of_frame(start)) <= len(self._rest):
            frames.append(_decode(bytes(memoryview(self._rest)[start + 4 : end])))
            start = end
        del self._rest[:start]
        return frames

    def _end_of_frame(self, start: int) -> int:
        if len(self._rest) < start + 4:
            return start + 4
        length: int = _LENGTH.unpack_from(self._rest, start)[0]
        if length > self._largest:
            raise Malformed(f"a frame of {length} bytes is over the limit of {self._largest}")
        return start + 4 + length


def _decode(body: bytes | memoryview) -> Frame:
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise Malformed(str(error)) from error
