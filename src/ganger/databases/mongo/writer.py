"""Steps, one after the other, each for all who wait at that moment.

A step is run as many times as it takes: if another process got its own in first, everything is decided anew. What is
refused is told when the step is committed, since it may be refused because of what another part of the same step did.

Against one who takes short steps one after the other a long step would be decided anew for ever. So a turn is urgent
for one who has lost several times: everybody sees that with the head of the journal, and waits a while. To wait for
every turn would be fairer still, and a third slower.

A connection that breaks while the record is on its way leaves the outcome open; the same record is then sent again,
which does no harm, until the server says whose the number is. Only if it does not come back in time is the outcome
unknown, and said to be so.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError

from ganger.core.clock import Entropy
from ganger.core.errors import GangerError, StoreClosed
from ganger.databases.mongo.draft import Doc, Wording
from ganger.databases.mongo.errors import is_lost, translate
from ganger.databases.mongo.journal import Journal, Record
from ganger.databases.mongo.patience import PATIENCE, Patience
from ganger.databases.mongo.session import LookAgain, Session
from ganger.databases.mongo.turn import Turn

TOGETHER: Final = 64
"""So many requests share a step at most."""
_MOST_LOSSES: Final = 5
"""So many steps that were decided for nothing are remembered, until as many got in."""


Work = Callable[[Session], Awaitable[Any]]


class Told(Protocol):
    def __call__(self, step: int | None, topics: list[str]) -> None: ...


@dataclass(slots=True)
class _Unit:
    work: Work
    doing: str
    reply: "asyncio.Future[Any]"
    result: Any = None
    error: GangerError | None = None

    def answer(self) -> None:
        if self.reply.done():
            return
        if self.error is None:
            self.reply.set_result(self.result)
        else:
            self.reply.set_exception(self.error)

    def fail(self, error: GangerError) -> None:
        self.error = error
        self.answer()


class Writer:
    """All that this process writes."""

    def __init__(self, database: AsyncDatabase[Doc], entropy: Entropy, told: Told, patience: float = PATIENCE) -> None:
        self._database = database
        self._entropy = entropy
        self._told = told
        self._patience = patience
        self.wording: Wording = {}
        self.journal = Journal(database)
        self._turn = Turn(database, entropy)
        self._inbox: list[_Unit] = []
        self._serving: asyncio.Task[None] | None = None
        self._closed = False
        self._last = 0
        self._losses = 0
        self._crowded = False
        """Others take steps too: better wait for one's turn than work for nothing."""

    async def run(self, work: Work, doing: str) -> Any:
        """Run the work in a step; returns when that is durable, or raises what it raised.

        It may run several times and must keep nothing of what it did.
        """
        if self._closed:
            raise StoreClosed("the store is closed: open it again")
        unit = _Unit(work, doing, asyncio.get_running_loop().create_future())
        self._inbox.append(unit)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve(), name="mongo writer")
        return await unit.reply

    async def close(self) -> None:
        self._closed = True
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def _serve(self) -> None:
        while self._inbox:
            units, self._inbox = self._inbox[:TOGETHER], self._inbox[TOGETHER:]
            await self._serve_some([unit for unit in units if not unit.reply.cancelled()])
            await self._turn.leave(for_good=not self._inbox)

    async def _serve_some(self, units: list[_Unit]) -> None:
        try:
            await self._step(units)
        except Exception as error:
            failure = translate(error, units[0].doing)
            for unit in units:
                unit.fail(failure)

    async def _step(self, units: list[_Unit]) -> None:
        patience = Patience(self._patience, self._entropy)
        while units:
            try:
                if self._crowded:
                    await self._turn.take(self._losses)
                await self._attempt(units, patience)
                self._losses = max(0, self._losses - 1)
                break
            except LookAgain:
                self._crowded, self._losses = True, min(self._losses + 1, _MOST_LOSSES)
                await self._turn.lost()
            except PyMongoError as error:
                if not is_lost(error):
                    raise
                await patience.wait(error, units[0].doing)
        for unit in units:
            unit.answer()

    async def _attempt(self, units: list[_Unit], patience: Patience) -> None:
        head = await self.journal.head()
        if not self._crowded and self._turn.is_anothers(head.turn):
            await self._turn.take()
            head = await self.journal.head()
        session = Session(self._database, head, self._entropy.token(12).hex(), self.wording)
        self._crowded = session.head.step != self._last
        try:
            for unit in units:
                await self._run_one(session, unit)
            await self._commit(session, patience)
        except BaseException:
            await self._give_back(session, 0)
            raise

    async def _give_back(self, session: Session, mark: int) -> None:
        while len(session.grabs) > mark:
            # One that cannot be given back now is given back by upkeep.
            with contextlib.suppress(PyMongoError):
                await session.grabs.pop()()

    async def _run_one(self, session: Session, unit: _Unit) -> None:
        """One request of the step; what is refused leaves nothing behind."""
        mark, sequences, topics = session.draft.mark(), dict(session.head.sequences), dict(session.topics)
        grabs = len(session.grabs)
        unit.error = None
        try:
            unit.result = await unit.work(session)
        except LookAgain:
            raise
        except Exception as error:
            if is_lost(error):
                raise
            await self._give_back(session, grabs)
            session.draft.take_back(mark)
            session.head.sequences.clear()
            session.head.sequences.update(sequences)
            session.topics = topics
            unit.error = translate(error, unit.doing)
            unit.error.__cause__ = None if unit.error is error else error

    async def _commit(self, session: Session, patience: Patience) -> None:
        changes = session.draft.changes()
        if not await self.journal.is_certain(session.head):
            raise LookAgain
        if not changes:
            if await self.journal.last() != session.head.step:
                raise LookAgain
            # The last step is not this one, and may be another process's, of which nobody here has been told yet.
            self._told(None, list(session.topics))
            return
        step = session.head.step + 1
        head = session.head
        record = Record(step, session.seal, changes, head.sequences, list(session.topics), head.server)
        await self._put(record, patience)
        session.grabs.clear()
        await self._see_through(record, patience)
        self._last = step
        self._told(step, list(session.topics))

    async def _put(self, record: Record, patience: Patience) -> None:
        """Insert the record, until it is known to be in. From the first try on nothing may be decided anew."""
        while True:
            try:
                if await self._insert(record):
                    return
                await self.journal.discard(record)
                raise LookAgain
            except PyMongoError as error:
                if not is_lost(error) and not isinstance(error, DuplicateKeyError):
                    raise
                await patience.wait(error, "committing a step")

    async def _insert(self, record: Record) -> bool:
        """Is it in? False: the number is another's. DuplicateKeyError: it is there, and may still go."""
        try:
            await self.journal.commit(record)
        except DuplicateKeyError:
            mine = await self.journal.is_mine(record)
            if mine is None:
                raise
            return mine
        return True

    async def _see_through(self, record: Record, patience: Patience) -> None:
        """The step is committed: make its changes, also if the server goes away meanwhile."""
        making: Callable[[], Awaitable[Any]] = partial(self.journal.apply, record)
        while True:
            try:
                await making()
                return
            except PyMongoError as error:
                if not is_lost(error):
                    raise
                making = partial(self.journal.repair, record.step)
                await patience.wait(error, "applying a step")
