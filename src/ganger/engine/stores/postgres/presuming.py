"""An exchange in one round trip: what was seen last is presumed to be so still, and the statement finds out.

A step looks at the store and at the acting node, decides, writes, claims, and passes the turnstile: each of them is a
round trip. For plain tasks of plain queues all can be decided before the first of them, if the look is done without. So
the moves are judged, the lines of the claim chosen and the facts put down by the very functions that a step uses, over
what the last step saw; and one statement, which is its own transaction, makes it all.

What can go wrong, and why this is right:

What was seen is not so any more: queues or lanes have changed, the node drains, has other slots or is lost, a delayed
task has come due. The statement takes the lock that steps share, and looks before it writes anything. If something is
not as presumed it does nothing, and the step runs as all others do.

A task is not what this process remembers of it. It is written on the condition that it still is (see `leases.py`); if
one of them is not, the statement fails as a whole, and the step runs as all others do.

The clock. Nothing that is decided here depends on it, but that the node's lease has not ended, that no queue is paused
and that no task is due. The first and the last are asked by the statement, and a queue that has a pause is not plain.

The reply is lost. Whether the statement was stored is found by its receipt, which also says which events it told. The
tasks that it took are in them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.clock import Moment, Wall
from ganger.core.event import Entry, Fact
from ganger.core.state import RULES
from ganger.databases.postgres import Reading, Session, Timekeeper
from ganger.engine.store import CLAIMED_SPEC, EVENTS_TOPIC, FOLLOWED_TOPIC, Claim, Exchange, Exchanged
from ganger.engine.stores.postgres import claiming, moving
from ganger.engine.stores.postgres.claiming import Head, heads_from, receive
from ganger.engine.stores.postgres.leases import Leases
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Known, Row, columns
from ganger.engine.stores.postgres.shelf import Shelf, Shelves
from ganger.engine.stores.postgres.step import EVENT_ENTRIES, Sight, Step

MOST_NODES: Final = 10_000
_NO_TIME: Final = Reading(Moment(0), Wall(0), 0)
"""While it is decided what to do, no lease has ended: the statement asks for that."""
_entries: Final = msgspec.msgpack.Decoder(tuple[Entry, ...])
_encoder: Final = msgspec.msgpack.Encoder()


class Presuming:
    """What this process saw last of the nodes that act here, and the exchanges that can be made by it."""

    def __init__(self, shelves: Shelves, leases: Leases, timekeeper: Timekeeper) -> None:
        self._shelves = shelves
        self._leases = leases
        self._time = timekeeper
        self._nodes: dict[int, Known] = {}

    def see(self, holder: int, known: Known | None) -> None:
        """A step has seen the node, or that there is none."""
        self._nodes.pop(holder, None)
        if known is not None:
            self._nodes[holder] = known
        while len(self._nodes) > MOST_NODES:
            del self._nodes[next(iter(self._nodes))]

    def presume(self, request: Exchange) -> "Presumption | None":
        """The exchange as one statement, if nothing is unusual about it as far as it is known here."""
        known, shelf = self._nodes.get(self._leases.holder(request)), self._shelves.last
        if known is None or shelf is None or request.notes or request.act is not None:
            return None
        lines = [] if request.claim is None else claiming.foresee(shelf, known.node, request.claim)
        rows = self._leases.find(known, shelf, request)
        if lines is None or (request.moves and rows is None) or _size(request) > EVENT_ENTRIES:
            return None
        if rows and not all(moving.is_plain(shelf.queues[queue]) for queue in {row.queue for row in rows.values()}):
            return None
        # Whatever comes of it: a lease that is tried once is read the next time.
        self._leases.forget(rows or ())
        return Presumption(request, Scene(self._shelves, shelf, known, self._time), rows or {}, lines, self._leases)


def _size(request: Exchange) -> int:
    return max(len(request.moves), 0 if request.claim is None else request.claim.most)


class Scene(NamedTuple):
    """What is presumed."""

    shelves: Shelves
    shelf: Shelf
    known: Known
    time: Timekeeper

    def open_step(self, session: Session) -> Step:
        return Step(session, self.shelves, self.shelf, _NO_TIME, Sight(False, False, False, self.known))


class Reply(NamedTuple):
    """What the statement answers; the tasks that it took come as columns."""

    fits: bool
    wall: int
    letters: bool
    followed: bool
    room: int | None
    next_due: int | None
    heads: list[Head]


@dataclass(slots=True)
class Presumption:
    """One exchange that is tried in one statement. `letters`: it has seen some."""

    request: Exchange
    scene: Scene
    rows: dict[int, Row]
    lines: list[tuple[int, int]]
    leases: Leases
    letters: bool = False

    async def run(self, session: Session) -> Exchanged | None:
        """Make it; None if something is not as presumed."""
        step = self.scene.open_step(session)
        sorting = await moving.foresee(step, self.request.moves, self.rows)
        if sorting is None:
            return None
        events, books = step.collect()
        ended = (*columns(sorting.results, 2), *moving.expect(self.rows.values()))
        reply = await self._call(step, (*ended, *columns(events, 5)[:4], *columns(books, 3)))
        self.letters = self.letters or bool(reply.letters)
        if not reply.fits:
            return None
        self._tell(session, reply.followed, len(events) + len({head[2] for head in reply.heads}))
        return self._receive(step, reply)

    async def _call(self, step: Step, decided: tuple[Any, ...]) -> Reply:
        """One round trip, after which the step knows what time it is."""
        session, handed = step.session, self.scene.time.handed
        instant = (None, None) if handed is None else (handed.now, handed.wall)
        sealed = session.writer.name, session.writer.n
        presumed = (session.lock, self.scene.shelf.version, *instant, *self._actor())
        row = await session.connection.fetchrow(Q.exchange, *presumed, *decided, *self._wish(), *sealed)
        reply = Reply._make((*row[:6], heads_from(row[6:])))
        step.now, step.wall, step.steady = handed or self.scene.time.read(reply.wall)
        return reply

    def _actor(self) -> tuple[Any, ...]:
        """Who acts, and what is presumed of it."""
        node = self.scene.known.node
        return node.id, node.identity, node.slots, node.queues, node.kinds, node.labels

    def _wish(self) -> tuple[Any, ...]:
        """What is claimed."""
        claim = self.request.claim or Claim(self.scene.known.node.id, most=0)
        rule = RULES["take" if claim.start else "claim"]
        asked = [queue for queue in claim.queues if queue in self.scene.shelf.queues]
        return (
            asked, *columns(self.lines, 2), claim.most, int(rule.target), _encoder.encode(int(rule.target)),
            rule.fact.value, claim.length, CLAIMED_SPEC,
        )  # fmt: skip

    def _tell(self, session: Session, followed: bool, events: int) -> None:
        if events:
            session.wake(EVENTS_TOPIC)
        if followed:
            session.wake(FOLLOWED_TOPIC)

    def _receive(self, step: Step, reply: Reply) -> Exchanged:
        claim = self.request.claim
        if claim is None:
            return Exchanged([], [])
        claimed = receive(step, claim, reply.heads)
        step.session.committed.append(lambda: self.leases.remember(step.taken))
        if len(claimed) >= claim.most:
            return Exchanged([], claimed)
        due = None if reply.next_due is None else Wall(reply.next_due)
        return Exchanged([], claimed, due, reply.room is not None and reply.room < claim.most)

    async def recall(self, session: Session) -> Exchanged | None:
        """It was stored, and its reply was lost: what it took is in the events that it told."""
        rows = await session.connection.fetch(Q.receipt_events, session.writer.name)
        entries = [entry for _, fact, body, _ in rows if fact == Fact.CLAIMED for entry in _entries.decode(body)]
        step, at = self.scene.open_step(session), Wall(rows[0]["at"])
        # Its leases began then; how the two clocks differ is read from what the server's shows now.
        reading = self.scene.time.handed or self.scene.time.read(rows[0]["wall"])._replace(now=Moment(at), wall=at)
        step.now, step.wall, step.steady = reading
        self._tell(session, True, len(rows))
        return self._receive(step, Reply(True, at, False, True, None, at, await self._find(session, entries)))

    async def _find(self, session: Session, entries: Iterable[Entry]) -> list[Head]:
        """Those of the tasks that are still held as they were taken."""
        taken = columns([(entry.task, entry.fence) for entry in entries], 2)
        rows = await session.connection.fetch(Q.heads_recall, self.scene.known.node.id, *taken, CLAIMED_SPEC)
        return sorted((tuple(row) for row in rows), key=claiming.order)
