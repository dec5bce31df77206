"""Exchanges of several holders that wait at the same moment, run as one step.

Eight workers that end a task and ask for the next within one commit cost eight times the statements of one, nearly all
of it for the sake of a single row. So small exchanges are put together: their moves are read, judged and written as
one, the ready tasks are read once and dealt out, and the leases are written as one.

What can go wrong, and why this is right:

Nobody may get anything else than if one had come after another. All moves are made before the first claim here, so a
move must not be able to change what a claim before it finds: it ends or starts an attempt under the holder's fence,
its task has no child, no group and no concurrency key, its result becomes no task, and the queues of the claims have no
limit. No task is moved twice, and none that could be claimed. Claims choose in the order in which they came, from lines
off which each takes what it gets. The slots of a node are counted move by move and claim by claim. Where any of this
does not hold the exchanges are run one after another.

One of them fails, because its node is gone. Then all of this is taken back, and whoever runs it runs each alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ganger.core.errors import Conflict
from ganger.core.node import Node
from ganger.core.state import LEASED, RULES, Move, is_final
from ganger.databases.sqlite import Session, Together
from ganger.engine.store import Claim, Exchange, Exchanged
from ganger.engine.stores.sqlite.claiming import (
    PROMOTED_AT_ONCE,
    Asker,
    Chosen,
    Lines,
    choose,
    count_leased,
    find_line,
    find_queues,
    promote,
    take,
    within_slots,
)
from ganger.engine.stores.sqlite.exchanging import exchange
from ganger.engine.stores.sqlite.guard import claiming_node
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.moving import Row, Rows, apply_apart, read_rows, stand_apart
from ganger.engine.stores.sqlite.proceeding import proceed
from ganger.engine.stores.sqlite.step import Step

SMALL: Final = 16
"""Larger ones gain little by company, and many of them as one would hold up everybody else."""

MOST: Final = 64
"""So many may come as one: more would be a step that is too long, or a message that is too large."""

_APART: Final = frozenset(
    name for name, rule in RULES.items() if rule.by_holder and (is_final(rule.target) or rule.target in LEASED)
)

Refused = list[tuple[int, str]]


class Several(NamedTuple):
    """Exchanges in the order in which they came."""

    requests: Sequence[Exchange]


class TooManyDue(Exception):
    """More tasks are due than one claim makes ready: how many there are is different for each of the claims."""


def serve(session: Session, request: Exchange | Several) -> Exchanged | list[Exchanged]:
    """One exchange, or several as one."""
    return exchange_all(session, request.requests) if isinstance(request, Several) else exchange(session, request)


def exchange_each(session: Session, requests: Sequence[Exchange]) -> list[Exchanged]:
    """Several that come as one. Conflict if one of them spoils it: then each is to be asked for by itself."""
    if (replies := proceed(session, requests)) is not None:
        return replies
    if not all(map(_is_small, requests)):
        raise Conflict("one of them is not small: ask for each by itself")
    try:
        return exchange_all(session, requests)
    except TooManyDue:
        raise Conflict("more tasks are due than one step makes ready: ask for each by itself") from None


def exchange_all(session: Session, requests: Sequence[Exchange]) -> list[Exchanged]:
    """The replies are those that the exchanges would get one after another."""
    step = Step(session)
    moves = [move for request in requests for move in request.moves]
    rows = read_rows(step, moves)
    if not _can_join(step, requests, moves, rows):
        return [exchange(session, request) for request in requests]
    deal = Deal(step, [request.claim for request in requests if request.claim is not None])
    shares = _share_out(requests, dict(apply_apart(step, moves, rows)))
    deal.ready()
    for request, refused in zip(requests, shares, strict=True):
        deal.serve(request.claim, _ended(request, refused, rows))
    taken = iter(take(step, deal.chosen))
    step.finish()
    return [
        Exchanged(refused, []) if request.claim is None else Exchanged(refused, *next(taken))
        for request, refused in zip(requests, shares, strict=True)
    ]


def _can_join(step: Step, requests: Sequence[Exchange], moves: Sequence[Move], rows: Rows) -> bool:
    if len({move.task for move in moves}) < len(moves):
        return False
    queues = {queue for request in requests if request.claim is not None for queue in request.claim.queues}
    limited = any(queue in step.shelf.queues and step.limited(queue) for queue in queues)
    return not limited and stand_apart(step, rows.values())


def _share_out(requests: Sequence[Exchange], verdicts: dict[int, str]) -> list[Refused]:
    """For each request those of its own moves that were refused."""
    shares: list[Refused] = []
    first = 0
    for request in requests:
        own = range(first, first + len(request.moves))
        shares.append([(index - first, verdicts[index]) for index in own if index in verdicts])
        first = own.stop
    return shares


def _ended(request: Exchange, refused: Refused, rows: Rows) -> Iterator[Row]:
    """The tasks whose leases this request has ended."""
    without = {index for index, _ in refused}
    for index, move in enumerate(request.moves):
        if index not in without and RULES[move.rule].ends_lease:
            yield rows[move.task]


class Deal:
    """The claims of one step, served in their order. Made before the moves: it counts from what was leased then."""

    def __init__(self, step: Step, claims: Sequence[Claim]) -> None:
        self.chosen: list[Chosen] = []
        self._step = step
        self._nodes = {claim.holder: claiming_node(step, claim.holder) for claim in claims}
        self._queues = {queue for claim in claims for queue in claim.queues if queue in step.shelf.queues}
        self._leased = count_leased(step, self._nodes.values())
        self._lines = Lines(step, sum(claim.most for claim in claims))
        self._kin: dict[tuple[object, ...], tuple[int, int] | None] = {}

    def ready(self) -> None:
        """Let everybody find the tasks that are due."""
        for queue in sorted(self._queues):
            if promote(self._step, queue, PROMOTED_AT_ONCE) == PROMOTED_AT_ONCE:
                raise TooManyDue
        refill(self._step)

    def serve(self, claim: Claim | None, ended: Iterable[Row]) -> None:
        """The next claim, if there is one, when these leases have ended."""
        for row in ended:
            if row.holder in self._leased:
                self._leased[row.holder] -= 1
        if claim is not None:
            self._choose(claim)

    def _choose(self, claim: Claim) -> None:
        node = self._nodes[claim.holder]
        most = within_slots(node, self._leased.get(node.id, 0), claim.most)
        chosen = self._choose_plainly(claim, node) if most == claim.most else None
        if chosen is None:
            chosen = choose(self._step, claim, Asker(node, find_queues(self._step, claim), most), self._lines)
        self._lines.take_off(chosen.heads)
        if node.id in self._leased:
            self._leased[node.id] += len(chosen.heads)
        self.chosen.append(chosen)

    def _choose_plainly(self, claim: Claim, node: Node) -> Chosen | None:
        """What is the same for all holders that are alike is found out once; None if there is more to it."""
        kin = (claim.queues, node.kinds, node.labels, node.queues)
        if kin not in self._kin:
            self._kin[kin] = find_line(self._step, node, claim)
        if (line := self._kin[kin]) is None:
            return None
        heads = self._lines.read(*line, claim.most)
        return Chosen(claim, heads) if len(heads) == claim.most else None


def _is_small(request: Exchange) -> bool:
    """Does it but end or start a few attempts, and ask for a few tasks of whatever is ready?"""
    if request.notes or request.act is not None or request.all_or_nothing or len(request.moves) > SMALL:
        return False
    claim = request.claim
    asks_little = claim is None or (claim.most <= SMALL and not claim.ids)
    return asks_little and all(move.rule in _APART for move in request.moves)


def _split(replies: list[Exchanged]) -> list[Exchanged]:
    return replies


TOGETHER: Final = Together(_is_small, Several, _split)
