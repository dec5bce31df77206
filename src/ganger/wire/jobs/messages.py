"""What a worker and the server say to each other as text: JSON objects with a code.

| code | message | from |
|---|---|---|
| 0 | registration | worker |
| 1 | status response | worker |
| 2 | status request | server |
| 3 | progress update | worker |
| 4 | job failed | worker |
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, Literal, TypeVar

import msgspec

from ganger.core.errors import BadInput
from ganger.core.showing import show
from ganger.wire.unreadable import UNREADABLE

LONGEST_NAME: Final = 200
LONGEST_ID: Final = 150


class Code(IntEnum):
    REGISTRATION = 0
    STATUS = 1
    STATUS_REQUEST = 2
    PROGRESS = 3
    FAILED = 4


class WorkerStatus(IntEnum):
    BUSY = 0
    READY = 1


class Registration(msgspec.Struct, frozen=True):
    """Who a worker is. Without authentication it does not matter what the token holds."""

    name: str
    id: str
    token: Any = None


class Status(msgspec.Struct, frozen=True):
    status: WorkerStatus


class Progress(msgspec.Struct, frozen=True):
    """How far a job is: percent, an info text, or both."""

    percent: float | None = None
    info: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The job failed. Both texts may be missing."""

    logs: str | None = None
    info: str | None = None


Message = Registration | Status | Progress | Failed
T = TypeVar("T", bound=msgspec.Struct)
M = TypeVar("M", bound=Registration | Status | Progress | Failed)

_KINDS: Final[dict[int, type[Message]]] = {
    Code.REGISTRATION: Registration,
    Code.STATUS: Status,
    Code.PROGRESS: Progress,
    Code.FAILED: Failed,
}

_CODES: Final[dict[type[Any], int]] = {kind: int(code) for code, kind in _KINDS.items()}


class _SaidStatus(msgspec.Struct, frozen=True):
    code: Literal[1]
    status: WorkerStatus


_STATUS: Final = msgspec.json.Decoder(_SaidStatus)
_SHORTEST: Final = 32
"""So long is a status at most, if it is written without adornments."""

ASK_STATUS: Final = msgspec.json.encode({"code": Code.STATUS_REQUEST})


READY: Final = Status(WorkerStatus.READY)


def is_ready(text: bytes) -> bool:
    """Does the worker say that it takes a job, and say it plainly?"""
    try:
        return len(text) <= _SHORTEST and _STATUS.decode(text).status is WorkerStatus.READY
    except UNREADABLE:
        return False


def read_message(text: bytes) -> Message:
    """What the worker said; BadInput with a sentence for it if that is none of its messages."""
    if len(text) <= _SHORTEST:
        # Of two messages one is a status, and most others are longer.
        try:
            return Status(_STATUS.decode(text).status)
        except UNREADABLE:
            return _read_any(text)
    return _read_any(text)


def _read_any(text: bytes) -> Message:
    try:
        said = msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        raise BadInput("a text message is a JSON object with a code") from None
    code = said.get("code")
    kind = _KINDS.get(code) if isinstance(code, int) and not isinstance(code, bool) else None
    if kind is None:
        raise BadInput(f"{show(code, 20)} is no code of a worker: use 0, 1, 3 or 4")
    return convert(said, kind)


def convert(said: Mapping[str, Any], kind: type[M]) -> M:
    """The fields as a message of this kind; BadInput if they are none."""
    try:
        message = tidy(msgspec.convert(said, kind))
    except msgspec.ValidationError as error:
        raise BadInput(f"code {_CODES[kind]}: {error}") from None
    check(message)
    return message


def tidy(message: T) -> T:
    """A registration without the blanks and line ends around its id: ids are read from files."""
    if not isinstance(message, Registration):
        return message
    return msgspec.structs.replace(message, id=message.id.strip())


def check(message: Message) -> None:
    """BadInput for what the types do not say."""
    match message:
        case Registration(name, identity):
            _check_name("name", name, LONGEST_NAME)
            _check_name("id", identity, LONGEST_ID)
        case Progress(None, None):
            raise BadInput("code 3: percent and info cannot both be null")
        case Progress(percent) if percent is not None and not 0 <= percent <= 100:
            raise BadInput(f"code 3: percent is {percent:g}; use 0.0 to 100.0, or null")
        case _:
            pass


def _check_name(field: str, text: str, longest: int) -> None:
    if not 0 < len(text) <= longest or not text.isprintable() or text != text.strip():
        raise BadInput(f"code 0: {field} has 1 to {longest} printable characters, and no space at its ends")
