"""Exchanges: notes, moves and claims of holders who wait at one moment, made in one step.

Eight workers that end a task and ask for the next within one commit would cost eight times the statements of one,
nearly all of it for the sake of a single row. So a step takes any number of exchanges: all moves are read, judged and
written together, ready tasks are read once and given out, and leases are written together. One exchange is a step of
one.

What can go wrong, and why this is right:

All moves come before the first claim, so a claim may get what a later exchange of the step has released. Nobody can
tell that from two exchanges that came the other way round: all of them wait for the same commit, and none has seen
anything of the others. Moves are applied in the order in which they came, and so are claims served.

What one claim gets, the next must not get, and it counts for every limit, though nothing is written yet: `Choice` takes
account of both.

One of them fails, because its node is gone. Then the whole step is taken back, and each is made by itself.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from ganger.core.clock import Wall
from ganger.databases.sqlite import Session, Together
from ganger.engine.store import Exchange, Exchanged
from ganger.engine.stores.sqlite.claiming import Head, claim_all, claimed_again
from ganger.engine.stores.sqlite.moving import apply, refusal
from ganger.engine.stores.sqlite.noting import take_notes
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

SMALL: Final = 16
"""Larger ones gain little by company, and many of them as one would hold up everybody else."""

Refused = list[tuple[int, str]]
Receipt = tuple[Refused, list[tuple[int, int]], int | None, bool]
_decoder = msgspec.msgpack.Decoder(Receipt)


def exchange(session: Session, request: Exchange) -> Exchanged:
    (reply,) = exchange_all(session, (request,))
    return reply


def exchange_all(session: Session, requests: Sequence[Exchange]) -> list[Exchanged]:
    step = Step(session)
    for request in requests:
        take_notes(step, request.notes)
    refused = _apply_all(step, requests)
    taken = iter(claim_all(step, [request.claim for request in requests if request.claim is not None]))
    for request in requests:
        step.act(request.act)
    step.finish()
    return [
        Exchanged(mine, []) if request.claim is None else Exchanged(mine, *next(taken))
        for request, mine in zip(requests, refused, strict=True)
    ]


def _apply_all(step: Step, requests: Sequence[Exchange]) -> list[Refused]:
    """For each request those of its own moves that were refused."""
    moves = [move for request in requests for move in request.moves]
    verdicts = dict(apply(step, moves))
    refused: list[Refused] = []
    first = 0
    for request in requests:
        own = range(first, first + len(request.moves))
        refused.append([(index - first, verdicts[index]) for index in own if index in verdicts] if verdicts else [])
        first = own.stop
        if request.all_or_nothing and refused[-1]:
            index, verdict = refused[-1][0]
            raise refusal(request.moves[index], verdict)
    return refused


def _is_small(request: Exchange) -> bool:
    """Does it move a few tasks, and ask for a few of whatever is ready?"""
    claim = request.claim
    asks_little = claim is None or (claim.most <= SMALL and not claim.ids)
    return asks_little and len(request.moves) <= SMALL and not request.all_or_nothing


TOGETHER: Final = Together(_is_small, exchange_all)


def exchange_receipt(reply: Exchanged) -> bytes:
    """The specs are in the tasks; the receipt only says which, and under which fence."""
    claimed = [(one.id, one.fence) for one in reply.claimed]
    return msgspec.msgpack.encode((reply.refused, claimed, reply.next_due, reply.waiting))


def replay_exchange(session: Session, receipt: bytes) -> Exchanged:
    """The reply again. A task whose lease has ended since then is left out: nobody may act on it."""
    refused, claimed, next_due, waiting = _decoder.decode(receipt)
    step = Step(session)
    again = []
    for task, fence in claimed:
        for *head, holder, status, until in step.run(Q.claimed_again, (task, fence)):
            again.append(claimed_again(step, Head._make(head), holder, status, until))
    return Exchanged(refused, again, None if next_due is None else Wall(next_due), waiting)
