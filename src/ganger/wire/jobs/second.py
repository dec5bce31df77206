"""Protocol 2 of workers: several jobs at a time, each named by its task and fence in every message.

| code | message | from | fields |
|---|---|---|---|
| 0 | registration | worker | `name`, `id`, `token`, `slots`, `urls`; to go on also `session`, and its `jobs` |
| 1 | status | worker | `status`: 0 busy, 1 ready; also without being asked |
| 2 | status request | server | |
| 3 | progress | worker | `job`, `percent`, `info` |
| 4 | job failed | worker | `job`, `logs`, `info` |
| 5 | job | server | `job`, `id`, `size`; the next binary message is its payload, or `url` and `sha256` tell of it |
| 5 | result | worker | `job`, `chunks`: so many of the next messages, all binary, are its result; or its `upload` |
| 6 | welcome | server | `session`, `seconds` for which jobs wait after a lost connection |
| 7 | receipt | server | `job`, `accepted`, `reason` |
| 8 | cancel | server | `job` |
| 9 | upload request | worker | `job` |
| 9 | upload | server | `job`, `upload`, `url`, `seconds`; all but the job null if results cannot be uploaded |
"""

from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.lease import Lease
from ganger.core.showing import show
from ganger.wire.jobs import messages
from ganger.wire.jobs.messages import Status
from ganger.wire.unreadable import UNREADABLE

SUBPROTOCOL: Final = b"ganger.jobs.2"
MOST_SLOTS: Final = 1_000
_LARGEST: Final = 1 << 63


class Code(IntEnum):
    REGISTRATION = 0
    STATUS = 1
    STATUS_REQUEST = 2
    PROGRESS = 3
    FAILED = 4
    JOB = 5
    WELCOME = 6
    RECEIPT = 7
    CANCEL = 8
    UPLOAD = 9


class Registration(messages.Registration, frozen=True):
    slots: Annotated[int, msgspec.Meta(ge=1, le=MOST_SLOTS)] = 1
    urls: bool = False
    session: str | None = None
    jobs: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_SLOTS)] = ()


class Progress(messages.Progress, frozen=True, kw_only=True):
    job: str


class Failed(messages.Failed, frozen=True, kw_only=True):
    job: str


class Result(msgspec.Struct, frozen=True):
    job: str
    chunks: Annotated[int, msgspec.Meta(ge=1)] = 1
    upload: str | None = None


class UploadRequest(msgspec.Struct, frozen=True):
    job: str


Message = Registration | Status | Progress | Failed | Result | UploadRequest

_KINDS: Final[dict[int, type[Message]]] = {
    Code.REGISTRATION: Registration,
    Code.STATUS: Status,
    Code.PROGRESS: Progress,
    Code.FAILED: Failed,
    Code.JOB: Result,
    Code.UPLOAD: UploadRequest,
}


class Session(NamedTuple):
    """What a worker names to go on after a lost connection: its node, and the secret of that."""

    node: NodeId
    secret: str

    def encode(self) -> str:
        return f"{self.node}.{self.secret}"


def read_message(text: bytes) -> Message:
    """What the worker said; BadInput with a sentence for it if that is none of its messages."""
    try:
        said = msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        raise BadInput("a text message is a JSON object with a code") from None
    code = said.get("code")
    kind = _KINDS.get(code) if isinstance(code, int) and not isinstance(code, bool) else None
    if kind is None:
        raise BadInput(f"{show(code, 20)} is no code of a worker: use 0, 1, 3, 4, 5 or 9")
    try:
        message = messages.tidy(msgspec.convert(said, kind))
    except msgspec.ValidationError as error:
        raise BadInput(f"code {code}: {error}") from None
    if not isinstance(message, Status | Result | UploadRequest):
        messages.check(message)
    return message


def read_session(text: str | None) -> Session | None:
    """The session that a text names; None if it is none, so that a worker begins anew."""
    node, _, secret = (text or "").partition(".")
    return Session(NodeId(int(node)), secret) if _is_number(node) and secret else None


def name_job(task: TaskId, fence: Fence) -> str:
    return f"{task}.{fence}"


def read_job(text: str, node: NodeId) -> Lease:
    """The lease that a worker speaks of. BadInput if it is no name of a job."""
    task, _, fence = text.partition(".")
    if not (_is_number(task) and _is_number(fence)):
        raise BadInput(f"{text!r:.40} is no job: name it as it was named when it came")
    return Lease(TaskId(int(task)), Fence(int(fence)), node)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) < _LARGEST
