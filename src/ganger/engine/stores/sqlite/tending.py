"""How the store is kept in order: promotion, what was left to follow, lapsed leases, retention.

Retention follows the event log from its old end: the event that made a task final is as old as the task's end, so no
index by age is needed. Members of a group that is not final yet are spared, and go just before the group. An event goes
when every task that it leads to is gone, and never before an older one: what is left over is found again.
"""

from array import array
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from ganger.core.clock import Wall
from ganger.core.state import is_final
from ganger.core.task import Kind
from ganger.databases.sqlite import Session, prune_units
from ganger.engine.store import Lapsed, Tend, Tended
from ganger.engine.stores.sqlite.cascade import resume
from ganger.engine.stores.sqlite.claiming import promote
from ganger.engine.stores.sqlite.dropping import OUTPUT_BYTES, drop
from ganger.engine.stores.sqlite.joining import lose
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.moving import Row
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import EntryRow, Step

_entries = msgspec.msgpack.Decoder(list[EntryRow])


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
    cascade = resume(step, step.run(Q.follow_next, (most,)), most)
    return Tended(most - cascade.budget, bool(list(step.run(Q.follow_next, (1,)))), [])


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
        if len(found) >= most:
            break
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
    old, ended = _old_events(step, before, most)
    dropped, whole = _drop_ended(step, ended, before, most)
    if old and whole:
        step.run(Q.events_drop, (old[-1],))
    step.run(Q.nodes_drop, (before,))
    prune_units(step.session, before)
    _forget_lanes(step)
    return Tended(dropped + len(old) * whole, bool(old) and (whole or dropped > 0), [])


def _old_events(step: Step, before: Wall, most: int) -> tuple[list[int], set[int]]:
    """The oldest events, until they tell of `most` ends or are not old any more; and the tasks that ended."""
    positions: list[int] = []
    ended: set[int] = set()
    for position, at, entries in step.run(Q.events_oldest, (most,)):
        if at >= before or len(ended) >= most:
            break
        positions.append(position)
        ended |= {entry[0] for entry in _entries.decode(entries) if is_final(entry[1])}
    return positions, ended


class Droppable(NamedTuple):
    """What may go now. `untold`: one of them still has children that must hear of its end first."""

    rows: list[Row]
    groups: list[int]
    untold: bool


def _drop_ended(step: Step, ids: Collection[int], before: Wall, most: int) -> tuple[int, bool]:
    """Drop at most so many tasks and edges, members before their group; how many, and whether nothing is left over."""
    levels, dropped = [ids] if ids else [], 0
    while levels:
        found = _droppable(step, levels[-1], before)
        if found.untold:
            return dropped, False
        if members := _members(step, found.groups, before, most - dropped):
            levels.append(members)
            continue
        chosen, spent = _afford(step, found.rows, most - dropped)
        drop_quietly(step, chosen)
        dropped += spent
        if len(chosen) < len(found.rows):
            return dropped, False
        levels.pop()
    return dropped, True


def _afford(step: Step, rows: list[Row], room: int) -> tuple[list[Row], int]:
    """The first that fit in with their edges, and how much that is; of one that never will, edges go ahead of it."""
    spent = 0
    for index, row in enumerate(rows):
        if spent + 1 + row.kids > room:
            return rows[:index], spent or _cut_edges(step, row, room)
        spent += 1 + row.kids
    return rows, spent


def _cut_edges(step: Step, row: Row, most: int) -> int:
    """Drop some edges of a parent whose children have all been told."""
    cut = len(list(step.run(Q.edges_cut, (row.id, most))))
    step.run(Q.kids_add, (-cut if cut == most else -row.kids, row.id))
    return cut


def _droppable(step: Step, ids: Collection[int], before: Wall) -> Droppable:
    """Those that are still there, are final, and belong to no group that is not."""
    rows, groups, untold = [], [], False
    for *task, ended, group_status, kind, follows in step.run(Q.prune_read, (apsw.carray(array("q", ids)),)):
        if is_final(task[3]) and ended < before and (group_status is None or is_final(group_status)):
            rows.append(Row._make(task))
            groups += [task[0]] * (kind == Kind.GROUP)
            untold = untold or bool(follows)
    return Droppable(rows, groups, untold)


def _members(step: Step, groups: list[int], before: Wall, most: int) -> list[int]:
    """Members of these groups that ended before then. The others have events of their own to come."""
    found: list[int] = []
    for group in groups:
        found += [member for (member,) in step.run(Q.members_ended, (group, before, most - len(found)))]
        if len(found) >= most:
            break
    return found


def drop_quietly(step: Step, rows: list[Row]) -> None:
    """Retention tells no event: a follower that is a week behind has nothing to follow."""
    if not rows:
        return
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
