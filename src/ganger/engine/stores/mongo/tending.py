"""How the store is kept in order: promotion, what strangers did, lapsed leases, retention."""

from collections.abc import Iterable
from typing import Final

from ganger.core.clock import Wall
from ganger.core.errors import BadInput
from ganger.core.node import NodeState
from ganger.engine.store import Lapsed, Tend, Tended
from ganger.engine.stores.mongo import choices
from ganger.engine.stores.mongo.claiming import promote
from ganger.engine.stores.mongo.joining import lose_silent
from ganger.engine.stores.mongo.noting import OUTPUT_BYTES
from ganger.engine.stores.mongo.odd import judge_task
from ganger.engine.stores.mongo.reconciling import reconcile
from ganger.engine.stores.mongo.removing import forget, forget_output
from ganger.engine.stores.mongo.row import Row
from ganger.engine.stores.mongo.sharing import meet
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.strange import old_of_strangers
from ganger.engine.stores.mongo.tables import CHUNKS, DATA, EVENTS, NODES, SEEN, TASKS

UNTIL_INDEXED: Final = 1_000
"""Milliseconds after which upkeep looks again whether the indexes are there."""


async def tend(step: Step, request: Tend) -> Tended:
    if not step.indexed and not request.release:
        return Tended(0, False, [], next_at=(step.now if request.lapse else step.wall) + UNTIL_INDEXED)
    match request:
        case Tend(promote=True):
            return await _promote(step, request.most)
        case Tend(release=True):
            return await reconcile(step, request.most)
        case Tend(lapse=True):
            return await _lapse(step, request.most)
        case Tend(prune_before=int(before)):
            return await _prune(step, Wall(before), request)
        case Tend(trim_output=int(room)):
            return await _trim(step, room, request.most)
        case Tend(blobs=(_, *_)):
            return Tended(0, False, [], blobs=await _find_unnamed(step, request.blobs))
        case _:
            raise BadInput("a step of upkeep is one of promote, release, lapse, prune_before, trim_output and blobs")


async def _promote(step: Step, most: int) -> Tended:
    done = await promote(step, None, most)
    first = await step.draft.select(choices.delayed(None), 1)
    due = first[0].task.due if first else None
    return Tended(done, due is not None and due <= step.wall, [], due)


async def _lapse(step: Step, most: int) -> Tended:
    done = await lose_silent(step)
    gone = [row.node.id for row in await step.draft.select(choices.gone())]
    lost = await step.draft.select(choices.active_of_nodes(gone), most + 1) if gone else []
    touched = [row for row in await step.draft.select(choices.touched(step.now), most + 1) if _is_over(step, row)]
    ended = {row.task.id: row for row in (*lost, *touched)}
    lapsed = [await _describe(step, ended[task]) for task in sorted(ended)[:most]]
    return Tended(done, len(ended) > most, lapsed, await _next_end(step))


def _is_over(step: Step, row: Row) -> bool:
    return row.task.until is not None and step.is_over(row.task.until, row.term)


async def _next_end(step: Step) -> int | None:
    """When a lease can next be seen to have ended."""
    here = [row for row in await step.draft.select(choices.here()) if row.node.here]
    ends = [_end_of(step, row.node.until, row.term) for row in here]
    late = await step.draft.select(choices.touched(step.now), 100)
    ends += [_end_of(step, row.task.until or 0, row.term) for row in late if not _is_over(step, row)]
    coming = await step.draft.select(choices.touched_after(step.now), 1)
    ends += [row.task.until for row in coming if row.task.until is not None]
    return min(ends, default=None)


def _end_of(step: Step, until: int, term: int) -> int:
    return until if step.now < until else step.now + max(1, term - step.steady)


async def _describe(step: Step, row: Row) -> Lapsed:
    task = row.task
    node = await step.node(task.holder)
    policy = (await step.queue(task.queue)).policy
    return Lapsed(
        task=task.id,
        fence=task.fence,
        status=task.status,
        started=task.started is not None,
        left=node is not None and node.node.state == NodeState.LEFT,
        crashes=task.crashes,
        retry=task.retry if task.retry is not None else policy.retry,
        on_lost=policy.on_lost,
        kill=task.kill,
        holder=str(row.node) if node is None else node.node.name,
    )


async def _prune(step: Step, before: Wall, request: Tend) -> Tended:
    waited_for = {row.task.id for row in await step.draft.select(choices.open_groups())}
    most = request.most
    old = await step.draft.select(choices.prunable(before, waited_for, request.strangers), most + 1)
    if request.strangers and len(old) <= most:
        old += await _find_strange(step, before, most + 1 - len(old))
    for row in old[:most]:
        await forget(step, row)
    if request.strangers:
        return Tended(len(old[:most]), len(old) > most, [])
    events = await step.draft.select(choices.old_events(before), most + 1)
    for event in events[:most]:
        step.draft.drop(EVENTS, event.position)
    await _prune_nodes(step, before)
    return Tended(len(old[:most]), max(len(old), len(events)) > most, [])


async def _find_strange(step: Step, before: Wall, most: int) -> list[Row]:
    """Old tasks in which nothing of ours is written."""
    queues = {row.id: row for row in await step.queues() if row.shared}
    found = await step.session.find(TASKS.name, old_of_strangers(before, queues), most)
    await step.draft.load(SEEN, [document["_id"] for document in found])
    return [meet(step, one, queues[one["queue"]]) for one in found if judge_task(one) is None]


async def _prune_nodes(step: Step, before: Wall) -> None:
    for row in await step.draft.select(choices.gone()):
        old = row.node.seen < before
        if old and not await step.draft.count(choices.active_of_node(row.node.id)):
            step.draft.drop(NODES, row.node.id)


async def _trim(step: Step, room: int, most: int) -> Tended:
    """Whole outputs go, those of the tasks that ended first before others."""
    if step.session.last(OUTPUT_BYTES) <= room:
        return Tended(0, False, [])
    rows = await step.draft.select(choices.with_output(), most + 1)
    done = 0
    for row in rows[:most]:
        if step.session.last(OUTPUT_BYTES) <= room:
            break
        await forget_output(step, row.task.id)
        done += 1
    return Tended(done, step.session.last(OUTPUT_BYTES) > room and done < len(rows), [])


async def _find_unnamed(step: Step, hashes: Iterable[str]) -> tuple[str, ...]:
    where = {"blob": {"$in": list(hashes)}}
    named = [document["blob"] for name in (DATA.name, CHUNKS.name) for document in await step.session.find(name, where)]
    return tuple(blob for blob in hashes if blob not in named)
