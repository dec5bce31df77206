"""How much more a node can take: whoever asks for work reserves the slots first, so that nobody asks for them twice."""

import asyncio
from collections.abc import Callable
from contextlib import suppress


class Slots:
    """`spare` says how many slots are free, those that are reserved included."""

    def __init__(self, spare: Callable[[], int]) -> None:
        self._spare = spare
        self._reserved = 0
        self._freed = asyncio.Event()

    def reserve(self) -> int:
        """Take all that are free; give them back when the answer is there."""
        free = max(0, self._spare() - self._reserved)
        self._reserved += free
        return free

    def give_back(self, count: int, taken: int = 0) -> None:
        """What came of it counts as taken by itself. Whoever got all that was asked for will soon ask again."""
        self._reserved -= count
        if not count or taken < count:
            self.tell()

    def tell(self) -> None:
        """Something may be free."""
        self._freed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until something may be free, or for so long."""
        self._freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._freed.wait()
