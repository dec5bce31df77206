"""How tasks leave the store: their rows, their edges, and what others counted of them."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import apsw

from ganger.core.event import Fact
from ganger.core.state import is_final
from ganger.engine.stores.sqlite.cascade import Cascade, resume
from ganger.engine.stores.sqlite.moving import Row
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

OUTPUT_BYTES = (0, "output_bytes")
_ALL_EDGES = 1 << 40


def tell_children(step: Step, ids: Iterable[int]) -> None:
    """Follow at once what was left to follow of these: an edge that goes with its parent would never be decided."""
    resume(step, step.run(Q.follow_of, (apsw.carray(array("q", ids)),)), _ALL_EDGES)


def drop(step: Step, rows: Sequence[Row]) -> None:
    """Remove tasks that are not leased, with everything that is theirs; groups that lose a member may end."""
    ids = array("q", [row.id for row in rows])
    kept = set(ids)
    lost = Counter(parent for (parent,) in list(step.run(Q.edges_drop_to, (apsw.carray(ids),))) if parent not in kept)
    step.run_many(Q.kids_add, [(-n, parent) for parent, n in lost.items()])
    _drop_rows(step, ids)
    for row in rows:
        step.count(row.queue, row.status, -1)
        step.tell(Fact.REMOVED, row.queue, 0, ((row.id, row.status, row.fence, None),))
        if row.limit_key is not None:
            step.keys.add((row.queue, row.limit_key))
    _leave_groups(step, [row for row in rows if row.grp is not None and row.grp not in kept])


def _drop_rows(step: Step, ids: "array[int]") -> None:
    ((freed,),) = step.run(Q.output_size, (apsw.carray(ids),))
    if freed:
        step.counters[OUTPUT_BYTES] = step.counters.get(OUTPUT_BYTES, 0) - freed
    for statement in (Q.edges_drop_from, Q.data_drop_all, Q.output_drop_all, Q.attempts_drop, Q.task_drop):
        step.run(statement, (apsw.carray(ids),))


def _leave_groups(step: Step, rows: list[Row]) -> None:
    """A member that goes before its end is not waited for any more."""
    open_members = Counter(row.grp for row in rows if not is_final(row.status))
    step.run_many(Q.group_left, [(n, group) for group, n in open_members.items()])
    cascade = Cascade(step)
    cascade.end_groups([group for group in open_members if group is not None])
    cascade.run()
