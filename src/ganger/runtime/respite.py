"""A rest for an event loop that is asked without end."""

import asyncio
import time


class Respite:
    """Time in which a loop rests, so that the other threads of the process have the interpreter to themselves.

    Every look of a loop at its sockets takes the interpreter away from them, and to give it back takes longer than a
    small answer does. A loop that rests between two looks finds many requests at each of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._asked = False

    def ask(self) -> None:
        """Rest once, after this turn of the loop."""
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._take)

    def _take(self) -> None:
        self._asked = False
        time.sleep(self._seconds)
