"""Notes, moves and a claim in one step, and the leases by which a process may do without a look."""

from ganger.engine.store import Exchange, Exchanged
from ganger.engine.stores.postgres.claiming import Taken, claim
from ganger.engine.stores.postgres.guard import read_rows
from ganger.engine.stores.postgres.leases import Leases
from ganger.engine.stores.postgres.moving import apply, refusal
from ganger.engine.stores.postgres.noting import take_notes
from ganger.engine.stores.postgres.step import Step


async def exchange(step: Step, request: Exchange, leases: Leases) -> Exchanged:
    """`leases`: what this process remembers; where that is enough, nothing is read before it is written."""
    ids = [note.task for note in request.notes] + [move.task for move in request.moves]
    rows = leases.find(step.sight.node, step.shelf, request) or (await read_rows(step, ids) if ids else {})
    # Whatever comes of it: a lease that is tried once is read the next time.
    leases.forget(ids)
    if request.notes:
        await take_notes(step, request.notes, rows)
    refused = await apply(step, request.moves, rows) if request.moves else []
    if refused and request.all_or_nothing:
        index, verdict = refused[0]
        raise refusal(request.moves[index], verdict)
    taken = Taken([]) if request.claim is None else await claim(step, request.claim)
    await step.act(request.act)
    await step.finish()
    step.session.committed.append(lambda: leases.remember(step.taken))
    return Exchanged(refused, taken.claimed, taken.next_due, taken.waiting)
