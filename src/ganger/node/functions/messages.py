"""What a node and its warm processes say to each other: a length (4 bytes, big end first) and one MessagePack value.

Both sides are of one version: a warm process never outlives its node.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import msgspec

LARGEST_RESULT: Final = 16 << 20
LARGEST_FRAME: Final = 64 << 20
SMALL: Final = 64 * 1024
"""A stream of at most so many bytes is handed over with the result; a longer one is in the spool."""

LENGTH: Final = struct.Struct(">I")


class Mode(IntEnum):
    """What a warm process does at once: one function, one on each of its threads, or many on one event loop."""

    PROCESS = 1
    THREAD = 2
    LOOP = 3


class How(IntEnum):
    """What became of a job."""

    SUCCEEDED = 1
    FAILED = 2
    HOPELESS = 3
    """Failed so that trying again is useless."""
    RETRIED = 4
    """Failed, to be tried again after a delay of its own; the body is that in digits, a space, and the reason."""
    RELEASED = 5
    CANCELLED = 6
    STOPPED = 7
    DROPPED = 8
    """It was called back before it was begun."""
    BOUNCED = 9
    """An async function that belongs on the loop; the body is its import path."""
    DISTRUSTED = 10
    """The lease could not be trusted any more when its turn came."""
    BROKEN = 11
    """What executes functions broke on this one; the body says how."""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """One attempt. `seq` is the node's number for it, never 0. `masks` are the secrets among its arguments.

    `trace` is the traceparent of what it does, or nothing.
    """

    seq: int
    task: int
    fence: int
    attempt: int
    spec: bytes
    masks: tuple[bytes, ...] = ()
    trace: str = ""


class Begin(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """Run these, in this order as far as there is an order."""

    jobs: list[Job]


class Hold(msgspec.Struct, frozen=True, array_like=True, tag="hold"):
    """These are about to be yours: run them when their last number is the word of the note, or at `Go`."""

    jobs: list[Job]


class Go(msgspec.Struct, frozen=True, array_like=True, tag="go"):
    """Run what is held."""


class Forget(msgspec.Struct, frozen=True, array_like=True, tag="forget"):
    """What is held was never yours."""


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """Drop it if it has not begun; else tell it that it is not wanted any more."""

    seq: int


class Drop(msgspec.Struct, frozen=True, array_like=True, tag="drop"):
    """Give back all that has not begun."""


class Quit(msgspec.Struct, frozen=True, array_like=True, tag="quit"):
    """Finish what is there and end."""


class Follow(msgspec.Struct, frozen=True, array_like=True, tag="follow"):
    """Somebody reads what this one says: put it into the spool as it comes."""

    seq: int


class Trim(msgspec.Struct, frozen=True, array_like=True, tag="trim"):
    """More was printed than is kept: cut it off."""


class Result(msgspec.Struct, frozen=True, array_like=True):
    """`body`: the result as JSON, the reason as text, or the delay in digits. `said`: small streams; `cut`: what was
    cut off of streams; `spooled`: the streams that are in the spool; `faults`: why it was cut off before the cap.
    """

    seq: int
    how: How
    body: bytes = b""
    said: dict[str, bytes] = {}
    cut: dict[str, int] = {}
    spooled: list[str] = []
    faults: dict[str, str] = {}


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The process is warm."""

    pid: int


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """A number alone is that of a job that succeeded, returned nothing and said nothing, as most do."""

    results: list[int | Result]


class Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """How far jobs are: seq, percent, info."""

    sayings: list[tuple[int, float | None, str | None]]


ToChild = Begin | Hold | Go | Forget | Stop | Drop | Quit | Follow | Trim
FromChild = Hello | Done | Said

ENCODER: Final = msgspec.msgpack.Encoder()
CHILD_DECODER: Final = msgspec.msgpack.Decoder(ToChild)
NODE_DECODER: Final = msgspec.msgpack.Decoder(FromChild)
RESULTS_DECODER: Final = msgspec.msgpack.Decoder(list[int | Result])


class BadFrame(Exception):
    """The other side does not speak the protocol."""


def frame(message: ToChild | FromChild) -> bytes:
    body = ENCODER.encode(message)
    return LENGTH.pack(len(body)) + body


class Splitter:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are whole now. BadFrame: the stream is not one of frames."""
        self._buffer += data
        start = 0
        while (end := self._end(start)) is not None:
            yield bytes(memoryview(self._buffer)[start + LENGTH.size : end])
            start = end
        del self._buffer[:start]

    def _end(self, start: int) -> int | None:
        if len(self._buffer) - start < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(self._buffer, start)
        if size > LARGEST_FRAME:
            raise BadFrame(f"a frame of {size} bytes")
        end: int = start + LENGTH.size + size
        return end if end <= len(self._buffer) else None
