"""Waiting for tasks to end: many waits, one reader of the facts.

A wait is entered in the book before the tasks are looked at, so an end is either seen in that look or told afterwards.
The reader reads only while somebody waits. When the first one comes, the reader's place is set to the end of the facts:
whatever is before that, the look sees.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ganger.core.event import Event, Fact
from ganger.core.ids import Position, TaskId
from ganger.core.state import Status, is_final
from ganger.engine.follow import PAGE, find_end
from ganger.engine.store import EVENTS_TOPIC, RESET_TOPIC, Store


class Waited(NamedTuple):
    """The statuses in the order of the ids, None for a task that is not there (any more). `done`: all have ended."""

    statuses: list[int | None]
    done: bool


class Watch:
    """One wait: what is known of its tasks. With `until_held` a held one is not waited for while it is held."""

    __slots__ = ("_awaited", "_until_held", "done", "known", "open")

    def __init__(self, ids: Iterable[TaskId], *, until_held: bool = False) -> None:
        self.known: dict[TaskId, int | None] = dict.fromkeys(ids)
        self.open = set(self.known)
        self._awaited = set(self.known)
        self._until_held = until_held
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def learn(self, task: TaskId, status: int | None) -> None:
        if task not in self.open:
            return
        self.known[task] = status
        if status is None or is_final(status):
            self.open.discard(task)
            self._awaited.discard(task)
        elif self._until_held and status == Status.HELD:
            self._awaited.discard(task)
        else:
            self._awaited.add(task)
        if not self._awaited and not self.done.done():
            self.done.set_result(None)


class Follower:
    """Reads the facts for all who wait for tasks of one engine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[TaskId, set[Watch]] = {}
        self._position = Position(0)
        self._placing = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._rung = False
        self._unlisten = store.listen((EVENTS_TOPIC, RESET_TOPIC), self._ring)

    def close(self) -> None:
        """Send everybody home with what is known."""
        self._unlisten()
        if self._reading is not None:
            self._reading.cancel()
        for watch in self._watches():
            if not watch.done.done():
                watch.done.set_result(None)

    async def wait(self, ids: Sequence[TaskId], timeout: float | None, *, until_held: bool = False) -> Waited:
        """Wait until all have ended or the time (seconds) is up; with `until_held` not for those that are held."""
        async with self._placing:
            if not self._watched:
                self._position = await find_end(self._store)
            watch = Watch(ids, until_held=until_held)
            self._enter(watch)
        try:
            for number, task in zip(ids, await self._store.tasks(ids), strict=True):
                watch.learn(number, None if task is None else task.status)
            if watch.open:
                await asyncio.wait([watch.done], timeout=timeout)
            if watch.done.done():
                watch.done.result()
        finally:
            self._leave(watch)
        return Waited([watch.known[number] for number in ids], not watch.open)

    def _enter(self, watch: Watch) -> None:
        for task in watch.known:
            self._watched.setdefault(task, set()).add(watch)

    def _leave(self, watch: Watch) -> None:
        for task in watch.known:
            watches = self._watched[task]
            watches.discard(watch)
            if not watches:
                del self._watched[task]

    def _ring(self, _: str) -> None:
        self._rung = True
        if self._watched and (self._reading is None or self._reading.done()):
            self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            while self._rung and self._watched:
                self._rung = False
                while self._watched and (page := await self._store.events(self._position, PAGE)):
                    self._position = page[-1].position
                    for event in page:
                        self._tell(event)
        except Exception as error:
            # Whoever waits must learn that nobody reads for them any more; the next ring begins again.
            self._fail(error)

    def _tell(self, event: Event) -> None:
        removed = event.fact == Fact.REMOVED
        for entry in event.entries:
            for watch in self._watched.get(entry.task, ()):
                watch.learn(entry.task, None if removed else entry.status)

    def _fail(self, error: Exception) -> None:
        for watch in self._watches():
            if not watch.done.done():
                watch.done.set_exception(error)

    def _watches(self) -> set[Watch]:
        return {watch for watches in self._watched.values() for watch in watches}
