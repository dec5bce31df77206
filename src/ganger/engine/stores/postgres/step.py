"""One step: what a transaction collects while it runs, written at its end.

The last statement of a step passes the turnstile, one row that every step that tells something updates: behind it
positions are handed out and the books are kept, and whoever passed holds it until the commit. So positions are handed
out in the order of commits, while all before that runs side by side. That statement travels together with the commit
where nothing is asked of it: a client that is busy would else keep everybody waiting at the turnstile.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.audit import Act, chain
from ganger.core.clock import Moment
from ganger.core.event import Fact
from ganger.core.lane import Lane
from ganger.core.lease import valid
from ganger.core.state import LEASED
from ganger.databases.postgres import Reading, Session, Timekeeper, write_bytes, write_numbers, write_words
from ganger.engine.store import EVENTS_TOPIC, QUEUE_TOPIC
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Known, Row, columns, known_from
from ganger.engine.stores.postgres.shelf import Shelf, Shelves

EVENT_ENTRIES = 10_000
"""A larger batch is told in several rows, so that a reader never has to take in a million entries at once."""

CLOSING_BYTES: Final = 65_536

LEASED_NAMES: Final = tuple(str(int(status)) for status in LEASED)
"""Under these names the books count the tasks of a queue that have a lease."""

EntryRow = tuple[int, int, int, str | None]
EventRow = tuple[str, int, int, bytes, str | None]
BookRow = tuple[int, str, int]
_encoder = msgspec.msgpack.Encoder()


class Sight(NamedTuple):
    """What a step sees first: is anybody followed, is any task delayed, is a letter in the inbox, and the node that
    acts, if one does."""

    follows: bool
    delays: bool
    letters: bool
    node: Known | None


class Step:
    """Collects tallies, facts and wake-ups of one transaction; `finish` stores them with it."""

    def __init__(self, session: Session, shelves: Shelves, shelf: Shelf, reading: Reading, sight: Sight) -> None:
        self.session = session
        self.shelf = shelf
        self.now, self.wall, self.steady = reading
        self.sight = sight
        self.changed = False
        self.tally: dict[tuple[int, str], int] = {}
        self.facts: dict[tuple[Fact, int, int], list[EntryRow]] = {}
        self.told: list[tuple[tuple[Fact, int, int], list[EntryRow]]] = []
        self.subjects: list[tuple[Fact, int, str]] = []
        self.keys: set[tuple[int, str]] = set()
        self.woken: set[int] = set()
        self.freed: set[int] = set()
        self.taken: list[Row] = []
        """Tasks that were leased in this step and that are nobody else's business."""
        self._shelves = shelves
        self._here: list[Known] | None = None

    async def run(self, sql: str, *bindings: Any) -> list[Any]:
        rows: list[Any] = await self.session.connection.fetch(sql, *bindings)
        return rows

    async def one(self, sql: str, *bindings: Any) -> Any:
        return await self.session.connection.fetchval(sql, *bindings)

    def run_alone(self) -> None:
        """From here on no other step may run beside this one."""
        self.session.needs_to_run_alone()

    def change_shelf(self) -> Shelf:
        """The shelf, to be changed: what is changed in it is everybody's with the commit."""
        self.run_alone()
        if not self.changed:
            self.shelf, self.changed = self.shelf.copy(), True
        return self.shelf

    async def lane(self, lane: Lane) -> int:
        """The number of a lane; a new one is stored."""
        if (known := self.shelf.lane_ids.get(lane)) is not None:
            return known
        shelf = self.change_shelf()
        number = shelf.free_number(lane)
        await self.run(Q.lane_insert, number, lane.kind, list(lane.requires), lane.avoid, lane.avoid_until)
        shelf.add_lane(number, lane)
        return number

    async def here(self) -> list[Known]:
        """The nodes that are here, as they were when this step first asked."""
        if self._here is None:
            self._here = [known_from(row) for row in await self.run(Q.node_here)]
        return self._here

    def is_over(self, until: int, term: int) -> bool:
        """Has a lease of that length ended? Only a clock that has gone evenly for as long can say so."""
        return not valid(None, Moment(until), self.now) and self.steady >= term

    def is_live(self, known: Known) -> bool:
        return known.node.here and not self.is_over(known.node.until, known.term)

    def count(self, queue: int, status: int, n: int) -> None:
        self.add(queue, str(int(status)), n)

    def add(self, queue: int, name: str, n: int) -> None:
        self.tally[queue, name] = self.tally.get((queue, name), 0) + n

    def tell(self, fact: Fact, queue: int, holder: int, entries: Iterable[EntryRow]) -> None:
        self.facts.setdefault((fact, queue, holder), []).extend(entries)

    def cut_facts(self) -> None:
        """What is told from now on happened after all that was told before, also of the same tasks."""
        self.told += self.facts.items()
        self.facts = {}

    def tell_about(self, fact: Fact, queue: int, subject: str) -> None:
        self.subjects.append((fact, queue, subject))

    async def act(self, act: Act | None) -> None:
        """Chain a line to the audit log."""
        if act is None:
            return
        ((_, _, last, before),) = await self.run(Q.turnstile, 0, 0)
        line = chain(before, last + 1, self.wall, act)
        await self.run(Q.audit_insert, last + 1, self.wall, act.who, act.action, act.detail, line)

    async def finish(self) -> None:
        """Store the facts and keep the books."""
        events, books = self.collect()
        if events or books or self.changed:
            await self._pass_turnstile(events, books)
        if events:
            self.session.wake(EVENTS_TOPIC)
        self.woken.update(queue for queue in self.freed if self._makes_room(queue))
        for queue in self.woken:
            self.session.wake(QUEUE_TOPIC.format(queue))

    def collect(self) -> tuple[list[EventRow], list[BookRow]]:
        """What is to be told and counted, once all is done."""
        events = self._events()
        return events, [(*key, n) for key, n in self.tally.items() if n and self.shelf.knows(key[0])]

    def _events(self) -> list[EventRow]:
        self.cut_facts()
        rows: list[EventRow] = []
        for (fact, queue, holder), entries in self.told:
            self.add(queue, str(fact), len(entries))
            for start in range(0, len(entries), EVENT_ENTRIES):
                body = _encoder.encode(entries[start : start + EVENT_ENTRIES])
                rows.append((fact.value, queue, holder, body, None))
        return rows + [(fact.value, queue, 0, _encoder.encode([]), subject) for fact, queue, subject in self.subjects]

    async def _pass_turnstile(self, events: list[EventRow], books: list[BookRow]) -> None:
        self.session.sealed = True
        if _is_plain(events) and not self.changed:
            self.session.closing = self._write_closing(events, books)
            return
        writer = self.session.writer
        told, kept = columns(events, 5), columns(books, 3)
        version = await self.one(Q.finish, int(self.changed), self.wall, *told, *kept, writer.name, writer.n)
        if self.changed:
            shelf = replace(self.shelf, version=version)
            self.session.committed.append(lambda: self._shelves.keep(shelf))

    def _write_closing(self, events: list[EventRow], books: list[BookRow]) -> str:
        """The end of the step as text."""
        facts, queues, holders, bodies, _ = columns(events, 5)
        kept, names, counts = columns(books, 3)
        writer = self.session.writer
        return (
            f"SELECT finish(0, {self.wall}, {write_words(facts)}, {write_numbers(queues)}, {write_numbers(holders)}, "
            f"{write_bytes(bodies)}, NULL, {write_numbers(kept)}, {write_words(names)}, {write_numbers(counts)}, "
            f"'{writer.name}', {writer.n})"
        )

    def _makes_room(self, queue: int) -> bool:
        """Do leases that ended make room for those who wait at the queue's limit? Not if this step took it again."""
        policy = self.shelf.queues[queue].policy
        if policy.max_per_node is not None:
            return True
        return policy.max_active is not None and sum(self.tally.get((queue, status), 0) for status in LEASED_NAMES) < 0


def _is_plain(events: list[EventRow]) -> bool:
    """Can they be sent as text: no word that somebody chose, and not so much that encoding it twice would cost?"""
    return all(event[4] is None for event in events) and sum(len(event[3]) for event in events) <= CLOSING_BYTES


async def open_step(session: Session, shelves: Shelves, timekeeper: Timekeeper, holder: int = 0) -> Step:
    """Begin a step, in which that node acts, if one does."""
    version, wall, follows, delays, letters, *node = await session.connection.fetchrow(Q.opening, holder)
    shelf = await shelves.at(version, session.connection)
    sight = Sight(follows, delays, letters, None if node[0] is None else known_from(node))
    return Step(session, shelves, shelf, timekeeper.read(wall), sight)
