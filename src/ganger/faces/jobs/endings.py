"""Why a connection of a worker ends, and what that means for its job."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple

from ganger.core.errors import NodeGone, StaleLease
from ganger.core.outcome import Crashed, Outcome, Release
from ganger.faces.http.request import ClientGone
from ganger.faces.jobs.workers import KICKED
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


SENT_AWAY: Final = Ending(frames.NOT_WANTED, KICKED, Release())


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


async def end_all(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """End what is left of a conversation."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def race(*works: Coroutine[Any, Any, None]) -> BaseException | None:
    """Do all of it until one has ended, and end the others; the error of the one. All are asked for theirs."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_all(tasks)
    errors = {task: None if task.cancelled() else task.exception() for task in tasks}
    return next((errors[task] for task in done), None)
