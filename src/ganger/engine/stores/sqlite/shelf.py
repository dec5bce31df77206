"""What the owner of the file keeps at hand: few, small things that nearly every step asks for.

The owner is the only writer, so what is here is the truth as long as a rollback undoes it too: each change registers
its way back with the session. Tallies are written once per transaction, however many steps share it.
"""

import json
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from ganger.core.audit import START
from ganger.core.lane import Lane
from ganger.core.node import Node
from ganger.core.queue import Policy
from ganger.core.state import LEASED
from ganger.databases.sqlite import Session, run_wide
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.rows import Shelved, node_from, shelved_from

TallyKey = tuple[int, int]
_STORE: Final = -1
"""In the book, where a queue's numbers have its id: what is the whole store's."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Shelf:
    tag: int
    boot: str
    next_task: int
    next_batch: int
    next_event: int
    audit_position: int
    audit_hash: bytes
    queues: dict[int, Shelved]
    lanes: dict[int, Lane]
    lane_ids: dict[Lane, int]
    nodes: dict[int, Node]
    tally: dict[TallyKey, int]
    counters: dict[tuple[int, str], int]
    lined: dict[int, set[int]]
    """For each queue the lanes that may have ready tasks; never one too few."""
    followed: dict[int, int] = field(default_factory=dict)
    """Tasks whose output somebody reads as it comes, with the moment at which that ends."""
    dirty_tally: set[TallyKey] = field(default_factory=set)
    dirty_counters: set[tuple[int, str]] = field(default_factory=set)

    def leased(self, queue: int) -> int:
        return sum(self.tally.get((queue, status), 0) for status in LEASED)

    def lane(self, session: Session, lane: Lane) -> int:
        """The number of a lane; a new one is stored."""
        known = self.lane_ids.get(lane)
        return known if known is not None else self._new_lane(session, lane)

    def _new_lane(self, session: Session, lane: Lane) -> int:
        # Avoiding lanes come and go; their numbers are negative so that an index can hold their tasks alone.
        number = min(self.lanes, default=0) - 1 if lane.avoid else max(self.lanes, default=0) + 1
        number = min(number, -1) if lane.avoid else max(number, 1)
        row = (number, lane.kind, json.dumps(lane.requires), lane.avoid, lane.avoid_until)
        session.connection.execute(Q.lane_insert, row)
        self._know_lane(number, lane)
        session.rolled_back(lambda: self._unknow_lane(lane))
        return number

    def _know_lane(self, number: int, lane: Lane) -> None:
        self.lane_ids[lane], self.lanes[number] = number, lane

    def _unknow_lane(self, lane: Lane) -> None:
        number = self.lane_ids.pop(lane)
        del self.lanes[number]
        for lined in self.lined.values():
            lined.discard(number)

    def forget_lane(self, session: Session, number: int) -> None:
        """Drop a lane that has no task and will get none: its time is over."""
        lane = self.lanes[number]
        session.connection.execute(Q.lane_forget, (number,))
        self._unknow_lane(lane)
        session.rolled_back(lambda: self._know_lane(number, lane))

    def plain_lane(self, session: Session, number: int) -> int:
        """The lane of the same tasks that avoids nobody."""
        return number if number > 0 else self.lane(session, self.lanes[number]._replace(avoid=0, avoid_until=0))

    def put_queue(self, session: Session, shelved: Shelved | None, number: int) -> None:
        """Keep a queue as it is now, or drop it."""
        before = self.queues.get(number)
        self._keep(self.queues, number, shelved)
        session.rolled_back(lambda: self._keep(self.queues, number, before))

    def forget_queue(self, session: Session, number: int) -> None:
        """Drop a queue with its books: nobody asks for them any more, and its number does not come again."""
        self.put_queue(session, None, number)
        session.connection.execute(Q.book_drop, (number,))
        lined = self.lined.pop(number, set())
        tally, counters = _cut(self.tally, number), _cut(self.counters, number)
        session.rolled_back(lambda: self._know_books(number, lined, tally, counters))

    def _know_books(
        self, number: int, lined: set[int], tally: dict[TallyKey, int], counters: dict[tuple[int, str], int]
    ) -> None:
        self.lined[number] = lined
        self.tally |= tally
        self.counters |= counters

    def knows(self, queue: int) -> bool:
        """Are there books for this queue? What belongs to no queue is kept under 0."""
        return queue == 0 or queue in self.queues

    def put_node(self, session: Session, node: Node | None, number: int) -> None:
        before = self.nodes.get(number)
        self._keep(self.nodes, number, node)
        session.rolled_back(lambda: self._keep(self.nodes, number, before))

    def _keep(self, things: dict[int, V], number: int, value: V | None) -> None:
        if value is None:
            things.pop(number, None)
        else:
            things[number] = value

    def line_up(self, queue: int, lane: int) -> None:
        self.lined.setdefault(queue, set()).add(lane)

    def line_empty(self, session: Session, queue: int, lane: int) -> None:
        self.lined[queue].discard(lane)
        session.rolled_back(lambda: self.line_up(queue, lane))

    def add(self, tally: dict[TallyKey, int], counters: dict[tuple[int, str], int], sign: int = 1) -> None:
        for key, n in tally.items():
            self.tally[key] = self.tally.get(key, 0) + sign * n
            self.dirty_tally.add(key)
        for name, n in counters.items():
            self.counters[name] = self.counters.get(name, 0) + sign * n
            self.dirty_counters.add(name)

    def take_back_audit(self, before: tuple[int, bytes]) -> None:
        self.audit_position, self.audit_hash = before

    def flush(self, session: Session) -> None:
        """Write what changed in this transaction; run once, just before the commit."""
        rows: list[tuple[int, object, int]] = [
            (_STORE, "next_task", self.next_task),
            (_STORE, "next_batch", self.next_batch),
            (_STORE, "next_event", self.next_event),
        ]
        rows += [(*key, self.tally[key]) for key in self.dirty_tally & self.tally.keys()]
        rows += [(*name, self.counters[name]) for name in self.dirty_counters & self.counters.keys()]
        run_wide(session.connection, Q.book_set, rows)
        self.dirty_tally.clear()
        self.dirty_counters.clear()


def _cut(books: dict[tuple[int, K], int], queue: int) -> dict[tuple[int, K], int]:
    """Take what belongs to a queue out of the books."""
    return {key: books.pop(key) for key in [key for key in books if key[0] == queue]}


def load(session: Session) -> Shelf:
    """Read the shelf from the file, when this process becomes its owner."""
    run = session.connection.execute
    ((tag, boot, next_task, next_batch, next_event),) = run(Q.store_read)
    audit = list(run(Q.audit_last)) or [(0, START)]
    lanes = {row[0]: Lane(row[1], tuple(json.loads(row[2])), row[3], row[4]) for row in run(Q.lane_all)}
    return Shelf(
        tag=tag, boot=boot, next_task=next_task, next_batch=next_batch, next_event=next_event,
        audit_position=audit[0][0], audit_hash=audit[0][1],
        queues={row[0]: shelved_from(row) for row in run(Q.queue_all)},
        lanes=lanes, lane_ids={lane: number for number, lane in lanes.items()},
        nodes={row[0]: node_from(row) for row in run(Q.node_here)},
        tally={(queue, status): n for queue, status, n in run(Q.tally_all)},
        counters={(queue, fact): n for queue, fact, n in run(Q.counter_all)},
        lined=_lined(session),
    )  # fmt: skip


def _lined(session: Session) -> dict[int, set[int]]:
    lined: dict[int, set[int]] = {}
    for queue, lane in session.connection.execute(Q.ready_lanes):
        lined.setdefault(queue, set()).add(lane)
    return lined


def policy_text(policy: Policy) -> str:
    return msgspec.json.encode(policy).decode()
