"""Following the facts: a reader is told that there is something new, and reads it from the store, page by page.

Nothing is buffered for a reader: its place is a position, and whoever has seen position n has seen all that will ever
be below it. So a slow reader costs nothing, and one that comes back goes on where it was.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from ganger.core.event import Event, Fact
from ganger.core.ids import Position, QueueId, TaskId
from ganger.engine.bell import Bell
from ganger.engine.store import EVENTS_TOPIC, Store

PAGE: Final = 256
_ENOUGH: Final = 1_000
"""So many tasks named by a page are many."""

START = Position(0)
"""Before the first event."""


class Stride:
    """How many events to read at once: few at first, and more as long as they name few tasks.

    A page of events that name thousands each takes long to read, and a follower that does not listen needs no second.
    """

    __slots__ = ("most",)

    def __init__(self) -> None:
        self.most = 1

    def note(self, page: Sequence[Event]) -> None:
        """This page was read."""
        named = sum(len(event.entries) for event in page)
        self.most = max(1, self.most // 2) if named > _ENOUGH else min(PAGE, self.most * 2)


class Wanted(NamedTuple):
    """Which events: every given field must match. With `tasks` an event names only those of them that it is about."""

    facts: frozenset[Fact] | None = None
    queues: frozenset[QueueId] | None = None
    tasks: frozenset[TaskId] | None = None


EVERYTHING = Wanted()


def narrow(event: Event, wanted: Wanted) -> Event | None:
    """The event as far as it is wanted; None if it is not."""
    if wanted.facts is not None and event.fact not in wanted.facts:
        return None
    if wanted.queues is not None and event.queue not in wanted.queues:
        return None
    if wanted.tasks is None:
        return event
    tasks = wanted.tasks
    entries = tuple(entry for entry in event.entries if entry.task in tasks)
    return event._replace(entries=entries) if entries else None


async def subscribe(store: Store, after: Position | None, wanted: Wanted = EVERYTHING) -> AsyncGenerator[Event, None]:
    """The events behind a position (None: from now on) in their order, for ever. Close it when leaving early."""
    with Bell(store, (EVENTS_TOPIC,)) as bell:
        position = await find_end(store) if after is None else after
        stride = Stride()
        while True:
            bell.rung.clear()
            while page := await store.events(position, stride.most):
                stride.note(page)
                position = page[-1].position
                for event in page:
                    if (seen := narrow(event, wanted)) is not None:
                        yield seen
            await bell.wait()


async def find_end(store: Store) -> Position:
    """The position of the newest event."""
    return (await store.directory()).last_event
