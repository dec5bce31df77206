"""How long to wait before a call that failed is made again: a little, then longer, never in step with others."""

import asyncio
from contextlib import suppress

from ganger.core.clock import Entropy


class Pause:
    """Seconds from `first` on, twice as many each time up to `longest`, less up to a half by luck."""

    def __init__(self, entropy: Entropy, first: float = 0.05, longest: float = 2.0) -> None:
        self._entropy = entropy
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    async def take(self, until: asyncio.Event | None = None) -> None:
        """Wait, at most until the event."""
        seconds = self._next * (1 - self._entropy.uniform() / 2)
        self._next = min(self._next * 2, self._longest)
        if until is None:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await until.wait()
