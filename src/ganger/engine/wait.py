"""Waiting for tasks to end: many waits, one reader of the facts.

A wait is entered in the book before the tasks are looked at, so an end is either seen in that look or told afterwards.
The reader reads only while somebody waits. When the first one comes, the reader's place is set to the end of the facts:
whatever is before that, the look sees.

A wait that is not to outlast a hold also ends when all that is left waits for held tasks. That is looked for while all
that is left is blocked: once, and again when something has happened, at growing distances because most of what happens
does not concern it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ganger.core.event import Event, Fact
from ganger.core.ids import Position, TaskId
from ganger.core.state import Status, is_final
from ganger.engine.follow import PAGE, find_end
from ganger.engine.stalled import find_held
from ganger.engine.store import EVENTS_TOPIC, RESET_TOPIC, Store

_FIRST_REST: Final = 0.05
_LONGEST_REST: Final = 5.0
_STILL: Final = (Status.HELD, Status.BLOCKED)


class Waited(NamedTuple):
    """The statuses in the order of the ids, None for a task that is not there (any more). `done`: all have ended.

    `held`: for which held tasks all that is left waits, if the wait was not to outlast a hold and ended because of it.
    """

    statuses: list[int | None]
    done: bool
    held: tuple[TaskId, ...] = ()


class Watch:
    """One wait: what is known of its tasks. `blocked` is set while none that is open goes on by itself."""

    __slots__ = ("_moving", "blocked", "done", "known", "open")

    def __init__(self, ids: Iterable[TaskId]) -> None:
        self.known: dict[TaskId, int | None] = dict.fromkeys(ids)
        self.open = set(self.known)
        self._moving = set(self.known)
        self.blocked = asyncio.Event()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def learn(self, task: TaskId, status: int | None) -> None:
        if task not in self.open:
            return
        self.known[task] = status
        if status is None or is_final(status):
            self.open.discard(task)
        self._place(task, moves=task in self.open and status not in _STILL)
        if not self.open and not self.done.done():
            self.done.set_result(None)

    def list_held(self) -> list[TaskId]:
        """Those that are left, if each of them is held."""
        left = sorted(self.open)
        return left if all(self.known[task] == Status.HELD for task in left) else []

    def _place(self, task: TaskId, *, moves: bool) -> None:
        if moves:
            self._moving.add(task)
            self.blocked.clear()
        else:
            self._moving.discard(task)
        if not self._moving:
            self.blocked.set()


class Follower:
    """Reads the facts for all who wait for tasks of one engine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[TaskId, set[Watch]] = {}
        self._position = Position(0)
        self._placing = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._rung = False
        self._news = asyncio.Event()
        self._unlisten: Callable[[], None] | None = None

    def close(self) -> None:
        """Send everybody home with what is known."""
        self._ignore()
        if self._reading is not None:
            self._reading.cancel()
        for watch in self._watches():
            if not watch.done.done():
                watch.done.set_result(None)

    async def wait(self, ids: Sequence[TaskId], timeout: float | None, *, until_held: bool = False) -> Waited:
        """Wait until all have ended or the time (seconds) is up; with `until_held` until held ones keep the rest."""
        async with self._placing:
            self._attend()
            if not self._watched:
                self._position = await find_end(self._store)
            watch = Watch(ids)
            self._enter(watch)
        try:
            for number, task in zip(ids, await self._store.tasks(ids), strict=True):
                watch.learn(number, None if task is None else task.status)
            held = await self._rest(watch, timeout, until_held=until_held) if watch.open else []
        finally:
            self._leave(watch)
        return Waited([watch.known[number] for number in ids], not watch.open, tuple(held))

    async def _rest(self, watch: Watch, timeout: float | None, *, until_held: bool) -> list[TaskId]:
        """Until all have ended or the time is up, or all that is left waits for held tasks: then which."""
        if until_held and (held := watch.list_held()):
            return held
        looking = [asyncio.ensure_future(self._look_for_held(watch))] if until_held else []
        try:
            ends: list[asyncio.Future[Any]] = [watch.done, *looking]
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if watch.done.done():
                watch.done.result()
                return []
            return [task for found in looking if found.done() for task in found.result()]
        finally:
            for found in looking:
                found.cancel()

    async def _look_for_held(self, watch: Watch) -> list[TaskId]:
        rest = _FIRST_REST
        while True:
            await watch.blocked.wait()
            news = self._news
            if held := await find_held(self._store, watch.open):
                return held
            await news.wait()
            await asyncio.sleep(rest)
            rest = min(2 * rest, _LONGEST_REST)

    def _enter(self, watch: Watch) -> None:
        for task in watch.known:
            self._watched.setdefault(task, set()).add(watch)

    def _leave(self, watch: Watch) -> None:
        for task in watch.known:
            watches = self._watched[task]
            watches.discard(watch)
            if not watches:
                del self._watched[task]

    def _attend(self) -> None:
        if self._unlisten is None:
            self._unlisten = self._store.listen((EVENTS_TOPIC, RESET_TOPIC), self._ring)

    def _ignore(self) -> None:
        """Being told of every commit costs whoever tells and whoever hears: not while nobody waits."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _ring(self, _: str) -> None:
        self._rung = True
        if not self._watched and not self._placing.locked():
            self._ignore()
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
                    self._tell_news()
        except Exception as error:
            # Whoever waits must learn that nobody reads for them any more; the next ring begins again.
            self._fail(error)

    def _tell(self, event: Event) -> None:
        removed = event.fact == Fact.REMOVED
        for entry in event.entries:
            for watch in self._watched.get(entry.task, ()):
                watch.learn(entry.task, None if removed else entry.status)

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _fail(self, error: Exception) -> None:
        for watch in self._watches():
            if not watch.done.done():
                watch.done.set_exception(error)

    def _watches(self) -> set[Watch]:
        return {watch for watches in self._watched.values() for watch in watches}
