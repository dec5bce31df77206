"""How a worker of protocol 2 goes: in order, without a word, or because it is given up."""

from typing import NamedTuple

from ganger.core.errors import GangerError
from ganger.core.lease import Lease
from ganger.core.node import Node
from ganger.core.outcome import Crashed, Outcome, Release
from ganger.core.queue import Queue
from ganger.core.state import LEASED, Status
from ganger.engine.store import Query
from ganger.faces.http.grants import Grant
from ganger.faces.jobs.backend import JobsBackend
from ganger.wire.jobs.second import MOST_SLOTS


class Here(NamedTuple):
    """A worker that was let in."""

    number: int
    identity: str
    queue: Queue
    node: Node
    secret: str
    grant: Grant | None
    urls: bool


async def leave(backend: JobsBackend, here: Here) -> None:
    """It wants no more: what it had goes back, and is not blamed."""
    try:
        await backend.engine.nodes.leave(here.node.id, here.secret)
    except GangerError as error:
        # Its registration ends by itself.
        backend.telemetry.event("worker_not_left", worker=here.identity, error=error.code)


async def await_return(backend: JobsBackend, here: Here) -> None:
    """Its connection is lost: what it has waits for it a little while. If it is back already, it keeps its time."""
    if backend.workers.find_number(here.node.id) is not None:
        return
    try:
        await backend.engine.nodes.beat(here.node.id, here.secret, lease=backend.limits.back)
    except GangerError as error:
        # Then they wait for as long as its lease is.
        backend.telemetry.event("worker_not_renewed", worker=here.identity, error=error.code)


async def give_up(backend: JobsBackend, here: Here, reason: str) -> None:
    """It does not answer: its jobs go to others at once, and those that it had whole count a crash."""
    try:
        await _take_back(backend, here, reason)
    except GangerError as error:
        # Its lease ends by itself, and upkeep gives the jobs back then.
        backend.telemetry.event("worker_not_given_up", worker=here.identity, error=error.code)
    await leave(backend, here)


async def _take_back(backend: JobsBackend, here: Here, reason: str) -> None:
    held = (await backend.engine.find(Query(holder=here.node.id, most=MOST_SLOTS))).tasks
    had: list[tuple[Lease, Outcome]] = [
        (Lease(task.id, task.fence, here.node.id), Crashed(reason) if task.status == Status.RUNNING else Release())
        for task in held
        if task.status in LEASED
    ]
    await backend.engine.settle_leases(had)
    for _, outcome in had:
        if isinstance(outcome, Crashed):
            backend.workers.tally(here.identity, succeeded=False)
