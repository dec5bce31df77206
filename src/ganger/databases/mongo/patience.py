"""How long a server may be gone, and how often it is asked meanwhile."""

import asyncio
from typing import Final

from ganger.core.clock import Entropy
from ganger.databases.mongo.errors import unavailable

PATIENCE: Final = 10.0
"""Seconds for which a step waits for a server that is gone."""
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0


class Patience:
    """Growing pauses between attempts, with chance, so that not all come at once."""

    def __init__(self, seconds: float, entropy: Entropy) -> None:
        self._clock = asyncio.get_running_loop()
        self._end = self._clock.time() + seconds
        self._pause = _FIRST_PAUSE
        self._entropy = entropy

    async def wait(self, error: Exception, doing: str) -> None:
        """One pause; StoreUnavailable when it has been enough."""
        if self._clock.time() >= self._end:
            raise unavailable(error, doing) from error
        await asyncio.sleep(self._pause * (0.5 + self._entropy.uniform()))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
