"""What a node and its guardian say to each other: frames of MessagePack over a unix socket.

A frame is a length (4 bytes, big end first) and an array of messages. The first message is the node's `Hello`; the
answer is `Welcome` and a `Listing`, or `Refused` and the end of the connection.

A guardian outlives its node, and so meets nodes that are newer or older than itself. Both sides name the newest
protocol they speak and the oldest; they speak the newest that both know. `Hello`, `Welcome` and `Refused` never change.
Fields may be added to any message at any time, with a default: who does not know one passes over it. A new kind of
message, or a changed meaning, is a new protocol, and nobody sends it to a side that does not speak it.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

PROTOCOL: Final = 3
LEAST_PROTOCOL: Final = 1
QUEUES: Final = 2
"""The first protocol with orders that wait for room, and with stops of what has not begun alone."""

MASKS: Final = 3
"""The first protocol whose guardians keep secrets out of what they write."""

LARGEST_FRAME: Final = 1 << 28
_LENGTH: Final = struct.Struct(">I")

LOST: Final = "its guardian was killed, and it was ended"
"""Why an attempt is lost, for people."""

Key = tuple[int, int]
"""A task and its fence: one attempt."""


class _Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """Told apart by a tag."""


class Hello(_Message, frozen=True, tag="hello"):
    """Who wants to be master. The higher epoch wins; an equal one is the same node that comes back."""

    epoch: int
    newest: int = PROTOCOL
    oldest: int = LEAST_PROTOCOL


class Welcome(_Message, frozen=True, tag="welcome"):
    epoch: int
    protocol: int
    pid: int
    cgroups: bool = False


class Refused(_Message, frozen=True, tag="refused"):
    """`why`: epoch (another node is master), protocol (no common one)."""

    why: str
    text: str


class Caps(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bounds of one attempt: seconds of CPU time, bytes of memory, open files, bytes of each stream."""

    cpu: int | None = None
    memory: int | None = None
    files: int | None = None
    output: int | None = None


class Start(_Message, frozen=True, tag="start"):
    """Make this attempt. `environment` is whole; `timeout` and `grace` in ms; `script` is given to it as descriptor 3.

    With a `room` it waits, behind those that wait already, until fewer than so many attempts are not over. What is in
    `masks` is shown in none of its streams.
    Naming an attempt that is known already changes nothing and is answered as the first time.
    """

    task: int
    fence: int
    argv: list[str]
    environment: dict[str, str]
    cwd: str
    trusted_until: int
    stdin: bytes | None = None
    script: bytes | None = None
    merge: bool = False
    caps: Caps = Caps()
    grace: int = 5_000
    timeout: int | None = None
    room: int = 0
    masks: list[bytes] = []

    @property
    def key(self) -> Key:
        return self.task, self.fence


class Stop(_Message, frozen=True, tag="stop"):
    """End it: TERM, its grace, KILL. `why`: stop (somebody asked for it) or shutdown (the node leaves).

    `unbegun`: only if it has not begun.
    """

    task: int
    fence: int
    why: str = "stop"
    text: str = ""
    unbegun: bool = False


class Trust(_Message, frozen=True, tag="trust"):
    """These leases are good until then, in ms of the boot clock."""

    until: list[tuple[int, int, int]]


class Watch(_Message, frozen=True, tag="watch"):
    """Tell how its streams grow."""

    task: int
    fence: int


class Forget(_Message, frozen=True, tag="forget"):
    """These ends are safe elsewhere."""

    keys: list[Key]


class Shutdown(_Message, frozen=True, tag="shutdown"):
    """The master leaves. `kill`: end everything, then yourself; else end as soon as there is nothing to keep."""

    kill: bool = False


class Ping(_Message, frozen=True, tag="ping"):
    """Say that you are there."""


class Pong(_Message, frozen=True, tag="pong"):
    """The answer."""


class Started(_Message, frozen=True, tag="started"):
    """`serial` grows with each attempt that the guardian takes on; a pid of 0 is yet to come."""

    task: int
    fence: int
    pid: int
    serial: int = 0


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the attempt's own process and the children it waited for have used: ms of CPU time, bytes of memory."""

    user: int = 0
    system: int = 0
    memory: int = 0


class End(_Message, frozen=True, tag="end"):
    """It has ended, and nothing of it runs. `code` or `signal` is how its own process ended, if there was one.

    `why`: exit (by itself), stop, shutdown, timeout, trust (the lease could not be trusted any more), limit (killed for
    what it used), program (it could not be started, and `code` says what a shell would), machine (nothing could be
    started), lost (the guardian was killed under it). `streams` has the length of each stream and what was cut off, and
    `faults` why the disk did not take all of one.
    """

    task: int
    fence: int
    why: str
    text: str = ""
    code: int | None = None
    signal: int | None = None
    usage: Usage = Usage()
    streams: dict[str, tuple[int, int]] = {}
    serial: int = 0
    faults: dict[str, str] = {}

    @property
    def key(self) -> Key:
        return self.task, self.fence


class Listing(_Message, frozen=True, tag="listing"):
    """All attempts that the guardian keeps: those that run or are about to, and ends that are not yet forgotten."""

    running: list[Started]
    ended: list[End]


class Grew(_Message, frozen=True, tag="grew"):
    """How far the streams of watched attempts reach: task, fence, stream, length, bytes cut off."""

    streams: list[tuple[int, int, str, int, int]]


class Stuck(_Message, frozen=True, tag="stuck"):
    """It was killed, and some of it does not die."""

    task: int
    fence: int
    pids: list[int]


class Fault(_Message, frozen=True, tag="fault"):
    """The guardian itself is in trouble, and goes on as well as it can."""

    text: str


Order = Start | Stop | Trust | Watch | Forget | Shutdown
FromNode = Hello | Ping | Order
FromGuardian = Welcome | Pong | Refused | Started | End | Listing | Grew | Stuck | Fault

_ENCODER: Final = msgspec.msgpack.Encoder()
_NODE_DECODER: Final = msgspec.msgpack.Decoder(list[FromNode])
_GUARDIAN_DECODER: Final = msgspec.msgpack.Decoder(list[FromGuardian])


class BadFrame(Exception):
    """The other side does not speak the protocol."""


def agree(newest: int, oldest: int, ours: int = PROTOCOL, least: int = LEAST_PROTOCOL) -> int | None:
    """The protocol that both sides speak."""
    chosen = min(newest, ours)
    return chosen if chosen >= max(oldest, least) else None


def pack(messages: Sequence[FromNode] | Sequence[FromGuardian]) -> bytes:
    body = _ENCODER.encode(messages)
    return _LENGTH.pack(len(body)) + body


def read_from_node(body: bytes) -> list[FromNode]:
    try:
        return _NODE_DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadFrame(str(error)) from error


def read_from_guardian(body: bytes) -> list[FromGuardian]:
    try:
        return _GUARDIAN_DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadFrame(str(error)) from error


class Frames:
    """Bytes in as they come, bodies of frames out as they are whole."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._held += data
        bodies: list[bytes] = []
        while (size := self._next()) is not None:
            bodies.append(bytes(self._held[_LENGTH.size : _LENGTH.size + size]))
            del self._held[: _LENGTH.size + size]
        return bodies

    def _next(self) -> int | None:
        if len(self._held) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._held)
        if size > LARGEST_FRAME:
            raise BadFrame(f"a frame of {size} bytes is too large")
        return int(size) if len(self._held) >= _LENGTH.size + size else None
