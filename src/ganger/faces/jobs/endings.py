"""Why a connection of a worker ends, and what that means for its job."""

from typing import Final, NamedTuple

from ganger.core.errors import NodeGone, StaleLease
from ganger.core.outcome import Crashed, Outcome, Release
from ganger.faces.http.request import ClientGone
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import Telemetry
from ganger.wire.websocket import frames
from ganger.wire.websocket.frames import Violation

_COME_BACK: Final = 1012


class Ending(NamedTuple):
    """Why a connection ends, and what that means for a job that was all sent."""

    code: int
    reason: str
    outcome: Outcome


def explain(error: BaseException | None, stopping: bool, telemetry: Telemetry) -> Ending:
    """What the end of a conversation means; `stopping`: the server is."""
    if error is None or isinstance(error, ClientGone):
        return _tell_gone(stopping)
    if isinstance(error, Violation):
        return Ending(error.code, error.reason, Crashed(f"the worker broke the protocol: {error}"))
    telemetry.event("worker_session_failed", error=name_fault(error))
    if isinstance(error, NodeGone | StaleLease):
        return Ending(_COME_BACK, "the server lost its hold on this worker: connect again", Release())
    return Ending(frames.BROKEN, "the server cannot go on now: connect again later", Release())


def _tell_gone(stopping: bool) -> Ending:
    if stopping:
        return Ending(frames.GOING_AWAY, "the server is stopping: connect again in a moment", Release())
    return Ending(frames.NORMAL, "", Crashed("its worker disconnected"))
