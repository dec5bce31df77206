"""Moves and a claim in one step, and how its reply is rebuilt for a caller that did not get it."""

import msgspec

from ganger.core.clock import Wall
from ganger.databases.sqlite import Session
from ganger.engine.store import Exchange, Exchanged
from ganger.engine.stores.sqlite.claiming import Taken, claim, claimed_again
from ganger.engine.stores.sqlite.moving import apply, refusal
from ganger.engine.stores.sqlite.noting import take_notes
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

Receipt = tuple[list[tuple[int, str]], list[tuple[int, int]], int | None, bool]
_decoder = msgspec.msgpack.Decoder(Receipt)


def exchange(session: Session, request: Exchange) -> Exchanged:
    step = Step(session)
    if request.notes:
        take_notes(step, request.notes)
    refused = apply(step, request.moves) if request.moves else []
    if refused and request.all_or_nothing:
        index, verdict = refused[0]
        raise refusal(request.moves[index], verdict)
    taken = Taken([]) if request.claim is None else claim(step, request.claim)
    step.act(request.act)
    step.finish()
    return Exchanged(refused, taken.claimed, taken.next_due, taken.waiting)


def exchange_receipt(reply: Exchanged) -> bytes:
    """The specs are in the tasks; the receipt only says which, and under which fence."""
    claimed = [(one.id, one.fence) for one in reply.claimed]
    return msgspec.msgpack.encode((reply.refused, claimed, reply.next_due, reply.waiting))


def replay_exchange(session: Session, receipt: bytes) -> Exchanged:
    """The reply again. A task whose lease has ended since then is left out: nobody may act on it."""
    refused, claimed, next_due, waiting = _decoder.decode(receipt)
    step = Step(session)
    rows = [row for task, fence in claimed for row in step.run(Q.claimed_again, (task, fence))]
    again = [claimed_again(step, row[:-3], (row[6], row[-3], row[-1], row[-2])) for row in rows]
    return Exchanged(refused, again, None if next_due is None else Wall(next_due), waiting)
