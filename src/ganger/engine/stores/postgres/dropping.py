"""How tasks leave the store: their rows, their edges, and what others counted of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ganger.core.event import Fact
from ganger.core.state import is_final
from ganger.engine.stores.postgres.cascade import Cascade, resume
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row, columns
from ganger.engine.stores.postgres.step import Step

OUTPUT_BYTES: Final = (0, "output_bytes")
_ALL_EDGES: Final = 1 << 40


class Leaving(NamedTuple):
    """What is asked of a task that goes."""

    id: int
    queue: int
    status: int
    fence: int
    kids: int
    grp: int | None
    limit_key: str | None


def leaving(row: Row) -> Leaving:
    return Leaving(row.id, row.queue, row.status, row.fence, row.kids, row.grp, row.limit_key)


async def tell_children(step: Step, ids: Iterable[int]) -> None:
    """Follow at once what was left to follow of these: an edge that goes with its parent would never be decided."""
    rows = await step.run(Q.follow_of, list(ids))
    if rows:
        await resume(step, rows, _ALL_EDGES)


async def drop(step: Step, rows: Sequence[Leaving], quietly: bool = False) -> None:
    """Remove tasks that are not leased, with everything that is theirs; groups that lose a member may end.

    `quietly`: retention tells no event: a follower that is a week behind has nothing to follow.
    """
    ids = [row.id for row in rows]
    kept = set(ids)
    gone = await step.run(Q.edges_drop_to, ids)
    lost = Counter(parent for (parent,) in gone if parent not in kept)
    if lost:
        await step.run(Q.kids_add, list(lost), [-n for n in lost.values()])
    if freed := await step.one(Q.tasks_drop, ids):
        step.add(*OUTPUT_BYTES, -freed)
    for row in rows:
        step.count(row.queue, row.status, -1)
        if not quietly:
            step.tell(Fact.REMOVED, row.queue, 0, ((row.id, row.status, row.fence, None),))
        if row.limit_key is not None:
            step.keys.add((row.queue, row.limit_key))
    await _leave_groups(step, [row for row in rows if row.grp is not None and row.grp not in kept])


async def _leave_groups(step: Step, rows: list[Leaving]) -> None:
    """A member that goes before its end is not waited for any more."""
    open_members = Counter(row.grp for row in rows if row.grp is not None and not is_final(row.status))
    if open_members:
        await step.run(Q.groups_left, *columns(open_members.items(), 2))
    cascade = Cascade(step)
    await cascade.end_groups(open_members)
    await cascade.run()
