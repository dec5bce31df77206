"""Errors as RFC 9457 has them: a status for programs that know HTTP, a stable code for those that know Ganger.

The status of an error is that of its class, or of the nearest class above it that has one. What only tells a stranger
how the server is built (a path, a broken disk) stays here: of damage and of a broken store the code is told alone.
"""

from typing import Any, Final

import msgspec

from ganger.core import errors
from ganger.core.errors import GangerError
from ganger.faces.http.reply import PROBLEM, Header, Reply

STATUSES: Final[dict[type[GangerError], int]] = {
    GangerError: 500,
    errors.BadInput: 400,
    errors.PayloadTooLarge: 413,
    errors.WrongMethod: 405,
    errors.NotFound: 404,
    errors.BlobMissing: 500,
    errors.Conflict: 409,
    errors.StalePage: 410,
    errors.TurnedAway: 403,
    errors.NotAuthenticated: 401,
    errors.NotAllowed: 403,
    errors.TooManyRequests: 429,
    errors.TooSlow: 408,
    errors.Damage: 500,
    errors.StoreError: 503,
    errors.StoreFull: 507,
    errors.StoreBroken: 500,
    errors.ForkedHandle: 500,
    errors.StoreNotADatabase: 500,
    errors.StoreNewerVersion: 500,
    errors.StoreOnNetworkFilesystem: 500,
    errors.StoreMissingFolder: 500,
    errors.FormatTooNew: 500,
}
_HIDDEN: Final = "the server cannot do this now; its operator finds the reason in its log"
_AGAIN: Final = frozenset({429, 503})
_RETRY_AFTER: Final = 1


def choose_status(error: GangerError) -> int:
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def answer_error(error: GangerError) -> Reply:
    """The problem document of an error."""
    status = choose_status(error)
    hidden = status == 500
    told: dict[str, Any] = {
        "type": f"urn:ganger:error:{error.code}",
        "title": error.code.replace("_", " "),
        "status": status,
        "detail": _HIDDEN if hidden else error.message,
        "code": error.code,
    }
    if not hidden and error.fields:
        told["fields"] = dict(error.fields)
    return Reply(status, msgspec.json.encode(told), PROBLEM, _headers(error, status))


def _headers(error: GangerError, status: int) -> tuple[Header, ...]:
    if status == 401:
        return ((b"www-authenticate", b'Bearer realm="ganger"'),)
    if status == 405:
        allow = error.fields.get("allow")
        return ((b"allow", ", ".join(map(str, allow)).encode()),) if isinstance(allow, list) else ()
    return ((b"retry-after", b"%d" % _wait(error)),) if status in _AGAIN else ()


def _wait(error: GangerError) -> int:
    """After how many seconds it may be tried again."""
    said = error.fields.get("retry_after")
    return said if isinstance(said, int) else _RETRY_AFTER
