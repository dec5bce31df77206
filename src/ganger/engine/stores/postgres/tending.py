"""How the store is kept in order: promotion, what was left to follow, lapsed leases, retention.

Retention follows the event log from its old end: the event that made a task final is as old as the task's end, so no
index by age is needed. Members of a group that is not final yet are spared, and go just before the group. An event goes
when every task that it leads to is gone, and never before an older one: what is left over is found again.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from ganger.core.clock import Wall
from ganger.core.state import is_final
from ganger.core.task import Kind
from ganger.engine.store import Lapsed, Tend, Tended
from ganger.engine.stores.postgres.cascade import resume
from ganger.engine.stores.postgres.claiming import promote
from ganger.engine.stores.postgres.dropping import OUTPUT_BYTES, Leaving, drop
from ganger.engine.stores.postgres.joining import lose
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.step import EntryRow, Step

_entries = msgspec.msgpack.Decoder(list[EntryRow])


async def tend(step: Step, request: Tend) -> Tended:
    done = await _tend(step, request)
    await step.finish()
    return done


async def _tend(step: Step, request: Tend) -> Tended:
    if request.promote:
        return await _promote(step, request.most)
    if request.release:
        return await _release(step, request.most)
    if request.lapse:
        return await _lapse(step, request.most)
    if request.prune_before is not None:
        return await _prune(step, request.prune_before, request.most)
    if request.trim_output is not None:
        return await _trim(step, request.trim_output, request.most)
    named = {blob for (blob,) in await step.run(Q.blobs_named, request.blobs)}
    return Tended(0, False, [], blobs=tuple(blob for blob in request.blobs if blob not in named))


async def _promote(step: Step, most: int) -> Tended:
    queues = list(step.shelf.queues)
    done = await promote(step, queues, most)
    await refill(step)
    return Tended(done, done >= most, [], await step.one(Q.next_due, queues))


async def _release(step: Step, most: int) -> Tended:
    left = await step.run(Q.follow_next, most)
    if not left:
        return Tended(0, False, [])
    step.run_alone()
    cascade = await resume(step, left, most)
    return Tended(most - cascade.budget, await step.one(Q.follow_any), [])


async def _lapse(step: Step, most: int) -> Tended:
    here = await step.here()
    for known in here:
        if not step.is_live(known):
            step.run_alone()
            await lose(step, known.node)
    lapsed = await _lapsed(step, most)
    ends = [_end_of(step, known.node.until, known.term) for known in here if step.is_live(known)]
    first = await step.one(Q.next_until, step.now, step.steady)
    ends += [] if first is None else [first]
    return Tended(len(lapsed), len(lapsed) >= most, lapsed, min(ends, default=None))


def _end_of(step: Step, until: int, term: int) -> int:
    """When a lease can be seen to have ended."""
    return until if step.now < until else step.now + max(1, term - step.steady)


async def _lapsed(step: Step, most: int) -> list[Lapsed]:
    found: dict[int, Lapsed] = {}
    if await step.one(Q.uncleared_any):
        step.run_alone()
        await step.run(Q.nodes_clear)
        found = {row[0]: _lapsed_from(step, row) for row in await step.run(Q.lapsed_gone, most)}
    for row in await step.run(Q.lapsed_touched, step.now, step.steady, most):
        found.setdefault(row[0], _lapsed_from(step, row))
    return list(found.values())[:most]


def _lapsed_from(step: Step, row: Sequence[Any]) -> Lapsed:
    task, fence, status, started, left, crashes, retry, queue, kill, holder = row
    policy = step.shelf.queues[queue].policy
    return Lapsed(task, fence, status, started, left, crashes, retry or policy.retry, policy.on_lost, kill, holder)


async def _prune(step: Step, before: Wall, most: int) -> Tended:
    old, ended = await _old_events(step, before, most)
    if not old and not _over_lanes(step) and not await step.one(Q.nodes_old, before):
        return Tended(0, False, [])
    step.run_alone()
    dropped, whole = await _drop_ended(step, ended, before, most)
    if old and whole:
        await step.run(Q.events_drop, old[-1])
    await step.run(Q.nodes_drop, before)
    await _forget_lanes(step)
    return Tended(dropped + len(old) * whole, bool(old) and (whole or dropped > 0), [])


async def _old_events(step: Step, before: Wall, most: int) -> tuple[list[int], set[int]]:
    """The oldest events, until they tell of `most` ends or are not old any more; and the tasks that ended."""
    positions: list[int] = []
    ended: set[int] = set()
    for position, at, entries in await step.run(Q.events_oldest, most):
        if at >= before or len(ended) >= most:
            break
        positions.append(position)
        ended |= {entry[0] for entry in _entries.decode(entries) if is_final(entry[1])}
    return positions, ended


class Droppable(NamedTuple):
    """What may go now. `untold`: one of them still has children that must hear of its end first."""

    rows: list[Leaving]
    groups: list[int]
    untold: bool


async def _drop_ended(step: Step, ids: Collection[int], before: Wall, most: int) -> tuple[int, bool]:
    """Drop at most so many tasks and edges, members before their group; how many, and whether nothing is left over."""
    levels, dropped = [ids] if ids else [], 0
    while levels:
        found = await _droppable(step, levels[-1], before)
        if found.untold:
            return dropped, False
        if found.groups and (members := await _members(step, found.groups, before, most - dropped)):
            levels.append(members)
            continue
        chosen, spent = await _afford(step, found.rows, most - dropped)
        if chosen:
            await drop(step, chosen, quietly=True)
        dropped += spent
        if len(chosen) < len(found.rows):
            return dropped, False
        levels.pop()
    return dropped, True


async def _afford(step: Step, rows: list[Leaving], room: int) -> tuple[list[Leaving], int]:
    """The first that fit in with their edges, and how much that is; of one that never will, edges go ahead of it."""
    spent = 0
    for index, row in enumerate(rows):
        if spent + 1 + row.kids > room:
            return rows[:index], spent or await _cut_edges(step, row, room)
        spent += 1 + row.kids
    return rows, spent


async def _cut_edges(step: Step, row: Leaving, most: int) -> int:
    """Drop some edges of a parent whose children have all been told."""
    cut = len(await step.run(Q.edges_cut, row.id, most))
    await step.run(Q.kids_add, [row.id], [-cut if cut == most else -row.kids])
    return cut


async def _droppable(step: Step, ids: Collection[int], before: Wall) -> Droppable:
    """Those that are still there, are final, and belong to no group that is not."""
    found = Droppable([], [], False)
    for row in await step.run(Q.prune_read, list(ids)):
        free = row["group_status"] is None or is_final(row["group_status"])
        if is_final(row["status"]) and row["ended"] < before and free:
            found.rows.append(Leaving(*(row[name] for name in Leaving._fields)))
            found.groups.extend([row["id"]] * (row["kind"] == Kind.GROUP))
            found = found._replace(untold=found.untold or row["follows"])
    return found


async def _members(step: Step, groups: list[int], before: Wall, most: int) -> list[int]:
    """Members of these groups that ended before then. The others have events of their own to come."""
    return [member for (member,) in await step.run(Q.members_done, groups, before, most)]


def _over_lanes(step: Step) -> list[int]:
    """Lanes that avoid nobody any more."""
    return [number for number, lane in step.shelf.lanes.items() if number < 0 and lane.avoid_until < step.wall]


async def _forget_lanes(step: Step) -> None:
    over = _over_lanes(step)
    for (number,) in await step.run(Q.lanes_forget, over) if over else ():
        step.change_shelf().forget_lane(number)


async def _trim(step: Step, limit: int, most: int) -> Tended:
    excess = await step.one(Q.book_one, *OUTPUT_BYTES) - limit
    if excess <= 0:
        return Tended(0, False, [])
    step.run_alone()
    rows, freed = [], 0
    for number, size in await step.run(Q.output_oldest, most):
        if freed >= excess:
            break
        rows.append(number)
        freed += size
    if rows:
        await step.run(Q.output_drop, rows)
        step.add(*OUTPUT_BYTES, -freed)
    return Tended(len(rows), bool(rows) and freed < excess, [])
