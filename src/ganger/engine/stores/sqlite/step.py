"""One step: what a unit of work collects while it runs, written at its end."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from ganger.core.audit import Act, chain
from ganger.core.event import Fact
from ganger.core.ids import NodeId
from ganger.core.lane import Lane
from ganger.core.node import Node
from ganger.core.state import Status
from ganger.databases.sqlite import Session, run_wide
from ganger.engine.store import EVENTS_TOPIC, QUEUE_TOPIC
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.shelf import Shelf, TallyKey

EVENT_ENTRIES = 10_000
"""A larger batch is told in several rows, so that a reader never has to take in a million entries at once."""

EntryRow = tuple[int, int, int, str | None]
EventRow = tuple[int, int, str, int, int, bytes, str | None]
_encoder = msgspec.msgpack.Encoder()
_NO_ENTRIES = _encoder.encode([])


class Step:
    """Collects tallies, facts and wake-ups of one unit of work; `finish` stores them with it."""

    __slots__ = (
        "counters",
        "facts",
        "first_task",
        "freed",
        "keys",
        "now",
        "session",
        "shelf",
        "subjects",
        "tally",
        "told",
        "wall",
        "woken",
    )

    def __init__(self, session: Session) -> None:
        self.session = session
        self.shelf: Shelf = session.state
        self.first_task = self.shelf.next_task
        self.now = session.now
        self.wall = session.wall
        self.tally: dict[TallyKey, int] = {}
        self.counters: dict[tuple[int, str], int] = {}
        self.facts: dict[tuple[Fact, int, int], list[EntryRow]] = {}
        self.told: list[tuple[tuple[Fact, int, int], list[EntryRow]]] = []
        self.subjects: list[tuple[Fact, int, str]] = []
        self.keys: set[tuple[int, str]] = set()
        self.woken: set[int] = set()
        self.freed: set[int] = set()

    def run(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        return self.session.connection.execute(sql, bindings)

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """A statement with one row of VALUES, for all these rows."""
        run_wide(self.session.connection, sql, rows)

    def count(self, queue: int, status: int, n: int) -> None:
        key = (queue, status)
        self.tally[key] = self.tally.get(key, 0) + n

    def leased(self, queue: int) -> int:
        """How many tasks of the queue are leased now, this step's own included."""
        return self.shelf.leased(queue) + self.tally.get((queue, -1), 0) + self.tally.get((queue, 0), 0)

    def has_delayed(self, queue: int) -> bool:
        key = (queue, int(Status.DELAYED))
        return self.shelf.tally.get(key, 0) + self.tally.get(key, 0) > 0

    def tell(self, fact: Fact, queue: int, holder: int, entries: Iterable[EntryRow]) -> None:
        self.facts.setdefault((fact, queue, holder), []).extend(entries)

    def cut_facts(self) -> None:
        """What is told from now on happened after all that was told before, also of the same tasks."""
        self.told += self.facts.items()
        self.facts = {}

    def tell_about(self, fact: Fact, queue: int, subject: str) -> None:
        self.subjects.append((fact, queue, subject))

    def readied(self, queue: int, lane: int) -> None:
        """A task of this lane can be taken from now on."""
        self.shelf.line_up(queue, lane)
        self.woken.add(queue)

    def lane(self, lane: Lane) -> int:
        return self.shelf.lane(self.session, lane)

    def node(self, holder: int | None) -> Node | None:
        return None if holder is None else self.shelf.nodes.get(NodeId(holder))

    def act(self, act: Act | None) -> None:
        """Chain a line to the audit log."""
        if act is None:
            return
        shelf, before = self.shelf, (self.shelf.audit_position, self.shelf.audit_hash)
        position = shelf.audit_position + 1
        line = chain(shelf.audit_hash, position, self.wall, act)
        self.run(Q.audit_insert, (position, self.wall, act.who, act.action, act.detail, line))
        shelf.audit_position, shelf.audit_hash = position, line
        self.session.rolled_back(lambda: shelf.take_back_audit(before))

    def finish(self) -> None:
        """Store the facts and put the tallies on the shelf."""
        self.cut_facts()
        if self.told or self.subjects:
            self.run_many(Q.event_insert, self._events())
            self.session.wake(EVENTS_TOPIC)
        self._keep_books()
        self.woken.update(queue for queue in self.freed if self.limited(queue))
        for queue in self.woken:
            self.session.wake(QUEUE_TOPIC.format(queue))

    def limited(self, queue: int) -> bool:
        """Does a lease that ended make room for those who wait at the queue's limit?"""
        return self.shelf.queues[queue].queue.policy.is_limited

    def _events(self) -> list[EventRow]:
        """The rows of what was told, which is counted. Spelt out for its heat: each lease and each end is one."""
        wall, counters, position = self.wall, self.counters, self.shelf.next_event
        rows: list[EventRow] = []
        for (fact, queue, holder), entries in self.told:
            name = fact.value
            counters[queue, name] = counters.get((queue, name), 0) + len(entries)
            for part in _cut(entries):
                rows.append((position, wall, name, queue, holder, _encoder.encode(part), None))
                position += 1
        for fact, queue, subject in self.subjects:
            rows.append((position, wall, fact.value, queue, 0, _NO_ENTRIES, subject))
            position += 1
        self.shelf.next_event = position
        return rows

    def _keep_books(self) -> None:
        shelf = self.shelf
        tally = {key: n for key, n in self.tally.items() if shelf.knows(key[0])}
        counters = {name: n for name, n in self.counters.items() if shelf.knows(name[0])}
        if tally or counters or self.told or self.subjects or shelf.next_task != self.first_task:
            shelf.add(tally, counters)
            self.session.rolled_back(lambda: shelf.add(tally, counters, -1))
            # A step that changed nothing must not write: upkeep looks often, and an empty commit costs no sync.
            self.session.before_commit("shelf", shelf.flush)


def _cut(entries: list[EntryRow]) -> Iterable[list[EntryRow]]:
    """In parts of which each is an event."""
    if len(entries) <= EVENT_ENTRIES:
        return (entries,)
    return [entries[start : start + EVENT_ENTRIES] for start in range(0, len(entries), EVENT_ENTRIES)]
