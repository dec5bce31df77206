"""One tree of errors, each with a code that never changes and a sentence that says what to do.

GangerError
├── BadInput            the request itself is wrong; sending it again is useless
│   ├── BadName  BadNumber  BadPolicy  BadCursor  BadBlobRef  PayloadTooLarge  WrongMethod
│   ├── UnknownParent  UnknownGroup
│   └── CycleFound
├── NotFound            TaskNotFound  QueueNotFound  NodeNotFound  BlobMissing
├── Conflict            the request is right, the state of things is not
│   ├── DuplicateKey  WrongStatus  StaleLease  StalePage  TaskHeld  QueueAmbiguous  QueueInUse
│   ├── NodeTaken  NodeGone
│   └── StaleVersion  StaleEpoch  LockBusy  LockLost
├── TurnedAway          NotAuthenticated  NotAllowed  NotRegistered  TooManyRequests  TooSlow
├── Damage              BlobCorrupt  AuditBroken  MigrationChanged  BadDocument
└── StoreError          the store cannot serve
    ├── StoreFull  StoreBroken  StoreClosed  ForkedHandle
    ├── StoreUnavailable  StoreReplaced
    └── StoreNotADatabase  StoreReadOnly  StoreNewerVersion  StoreOnNetworkFilesystem  StoreMissingFolder
        FormatTooNew
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

Field = str | int | float | bool | None | list[int] | list[str]


class GangerError(Exception):
    """The root. `fields` carries what a program needs to act on the error; `str()` is for people."""

    code: ClassVar[str] = "ganger_error"

    def __init__(self, message: str, /, **fields: Field) -> None:
        super().__init__(message)
        self.message = message
        self.fields: Mapping[str, Field] = fields

    def __reduce__(self) -> tuple[object, ...]:
        return decode, (self.code, self.message, dict(self.fields))


class BadInput(GangerError):
    code = "bad_input"


class BadName(BadInput):
    code = "bad_name"


class BadNumber(BadInput):
    code = "bad_number"


class BadPolicy(BadInput):
    code = "bad_policy"


class BadCursor(BadInput):
    code = "bad_cursor"


class BadBlobRef(BadInput):
    code = "bad_blob_ref"


class PayloadTooLarge(BadInput):
    code = "payload_too_large"


class WrongMethod(BadInput):
    code = "wrong_method"


class UnknownParent(BadInput):
    code = "unknown_parent"


class UnknownGroup(BadInput):
    code = "unknown_group"


class CycleFound(BadInput):
    code = "cycle_found"


class NotFound(GangerError):
    code = "not_found"


class TaskNotFound(NotFound):
    code = "task_not_found"


class QueueNotFound(NotFound):
    code = "queue_not_found"


class NodeNotFound(NotFound):
    code = "node_not_found"


class BlobMissing(NotFound):
    code = "blob_missing"


class Conflict(GangerError):
    code = "conflict"


class DuplicateKey(Conflict):
    code = "duplicate_key"


class WrongStatus(Conflict):
    code = "wrong_status"


class StaleLease(Conflict):
    code = "stale_lease"


class StalePage(Conflict):
    code = "stale_page"


class TaskHeld(Conflict):
    code = "task_held"


class QueueAmbiguous(Conflict):
    code = "queue_ambiguous"


class QueueInUse(Conflict):
    code = "queue_in_use"


class NodeTaken(Conflict):
    code = "node_taken"


class NodeGone(Conflict):
    code = "node_gone"


class StaleVersion(Conflict):
    code = "stale_version"


class StaleEpoch(Conflict):
    code = "stale_epoch"


class LockBusy(Conflict):
    code = "lock_busy"


class LockLost(Conflict):
    code = "lock_lost"


class TurnedAway(GangerError):
    code = "turned_away"


class NotAuthenticated(TurnedAway):
    code = "not_authenticated"


class NotAllowed(TurnedAway):
    code = "not_allowed"


class NotRegistered(NotAllowed):
    code = "not_registered"


class TooManyRequests(TurnedAway):
    code = "too_many_requests"


class TooSlow(TurnedAway):
    code = "too_slow"


class Damage(GangerError):
    code = "damage"


class BlobCorrupt(Damage):
    code = "blob_corrupt"


class AuditBroken(Damage):
    code = "audit_broken"


class MigrationChanged(Damage):
    code = "migration_changed"


class BadDocument(Damage):
    code = "bad_document"


class StoreError(GangerError):
    code = "store_error"


class StoreFull(StoreError):
    code = "store_full"


class StoreBroken(StoreError):
    code = "store_broken"


class StoreClosed(StoreError):
    code = "store_closed"


class StoreUnavailable(StoreError):
    code = "store_unavailable"


class StoreReplaced(StoreUnavailable):
    code = "store_replaced"


class ForkedHandle(StoreError):
    code = "forked_handle"


class StoreNotADatabase(StoreError):
    code = "store_not_a_database"


class StoreReadOnly(StoreError):
    code = "store_read_only"


class StoreNewerVersion(StoreError):
    code = "store_newer_version"


class StoreOnNetworkFilesystem(StoreError):
    code = "store_on_network_filesystem"


class StoreMissingFolder(StoreError):
    code = "store_missing_folder"


class FormatTooNew(StoreError):
    code = "format_too_new"


def tree(root: type[GangerError] = GangerError) -> Iterator[type[GangerError]]:
    """Every class of the tree below and with `root`."""
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def encode(error: GangerError) -> tuple[str, str, dict[str, Field]]:
    return error.code, error.message, dict(error.fields)


def decode(code: str, message: str, fields: Mapping[str, Field]) -> GangerError:
    """The error as it was raised elsewhere; a code from a newer version becomes the root class."""
    for kind in tree():
        if kind.code == code:
            return kind(message, **fields)
    return GangerError(message, **fields)
