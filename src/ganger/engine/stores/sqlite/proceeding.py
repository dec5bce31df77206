"""Exchanges that all say the same: a task of one queue has succeeded, and its holder takes the next one.

So it is with workers that have short jobs, thousands of times a second. What `dealing` reads and judges of each task is
a condition of the one statement here that ends them all, and what a claim is asked, all of them are asked at once. Who
stands at one line without limits gets its tasks in the order in which he came, whoever else stands there.

What can go wrong, and why this is right:

There are not enough tasks, or something is to be decided about one: nothing was written by then, and the exchanges go
the longer way. A task is not what it was thought to be, because its lease has ended or another depends on it: none of
this counts, and each of the exchanges is to be asked for by itself.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import apsw

from ganger.core import state
from ganger.core.errors import Conflict
from ganger.core.ids import TaskId
from ganger.core.node import Node
from ganger.core.state import RULES, WAY, Move, Status
from ganger.databases.sqlite import Session
from ganger.engine.store import Claim, Exchange, Exchanged
from ganger.engine.stores.sqlite.claiming import Chosen, count_leased, find_line, take, within_slots
from ganger.engine.stores.sqlite.guard import claiming_node
from ganger.engine.stores.sqlite.moving import keep_results
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

_RULE: Final = RULES["succeed"]
_SUCCESS: Final = state.move(TaskId(0), "succeed")[WAY]


def proceed(session: Session, requests: Sequence[Exchange]) -> list[Exchanged] | None:
    """The replies that the exchanges would get one after another; None, and nothing is written, if they are not alike.

    Conflict: a task is not as it has to be, or a holder is gone.
    """
    step = Step(session)
    pairs = [
        (request.moves[0], claim)
        for request in requests
        if (claim := request.claim) is not None and len(request.moves) == 1 and _is_plain(request.moves[0], claim)
    ]
    line = _find_line(step, pairs) if len(pairs) == len(requests) else None
    if line is None or step.has_delayed(line[0]) or step.shelf.queues[line[0]].queue.policy.becomes is not None:
        return None
    heads = list(step.run(Q.ready_head, (*line, len(pairs))))
    if len(heads) < len(pairs):
        return None
    _succeed(step, line[0], pairs)
    taken = take(step, [Chosen(claim, [head]) for (_, claim), head in zip(pairs, heads, strict=True)])
    step.finish()
    return [Exchanged([], *one) for one in taken]


def _is_plain(move: Move, claim: Claim) -> bool:
    return move[WAY] == _SUCCESS and claim.most == 1 and not claim.ids


def _find_line(step: Step, pairs: Sequence[tuple[Move, Claim]]) -> tuple[int, int] | None:
    """The line at which all of them stand."""
    nodes: dict[int, Node] = {}
    kinds: dict[tuple[object, ...], tuple[int, int] | None] = {}
    for _, claim in pairs:
        node = nodes[claim.holder] = claiming_node(step, claim.holder)
        kind = (claim.queues, node.kinds, node.labels, node.queues)
        if kind not in kinds:
            kinds[kind] = find_line(step, node, claim)
    lines = set(kinds.values())
    leased = count_leased(step, nodes.values()) if len(nodes) == len(pairs) else None
    if leased is None or len(lines) != 1 or any(not within_slots(nodes[it], n - 1, 1) for it, n in leased.items()):
        return None
    return lines.pop()


def _succeed(step: Step, queue: int, pairs: Sequence[tuple[Move, Claim]]) -> None:
    connection, ids = step.session.connection, apsw.carray(array("q", [move.task for move, _ in pairs]))
    step.run(Q.attempts_end, (step.wall, "succeed", _RULE.target, None, ids))
    before = connection.total_changes()
    step.run_many(
        Q.moves_succeed_few, [(move.task, move.fence, claim.holder, step.wall, queue) for move, claim in pairs]
    )
    if connection.total_changes() - before != len(pairs):
        raise Conflict("a task is not as it was left: ask for each by itself")
    keep_results(step, [(move.task, move.result) for move, _ in pairs if move.result is not None])
    for move, claim in pairs:
        step.tell(_RULE.fact, queue, claim.holder, ((move.task, _RULE.target, move.fence, None),))
    step.count(queue, _RULE.target, len(pairs))
    step.count(queue, Status.CLAIMED, -len(pairs))
