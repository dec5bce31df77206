"""Identities: integers that a store hands out, and their faces at the doors.

An id is a positive 63-bit integer from the store's counter. A *position* is an order: a reader who has seen position n
has seen everything that will ever be below n. The two are not the same number where several writers commit at once.
"""

import re
import uuid
from typing import Final, NewType

from ganger.core.errors import BadInput

TaskId = NewType("TaskId", int)
QueueId = NewType("QueueId", int)
NodeId = NewType("NodeId", int)
"""One registration of a node (a session): a node that comes back under the same name has a new one."""

BatchId = NewType("BatchId", int)
Position = NewType("Position", int)
Fence = NewType("Fence", int)

_TOP = 1 << 63
_OBJECT_ID: Final = re.compile("[0-9a-fA-F]{24}")


def to_uuid(tag: int, task: TaskId) -> uuid.UUID:
    """The face of an id at the jobs door: the store's tag (64 bits) and the id; nothing of it is random."""
    return uuid.UUID(int=((tag & (2 * _TOP - 1)) << 64) | task)


def from_uuid(tag: int, face: uuid.UUID) -> TaskId:
    value = face.int & (2 * _TOP - 1)
    if face.int >> 64 != tag or not 0 < value < _TOP:
        raise BadInput(f"{face} is not an id of this store", id=str(face))
    return TaskId(value)


def to_object_id(created_seconds: int, task: TaskId) -> str:
    """The face of an id in MongoDB: 4 bytes of creation time and the id, so it sorts among foreign ones."""
    return f"{created_seconds & 0xFFFFFFFF:08x}{task:016x}"


def from_object_id(face: str) -> TaskId:
    """The id in an ObjectId that Ganger made; a foreign one needs its stored alias instead."""
    value = int(face[8:], 16) if _OBJECT_ID.fullmatch(face) else 0
    if not 0 < value < _TOP:
        raise BadInput(f"{face!r} is not an id that Ganger made", id=face)
    return TaskId(value)
