"""Wake-ups from other processes: a look at the journal now and then, and its change stream where there is one.

A server that is no replica set has no change streams; there the look comes every tenth of a second while something goes
on, and twice or thrice a second when nothing has for a while. Where there are streams it comes once a second whatever
they say: the journal has the topics of each step, in their order, so none is lost. A look that finds the journal
shorter than what it has not seen tells everybody of everything. After a lost connection it begins anew half a
second later, however often that happens.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

import pymongo
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure, PyMongoError

from ganger.databases.listeners import Listeners
from ganger.databases.mongo.draft import Doc
from ganger.databases.mongo.journal import STEPS
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

POLL: Final = 0.1
IDLE_POLL: Final = 0.4
BUSY: Final = 10.0
"""How often it is looked where no stream tells: while something was told in so many seconds, and after that."""
QUIET_POLL: Final = 0.75
"""How often it is looked where the change stream tells as well."""
RESET: Final = "reset"
MOST: Final = 500
AGAIN: Final = 0.5
ANSWER: Final = 5.0
"""Seconds: before a new beginning, and until a server that says nothing counts as lost."""
_LOST: Final = 0.5
_UPDATES: Final = [{"$match": {"operationType": "update"}}]
_STREAM: Final = 5_000
"""Milliseconds for which a stream that has nothing to tell is not asked again."""
_NO_STREAMS: Final = 40_573
_MADE: Final[Doc] = {"applied": {"$exists": True}}


class Watch(Service):
    """Hears what happened elsewhere."""

    def __init__(self, database: AsyncDatabase[Doc], listeners: Listeners, telemetry: Telemetry = SILENT) -> None:
        super().__init__("mongo watch", telemetry=telemetry)
        self._database = database
        self._steps = database[STEPS]
        self._listeners = listeners
        self._seen = 0
        self._own: set[int] = set()
        self._stirred = asyncio.Event()
        self._streaming = False
        self._busy_until = 0.0

    def wrote(self, step: int, topics: Sequence[str]) -> None:
        """This process took the step itself, and told its listeners."""
        self._own.add(step)
        self._note(topics)

    def newest(self) -> int:
        return max(self._seen, *self._own) if self._own else self._seen

    def _note(self, topics: Sequence[str]) -> None:
        """Something goes on, and more may follow; a beat tells nobody, and is nothing."""
        if topics:
            self._busy_until = asyncio.get_running_loop().time() + BUSY

    def _pause(self) -> float:
        if self._streaming:
            return QUIET_POLL
        return POLL if asyncio.get_running_loop().time() < self._busy_until else IDLE_POLL

    async def run(self) -> None:
        told = False
        while True:
            try:
                self._seen = await self._last()
                told = False
                await self._watch()
            except PyMongoError as error:
                if not told:
                    # Once for each time that the server is gone, not twice a second.
                    self._telemetry.event("service_crashed", service=self.name, error=repr(error), pause=AGAIN)
                told = True
            await asyncio.sleep(AGAIN)

    async def _watch(self) -> None:
        parts = [asyncio.create_task(part, name="mongo watch") for part in (self._look_on(), self._stream())]
        try:
            await asyncio.wait(parts[:1])
            parts[0].result()
        finally:
            for part in parts:
                await _end(part)

    async def _look_on(self) -> None:
        self._listeners.tell([RESET, *self._listeners.topics()])
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._stirred.wait()
            self._stirred.clear()
            await self._look()

    async def _last(self) -> int:
        with pymongo.timeout(ANSWER):
            # One that is not made yet is told when it is: whoever is told to look now does not see it.
            found = await self._steps.find_one(_MADE, {"_id": 1}, sort=[("_id", -1)])
        return 0 if found is None else int(found["_id"])

    async def _look(self) -> None:
        if not self._listeners.topics():
            return
        while len(page := await self._read()) == MOST:
            self._hear(page)
        self._hear(page)

    async def _read(self) -> list[dict[str, Any]]:
        where = {"_id": {"$gt": self._seen}, **_MADE}
        with pymongo.timeout(ANSWER):
            return await self._steps.find(where, {"topics": 1}).sort("_id", 1).limit(MOST).to_list()

    def _hear(self, page: list[dict[str, Any]]) -> None:
        if page and page[0]["_id"] > self._seen + 1:
            # What lay between is forgotten.
            self._listeners.tell(self._listeners.topics())
        for found in page:
            self._hear_one(found)

    def _hear_one(self, found: dict[str, Any]) -> None:
        self._seen = found["_id"]
        self._note(found.get("topics", ()))
        if self._seen not in self._own:
            self._listeners.tell(found.get("topics", ()))
        self._own = {step for step in self._own if step > self._seen}

    async def _stream(self) -> None:
        """Stir the watch at each change, as long as the server has a stream of them."""
        while True:
            with contextlib.suppress(PyMongoError):
                if not await self._hear_stream():
                    return
            await asyncio.sleep(QUIET_POLL)

    async def _hear_stream(self) -> bool:
        """Listen until the connection is lost; False if the server has no streams."""
        try:
            async with await self._steps.watch(_UPDATES, max_await_time_ms=_STREAM) as changes:
                self._streaming = True
                async for _ in changes:
                    self._stirred.set()
        except OperationFailure as error:
            return error.code != _NO_STREAMS
        finally:
            self._streaming = False
        return True


async def _end(part: "asyncio.Task[None]") -> None:
    """Cancel it until it ends: a cancellation that comes while the driver opens a connection can be lost in there."""
    while not part.done():
        part.cancel()
        await asyncio.wait([part], timeout=_LOST)
