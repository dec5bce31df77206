"""When it is written down that a job runs: most are over before, and only those that are not say so.

The timer outlasts the jobs: while they are short it goes off a few times a second, and not once for each of them.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ganger.core.task import Claimed

UNTOLD: Final = 0.2
"""Seconds."""


class Starting:
    """The jobs of one worker, one at a time. `tell` is called with each that runs for a while."""

    def __init__(self, tell: Callable[[Claimed], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._job: Claimed | None = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, job: Claimed) -> None:
        """It was all sent."""
        self._job, self._since = job, self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(UNTOLD, self._look)

    def end(self) -> None:
        """It is over."""
        self._job = None

    def close(self) -> None:
        self._job = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        job, left = self._job, self._since + UNTOLD - self._loop.time()
        if job is None:
            return
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._tell(job)
