"""How the store is kept in order: promotion, what was left to follow, lapsed leases, retention.

Retention follows the event log from its old end: the event that made a task final is as old as the task's end, so no
index by age is needed. Members of a group that is not final yet are spared, and go together with the group.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from ganger.core.clock import Wall
from ganger.core.state import is_final
from ganger.core.task import Kind
from ganger.databases.sqlite import Session, prune_units
from ganger.engine.store import Lapsed, Tend, Tended
from ganger.engine.stores.sqlite.cascade import Cascade, Ended
from ganger.engine.stores.sqlite.claiming import promote
from ganger.engine.stores.sqlite.dropping import OUTPUT_BYTES, drop
from ganger.engine.stores.sqlite.joining import lose
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.moving import Row
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import EntryRow, Step

_entries = msgspec.msgpack.Decoder(list[EntryRow])
_EVENTS_AT_ONCE = 20


def tend(session: Session, request: Tend) -> Tended:
    step = Step(session)
    done = _tend(step, request)
    step.finish()
    return done


def _tend(step: Step, request: Tend) -> Tended:
    if request.promote:
        return _promote(step, request.most)
    if request.release:
        return _release(step, request.most)
    if request.lapse:
        return _lapse(step, request.most)
    if request.prune_before is not None:
        return _prune(step, request.prune_before, request.most)
    if request.trim_output is not None:
        return _trim(step, request.trim_output, request.most)
    return Tended(
        0, False, [], blobs=tuple(hash for hash in request.blobs if not list(step.run(Q.blobs_named, (hash,))))
    )


def _promote(step: Step, most: int) -> Tended:
    done = 0
    for queue in step.shelf.queues:
        done += promote(step, queue, most - done)
    refill(step)
    times = [row[0] for queue in step.shelf.queues for row in step.run(Q.next_due, (queue,)) if row[0] is not None]
    return Tended(done, done >= most, [], min(times, default=None))


def _release(step: Step, most: int) -> Tended:
    rows = list(step.run(Q.follow_next))
    cascade = Cascade(step, budget=most)
    for parent, after, status, branch, reason in rows:
        step.run(Q.follow_done, (parent,))
        cascade.ended.append(Ended(parent, status, bool(branch), reason, 1, None, after))
    cascade.run()
    return Tended(most - cascade.budget, bool(list(step.run(Q.follow_next))), [])


def _lapse(step: Step, most: int) -> Tended:
    for node in [node for node in step.shelf.nodes.values() if not node.live(step.now)]:
        lose(step, node)
    lapsed = _lapsed(step, most)
    ends = [int(node.until) for node in step.shelf.nodes.values()]
    ends += [row[0] for row in step.run(Q.next_until) if row[0] is not None]
    return Tended(len(lapsed), len(lapsed) >= most, lapsed, min(ends, default=None))


def _lapsed(step: Step, most: int) -> list[Lapsed]:
    found: dict[int, Lapsed] = {}
    for (node,) in list(step.run(Q.lapsed_nodes)):
        rows = list(step.run(Q.lapsed_of_node, (node, most)))
        found |= {row[0]: _lapsed_from(step, row) for row in rows}
        if not rows:
            step.run(Q.node_cleared, (node,))
    for row in step.run(Q.lapsed_touched, (step.now, most)):
        found.setdefault(row[0], _lapsed_from(step, row))
    return list(found.values())[:most]


def _lapsed_from(step: Step, row: Sequence[Any]) -> Lapsed:
    task, fence, status, started, left, crashes, retry, queue, kill, holder = row
    policy = step.shelf.queues[queue].queue.policy
    return Lapsed(
        task, fence, status, bool(started), bool(left), crashes,
        retry or policy.retry, policy.on_lost, bool(kill), holder,
    )  # fmt: skip


def _prune(step: Step, before: Wall, most: int) -> Tended:
    read = list(step.run(Q.events_oldest, (_EVENTS_AT_ONCE,)))
    old = [row for row in read if row[1] < before]
    ended = {entry[0] for row in old for entry in _entries.decode(row[2]) if is_final(entry[1])}
    dropped = _drop_ended(step, ended, before)
    if old:
        step.run(Q.events_drop, (old[-1][0],))
    step.run(Q.nodes_drop, (before,))
    prune_units(step.session, before)
    _forget_lanes(step)
    return Tended(len(old) + dropped, len(old) == len(read) > 0, [])


def _drop_ended(step: Step, ids: set[int], before: Wall) -> int:
    """Drop those that are still there, are final, and belong to no group that is not."""
    dropped = 0
    while ids:
        rows, groups = [], []
        for row in step.run(Q.prune_read, (apsw.carray(array("q", ids)),)):
            *task, ended, group_status, kind = row
            if is_final(task[3]) and ended < before and (group_status is None or is_final(group_status)):
                rows.append(Row._make(task))
                groups += [task[0]] * (kind == Kind.GROUP)
        if rows:
            drop_quietly(step, rows)
        dropped += len(rows)
        ids = {member for group in groups for (member,) in step.run(Q.members_read, (group, 100_000))}
    return dropped


def drop_quietly(step: Step, rows: list[Row]) -> None:
    """Retention tells no event: a follower that is a week behind has nothing to follow."""
    told = dict(step.facts)
    drop(step, rows)
    step.facts = told


def _forget_lanes(step: Step) -> None:
    over = [number for number, lane in step.shelf.lanes.items() if number < 0 and lane.avoid_until < step.wall]
    for number in over:
        ((empty,),) = step.run(Q.lane_empty, (number,))
        if empty:
            step.shelf.forget_lane(step.session, number)


def _trim(step: Step, limit: int, most: int) -> Tended:
    excess = step.shelf.counters.get(OUTPUT_BYTES, 0) - limit
    rows, freed = [], 0
    for rowid, size in step.run(Q.output_oldest, (most,)) if excess > 0 else ():
        if freed >= excess:
            break
        rows.append(rowid)
        freed += size
    if rows:
        step.run(Q.output_drop, (apsw.carray(array("q", rows)),))
        step.counters[OUTPUT_BYTES] = step.counters.get(OUTPUT_BYTES, 0) - freed
    return Tended(len(rows), bool(rows) and freed < excess, [])
