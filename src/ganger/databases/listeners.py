"""Who in this process wants to be told of which topic."""

import asyncio
from collections.abc import Callable, Iterable

Told = Callable[[str], None]


class Listeners:
    """Topics with their listeners, told on the event loop that opened the database."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._told: dict[str, list[Told]] = {}

    def add(self, topics: Iterable[str], told: Told) -> Callable[[], None]:
        """Listen until the returned function is called; calling it twice does no harm."""
        mine = list(dict.fromkeys(topics))
        for topic in mine:
            self._told.setdefault(topic, []).append(told)
        return lambda: self._remove(mine, told)

    def _remove(self, topics: list[str], told: Told) -> None:
        while topics:
            topic = topics.pop()
            self._told[topic].remove(told)
            if not self._told[topic]:
                del self._told[topic]

    def topics(self) -> list[str]:
        return list(self._told)

    def tell(self, topics: Iterable[str]) -> None:
        for topic in topics:
            for told in self._told.get(topic, ()):
                self._loop.call_soon(self._tell_one, told, topic)

    def _tell_one(self, told: Told, topic: str) -> None:
        # One that was removed after the wake-up was sent must not be called any more.
        if told in self._told.get(topic, ()):
            told(topic)
