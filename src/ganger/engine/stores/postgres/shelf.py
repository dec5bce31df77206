"""What each process keeps at hand of the store: queues and lanes, which are few, small and asked for by every step.

They change only in steps that run alone, each of which raises the store's version. A step reads that version when it
has its lock, so it knows whether what its process has at hand is still the truth.
"""

from dataclasses import dataclass
from typing import Any

from ganger.core.lane import Lane
from ganger.core.queue import Queue
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import queue_from


@dataclass(frozen=True, slots=True)
class Shelf:
    version: int
    queues: dict[int, Queue]
    lanes: dict[int, Lane]
    lane_ids: dict[Lane, int]

    def copy(self) -> "Shelf":
        return Shelf(self.version, dict(self.queues), dict(self.lanes), dict(self.lane_ids))

    def knows(self, queue: int) -> bool:
        """Are there books for this queue? What belongs to no queue is kept under 0."""
        return queue == 0 or queue in self.queues

    def add_lane(self, number: int, lane: Lane) -> None:
        self.lanes[number], self.lane_ids[lane] = lane, number

    def forget_lane(self, number: int) -> None:
        del self.lane_ids[self.lanes.pop(number)]

    def free_number(self, lane: Lane) -> int:
        """Avoiding lanes come and go; their numbers are negative so that an index can hold their tasks alone."""
        return min([0, *self.lanes]) - 1 if lane.avoid else max([0, *self.lanes]) + 1

    def plain_lane(self, number: int) -> int:
        """The lane of the same tasks that avoids nobody."""
        return number if number > 0 else self.lane_ids[self.lanes[number]._replace(avoid=0, avoid_until=0)]


class Shelves:
    """The shelf of this process, as it was last seen."""

    def __init__(self) -> None:
        self._last: Shelf | None = None

    async def at(self, version: int, connection: Any) -> Shelf:
        if self._last is None or self._last.version != version:
            self._last = await _load(version, connection)
        return self._last

    @property
    def last(self) -> Shelf | None:
        """As it was last seen; whoever goes by it finds out whether it is still so."""
        return self._last

    def keep(self, shelf: Shelf) -> None:
        self._last = shelf


async def _load(version: int, connection: Any) -> Shelf:
    queues = [queue_from(row) for row in await connection.fetch(Q.queue_all)]
    rows = await connection.fetch(Q.lane_all)
    lanes = {row[0]: Lane(row[1], tuple(row[2]), row[3], row[4]) for row in rows}
    ids = {lane: number for number, lane in lanes.items()}
    return Shelf(version, {queue.id: queue for queue in queues}, lanes, ids)
