"""Foreign exceptions become errors of the tree here, once."""

from typing import Final

from bson.errors import InvalidBSON, InvalidDocument, InvalidStringData
from pymongo import errors

from ganger.core.errors import (
    BadInput,
    GangerError,
    PayloadTooLarge,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

LOST: Final = (
    errors.ConnectionFailure,
    errors.WTimeoutError,
    errors.ExecutionTimeout,
    errors.WaitQueueTimeoutError,
    OSError,
    TimeoutError,
)
"""The server is not there, or not any more, or has not said in time whether enough of its members have a write."""

_UNREADABLE: Final = (InvalidDocument, InvalidStringData, InvalidBSON, UnicodeEncodeError, OverflowError)
_SAID: Final[dict[int, tuple[type[GangerError], str]]] = {
    13: (StoreReadOnly, "the user may not do this: grant it readWrite on the database"),
    18: (StoreUnavailable, "the server refuses this user: check the URL"),
    8000: (StoreUnavailable, "the server refuses this user: check the URL"),
    14031: (StoreFull, "the disk of the database server is full: free some space there"),
}
_LONGEST: Final = 200
_GONE: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""What a server says that is shutting down, or is not the primary any more."""


def is_lost(error: Exception) -> bool:
    """Was the server not there, so that the same may be asked again when it is?"""
    return isinstance(error, LOST) or (isinstance(error, errors.OperationFailure) and error.code in _GONE)


def translate(error: Exception, doing: str) -> GangerError:
    """The error of the tree for what the driver or an operation raised; one of the tree stays as it is."""
    if isinstance(error, GangerError):
        return error
    if isinstance(error, errors.DocumentTooLarge):
        return PayloadTooLarge(f"MongoDB keeps no document that large: put it into a blob ({error})", doing=doing)
    if isinstance(error, _UNREADABLE):
        return BadInput(f"MongoDB cannot keep this value: {_word(error)}", doing=doing)
    if isinstance(error, errors.OperationFailure) and error.code in _SAID:
        kind, advice = _SAID[error.code]
        return kind(f"{advice} ({error})", doing=doing)
    if is_lost(error):
        return unavailable(error, doing)
    return StoreError(f"{doing} failed with {type(error).__name__}: {_word(error)}", doing=doing)


def _word(error: Exception) -> str:
    """What the server says, without the documents that it refuses."""
    if not isinstance(error, errors.BulkWriteError):
        return str(error)[:_LONGEST]
    refused = [f"{one.get('errmsg')}" for one in (error.details or {}).get("writeErrors", [])[:1]]
    return ", ".join(["writing several documents", *refused])[:_LONGEST]


def unavailable(error: Exception, doing: str) -> StoreUnavailable:
    said = (str(error) or type(error).__name__)[:200]
    return StoreUnavailable(f"the database server cannot be reached: is it running? ({said})", doing=doing)
