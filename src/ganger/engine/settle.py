"""Attempts end: outcomes become moves, and the moves and the next claim are one step of the store."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ganger.core import outcome as law
from ganger.core.clock import Clock, Entropy, Wall
from ganger.core.errors import GangerError, TaskNotFound, WrongStatus
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.outcome import Crashed, Fail, Outcome, Succeed
from ganger.core.queue import OnLost
from ganger.core.retry import NEVER, to_text
from ganger.core.state import Move, move
from ganger.core.task import DEFAULT_PRIORITY, Claimed, Kind, Task
from ganger.engine.checks import check_size, check_whole, tidy
from ganger.engine.claim import Desk, answer_or_error, check_claim
from ganger.engine.limits import Limits
from ganger.engine.queues import Queues
from ganger.engine.refusal import refusal
from ganger.engine.store import Claim, Exchange, Exchanged, Store
from ganger.engine.witness import SettleCommitted, Witness

_NEVER = to_text(NEVER)


class Settled(NamedTuple):
    """`refused` pairs the index of an item with its verdict; the others are settled. The rest is the claim's answer."""

    refused: list[tuple[int, str]]
    claimed: list[Claimed]
    next_due: Wall | None = None
    waiting: bool = False


class Settling(NamedTuple):
    """What settling needs of the engine."""

    store: Store
    clock: Clock
    entropy: Entropy
    queues: Queues
    desk: Desk
    limits: Limits
    witness: Witness | None


async def settle(parts: Settling, items: Sequence[tuple[Claimed, Outcome]], claim: Claim | None = None) -> Settled:
    """Settle these, each by itself, and claim the next, in one step."""
    moves = await _prepare(parts, items, () if claim is None else (claim,))
    return await _exchange(parts, Exchange(moves, claim))


async def settle_each(
    parts: Settling, items: Sequence[tuple[Claimed, Outcome, Claim]], near: Callable[[], None] | None = None
) -> list[Settled | GangerError]:
    """Settle what several holders have done, and claim the next for each, in as few steps as the store can."""
    claims = [claim for _, _, claim in items]
    moves = await _prepare(parts, [(claimed, outcome) for claimed, outcome, _ in items], claims)
    requests = [Exchange((move,), claim) for move, claim in zip(moves, claims, strict=True)]
    replies = await parts.desk.exchange_each(requests, near)
    if parts.witness is None:
        return [reply if isinstance(reply, GangerError) else Settled(*reply) for reply in replies]
    told = (answer_or_error(_tell(parts, *pair)) for pair in zip(requests, replies, strict=True))
    return await asyncio.gather(*told)


async def _prepare(
    parts: Settling, items: Sequence[tuple[Claimed, Outcome]], claims: Sequence[Claim]
) -> tuple[Move, ...]:
    """The moves that these outcomes are. BadInput if something of them, or of the claims that go along, is wrong."""
    check_whole("the number of items", len(items), 0, parts.limits.items_per_step)
    for claim in claims:
        check_claim(claim, parts.limits)
    return _decide(parts, items, await _orphaning(parts, items))


async def _orphaning(parts: Settling, items: Sequence[tuple[Claimed, Outcome]]) -> Mapping[QueueId, str]:
    """What the queues of crashed attempts do with lost tasks; nothing is asked if none crashed."""
    queues = {claimed.queue for claimed, outcome in items if outcome.__class__ is Crashed}
    return {queue: (await parts.queues.get(queue)).policy.on_lost for queue in queues}


def _decide(
    parts: Settling, items: Sequence[tuple[Claimed, Outcome]], on_lost: Mapping[QueueId, str]
) -> tuple[Move, ...]:
    wall, payload = parts.clock.wall(), parts.limits.payload
    moves = []
    for claimed, outcome in items:
        if isinstance(outcome, Succeed):
            if outcome.result is not None:
                check_size("result", outcome.result, payload)
            moves.append(law.settle(claimed, outcome, wall, 0.0))
        else:
            lost = on_lost.get(claimed.queue, OnLost.RETRY)
            moves.append(_tidied(law.settle(claimed, outcome, wall, parts.entropy.uniform(), lost), parts.limits))
    return tuple(moves)


def _tidied(decided: Move, limits: Limits) -> Move:
    return decided if decided.reason is None else decided._replace(reason=tidy(decided.reason, limits.reason))


async def _exchange(parts: Settling, request: Exchange) -> Settled:
    exchange = parts.store.exchange if request.claim is None else parts.desk.exchange
    return await _tell(parts, request, await exchange(request))


async def _tell(parts: Settling, request: Exchange, reply: Exchanged | GangerError) -> Settled:
    """The reply, when it has been witnessed; if it cannot be, nobody will run what was claimed. Raises what it is."""
    if isinstance(reply, GangerError):
        raise reply
    if parts.witness is not None and request.moves:
        try:
            await parts.witness.witnessed(SettleCommitted(request, reply))
        except BaseException:
            parts.desk.give_back(reply.claimed)
            raise
    return Settled(*reply)


async def settle_leases(parts: Settling, items: Sequence[tuple[Lease, Outcome]]) -> Settled:
    """Settle for a door that knows no more than the leases: what the decision needs is read first."""
    unread = [lease.task for lease, outcome in items if isinstance(outcome, Fail | Crashed)]
    tasks = await parts.store.tasks(unread) if unread else []
    known = {task.id: task for task in tasks if task is not None}
    return await settle(parts, [(await _claimed(parts, lease, known), outcome) for lease, outcome in items])


async def _claimed(parts: Settling, lease: Lease, known: Mapping[TaskId, Task]) -> Claimed:
    task = known.get(lease.task)
    if task is None:
        # The outcomes that need no history, and tasks that are gone: the store refuses the latter.
        return _bare(lease)
    retry = task.retry or (await parts.queues.get(task.queue)).policy.retry
    return _bare(lease)._replace(
        queue=task.queue, kind=task.kind, priority=task.priority, attempts=task.attempts, crashes=task.crashes,
        retry=retry, timeout=task.timeout,
    )  # fmt: skip


def _bare(lease: Lease) -> Claimed:
    return Claimed(
        lease.task, QueueId(0), Kind.PAYLOAD, None, lease.fence, lease.holder, lease.until,
        DEFAULT_PRIORITY, 0, 0, _NEVER, None, 0,
    )  # fmt: skip


async def settle_by_lease(parts: Settling, lease: Lease, outcome: Outcome) -> None:
    """Settle one; StaleLease or TaskNotFound if it was refused."""
    settled = await settle_leases(parts, [(lease, outcome)])
    for _, verdict in settled.refused:
        raise refusal(lease.task, lease.fence, type(outcome).__name__.lower(), verdict)


async def conclude(parts: Settling, task: TaskId, branch: bool, failed: str | None = None) -> None:
    """End a condition that nothing else waits for: it chose a branch, or could not be judged."""
    (found,) = await parts.store.tasks([task])
    if found is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    if found.kind != Kind.CONDITION or found.waits:
        raise WrongStatus(f"task {task} is no condition that is free to be judged", task=task)
    decided = move(task, "conclude" if failed is None else "conclude_failed")._replace(branch=branch, reason=failed)
    settled = await _exchange(parts, Exchange((_tidied(decided, parts.limits),)))
    for _, verdict in settled.refused:
        raise refusal(task, 0, "a conclusion", verdict)
