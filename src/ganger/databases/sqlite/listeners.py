"""Who in this process wants to be told of which topic."""

import asyncio
import threading
from collections.abc import Callable, Iterable

Told = Callable[[str], None]


class Listeners:
    """Topics with their listeners. Added from any thread; told on the event loop that opened the file."""

    __slots__ = ("_changed", "_lock", "_loop", "_told", "version")

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._changed = changed
        self._lock = threading.Lock()
        self._told: dict[str, list[Told]] = {}
        self.version = 0

    def add(self, topics: Iterable[str], told: Told) -> Callable[[], None]:
        """Listen until the returned function is called; calling it twice does no harm."""
        mine = list(dict.fromkeys(topics))
        with self._lock:
            for topic in mine:
                self._told.setdefault(topic, []).append(told)
            self.version += 1
        self._changed()
        return lambda: self._remove(mine, told)

    def _remove(self, topics: list[str], told: Told) -> None:
        with self._lock:
            while topics:
                self._forget(topics.pop(), told)
            self.version += 1
        self._changed()

    def _forget(self, topic: str, told: Told) -> None:
        self._told[topic].remove(told)
        if not self._told[topic]:
            del self._told[topic]

    def topics(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._told)

    def tell(self, topics: Iterable[str]) -> None:
        """Tell everyone who listens to one of these."""
        with self._lock:
            calls = [(told, topic) for topic in topics for told in self._told.get(topic, ())]
        if calls and not self._loop.is_closed():
            self._hand(calls)

    def _hand(self, calls: list[tuple[Told, str]]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._run, calls)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _run(self, calls: list[tuple[Told, str]]) -> None:
        for told, topic in calls:
            # One that was removed after the wake-up was sent must not be called any more.
            if told in self._told.get(topic, ()):
                self._call(told, topic)

    def _call(self, told: Told, topic: str) -> None:
        try:
            told(topic)
        except Exception as error:
            # The others want to be told all the same.
            self._loop.call_exception_handler({"message": f"a listener to {topic} failed", "exception": error})
