"""Output as it comes: every byte once and in its order, attempt by attempt, until the task has ended.

What can go wrong, and why this is right:

- *Nobody ships.* A node keeps output to itself until its attempt has ended, unless somebody says that he follows. So
  whoever reads here says so, before the first look and again while he goes on reading; when he stops, or dies, that
  ends by itself. Whoever takes no more pieces does not say it again either.
- *The last bytes are missed.* The task is looked at before its output: if it had ended by then, so had its output.
- *Two attempts are mixed.* Each is read by its own fence, from its own beginning. What an attempt said is stored
  before the fence grows, so when a newer one is seen, the older is read to its end first.
- *A busy store wakes a reader all the time.* It rests between two looks, so it makes a bounded number of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from ganger.core import names
from ganger.core.errors import TaskNotFound
from ganger.core.ids import Fence, TaskId
from ganger.core.state import LEASED, is_final
from ganger.core.task import Task
from ganger.engine.bell import Bell
from ganger.engine.checks import LATEST, OUTPUT, check_whole
from ganger.engine.output import Places, Wish, read
from ganger.engine.store import EVENTS_TOPIC, OUTPUT_TOPIC, Note

SAID: Final = ("stdout", "stderr", "log")
"""The streams that together are all that an attempt said."""

LASTS: Final = 10_000
"""Milliseconds: so long it is believed that somebody follows."""

AGAIN: Final = 3.0
"""Seconds after which he says so again."""

LOOK: Final = 0.75
"""Seconds after which he looks for himself: a wake-up may be lost, and a piece of output leaves no event."""

FIRST: Final = 2.0
"""Seconds: so long it may take a node to hear that somebody follows, and to send what there is."""

QUIET: Final = 0.6
"""Seconds without a piece, after which all is there: a node sends at least every quarter of a second."""

LONGEST: Final = 5.0
REST: Final = 0.02
PIECE: Final = 1 << 18
_FORMER: Final = 100
"""So many attempts back it is looked for one that said anything."""


class Heard(NamedTuple):
    """Bytes of one stream of one attempt, and where they begin in it."""

    fence: Fence
    stream: str
    start: int
    body: bytes


class Wanted(NamedTuple):
    """Whose output: of one attempt alone if `fence` is given, else of the newest and those that follow it.

    `start` is where the first attempt is read from.
    """

    task: TaskId
    streams: Sequence[str] = SAID
    start: int = 0
    fence: Fence | None = None


async def follow_output(places: Places, wanted: Wanted) -> AsyncGenerator[Heard, None]:
    """What is there and what comes, until nothing more can come. TaskNotFound if there is no such task."""
    check_whole("start", wanted.start, 0, LATEST)
    for stream in wanted.streams:
        names.check("stream", stream)
    tail = _Tail(places, wanted)
    with Bell(places.store, (OUTPUT_TOPIC.format(wanted.task), EVENTS_TOPIC)) as bell:
        while True:
            bell.rung.clear()
            task = await tail.look()
            async for heard in tail.read(task):
                yield heard
            if tail.has_all(task):
                return
            await asyncio.sleep(REST)
            await bell.wait(min(LOOK, AGAIN))


async def take_so_far(pieces: AsyncGenerator[Heard, None]) -> AsyncGenerator[Heard, None]:
    """What an attempt that runs has written by now: until nothing comes for a moment, since nobody says that it is all.

    One that never stops writing is read for some seconds, and then to the end of what had come by then.
    """
    loop = asyncio.get_running_loop()
    end, patience = loop.time() + LONGEST, FIRST
    while True:
        try:
            async with asyncio.timeout(patience):
                heard = await anext(pieces)
        except (TimeoutError, StopAsyncIteration):
            return
        yield heard
        if loop.time() >= end and len(heard.body) < PIECE:
            return
        patience = QUIET


class _Tail:
    """Where a reader is: the attempt, and the offset in each of its streams."""

    def __init__(self, places: Places, wanted: Wanted) -> None:
        self._places = places
        self._wanted = wanted
        self._fence = wanted.fence
        self._offsets = dict.fromkeys(wanted.streams, wanted.start)
        self._say_at = 0.0

    async def look(self) -> Task:
        """The task as it is now. Says that it is followed, if that is due."""
        now = asyncio.get_running_loop().time()
        if now >= self._say_at:
            self._say_at = now + AGAIN
            await self._places.store.write((Note(self._wanted.task, Fence(0), follow=LASTS),))
        (task,) = await self._places.store.tasks([self._wanted.task])
        if task is None:
            raise TaskNotFound(f"there is no task {self._wanted.task} (any more)", task=self._wanted.task)
        return task

    async def read(self, task: Task) -> AsyncGenerator[Heard, None]:
        """All there is, up to the newest attempt."""
        if self._fence is None:
            self._fence = await self._find_first(task)
        while True:
            for stream in self._wanted.streams:
                while body := await self._take(self._fence, stream):
                    yield Heard(self._fence, stream, self._offsets[stream] - len(body), body)
            if self._wanted.fence is not None or self._fence >= task.fence:
                return
            self._fence = Fence(self._fence + 1)
            self._offsets = dict.fromkeys(self._wanted.streams, 0)

    def has_all(self, task: Task) -> bool:
        """Could nothing more come when the task was looked at?"""
        if is_final(task.status):
            return True
        return self._wanted.fence is not None and (task.fence > self._wanted.fence or task.status not in LEASED)

    async def _take(self, fence: Fence, stream: str) -> bytes:
        wish = Wish(self._wanted.task, f"{OUTPUT}{stream}", self._offsets[stream], PIECE, fence)
        part = await read(self._places, wish)
        self._offsets[stream] += len(part.body)
        return part.body

    async def _find_first(self, task: Task) -> Fence:
        """The attempt that runs, or else the last one that said anything."""
        if task.status in LEASED:
            return task.fence
        for number in range(task.fence, max(0, task.fence - _FORMER), -1):
            if await self._has_said(Fence(number)):
                return Fence(number)
        return task.fence

    async def _has_said(self, fence: Fence) -> bool:
        value, task = self._places.store.value, self._wanted.task
        sizes = [(await value(task, f"{OUTPUT}{name}", 0, 1, fence)).size for name in self._wanted.streams]
        return any(sizes)
