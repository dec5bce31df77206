"""A holder at work: it starts, asks for more time, and says how far it is."""

from collections.abc import Sequence

from ganger.core.errors import BadNumber
from ganger.core.lease import Lease
from ganger.core.state import move
from ganger.engine.checks import check_delay, check_whole, tidy
from ganger.engine.limits import Limits
from ganger.engine.refusal import refusal
from ganger.engine.store import Exchange, Note, Progress, Store, Touch


async def start(store: Store, leases: Sequence[Lease], limits: Limits) -> list[tuple[int, str]]:
    """Say that these run now; the refused by index and verdict."""
    check_whole("the number of leases", len(leases), 0, limits.items_per_step)
    reply = await store.exchange(Exchange(tuple(move(lease.task, "start", lease.fence) for lease in leases)))
    return reply.refused


async def renew(store: Store, leases: Sequence[Lease], length: int | None, limits: Limits) -> list[tuple[int, str]]:
    """More time for touched leases: `length` from now, or the task's own ttr."""
    check_whole("the number of leases", len(leases), 0, limits.items_per_step)
    if length is not None:
        check_delay("length", length, limits.shortest_ttr)
    touch = Touch(length)
    return await store.write(tuple(Note(lease.task, lease.fence, touch=touch) for lease in leases))


async def progress(store: Store, lease: Lease, percent: float | None, info: str | None, limits: Limits) -> None:
    """Say how far the attempt is; StaleLease if it is not the holder's any more."""
    if percent is not None and not 0 <= percent <= 100:
        raise BadNumber(f"percent is {percent}; give 0 to 100", field="percent")
    said = Progress(percent, None if info is None else tidy(info, limits.reason))
    await write_one(store, Note(lease.task, lease.fence, progress=said), "progress")


async def write_one(store: Store, note: Note, what: str) -> None:
    """Store one note, or say why not."""
    for _, verdict in await store.write((note,)):
        raise refusal(note.task, note.fence, what, verdict)
