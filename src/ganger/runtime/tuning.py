"""How a process that only serves is set up: it spawns nothing, makes little garbage in cycles, and answers quickly."""

import asyncio
import gc
from typing import Final

import uvloop

_THRESHOLDS: Final = (20_000, 3, 1_000)


def make_serving_loop() -> asyncio.AbstractEventLoop:
    """A loop that costs a third less for each request. It cannot start processes as a node must: not for nodes."""
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def look_for_garbage_seldom() -> None:
    """A request leaves hardly a cycle behind, and every look for them walks through all that is waiting.

    What is there at the start stays, and is left out of every look. The young are looked at in small lots, since
    nothing is answered meanwhile; all together hardly ever, since thousands of requests may be on their way.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
