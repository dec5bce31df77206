"""The door: one handle on a file that many processes share."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import ForkedHandle, GangerError
from ganger.databases.migrations import Migration
from ganger.databases.sqlite.charter import Charter, Prepare
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.fork import abandon_in_child
from ganger.databases.sqlite.inbox import Inbox
from ganger.databases.sqlite.limits import DEFAULT_LIMITS, Limits
from ganger.databases.sqlite.listeners import Listeners, Told
from ganger.databases.sqlite.operation import Catalogue, Operation, Session
from ganger.databases.sqlite.place import Host, LocalHost, Place
from ganger.databases.sqlite.posting import Letter, Posting
from ganger.databases.sqlite.probes import Probe, no_probe
from ganger.databases.sqlite.readers import Readers
from ganger.databases.sqlite.standing import Standing
from ganger.databases.sqlite.steward import Steward
from ganger.databases.sqlite.unit import (
    Awaited,
    Blocked,
    Called,
    ClientId,
    Haste,
    Outcome,
    Party,
    Seated,
    Unit,
    Waiter,
    call_loop,
)
from ganger.databases.sqlite.versions import PROTOCOL
from ganger.databases.sqlite.wire import Rank
from ganger.runtime.telemetry import LOUD, Telemetry

T = TypeVar("T")


def prepare_nothing(session: Session) -> None:
    """The default: the owner keeps nothing in memory."""


class SharedFile:
    """A SQLite file that any number of processes use at once. One of them owns it; which one, nobody needs to know.

    A handle belongs to the process that opened it: a forked child gets ForkedHandle and opens its own.
    """

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._entered: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._readers = Readers(desk.place, desk.charter.vfs, desk.limits.readers)
        self._loop = loop
        self._posting = Posting(desk, lambda: self._steward.owns, desk.inbox.post)
        self._steward = Steward(
            desk, self._note_entry, lambda: self._resolve(self._ended, None), self._readers.drop_idle
        )
        self._thread = threading.Thread(
            target=self._steward.run, name=f"ganger-{desk.place.database.name}", daemon=True
        )

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        operations: Sequence[Operation[Any, Any]],
        migrations: Sequence[Migration],
        clock: Clock,
        entropy: Entropy,
        application: str,
        rank: Rank = Rank.CLIENT,
        prepare: Prepare = prepare_nothing,
        probe: Probe = no_probe,
        telemetry: Telemetry = LOUD,
        vfs: str | None = None,
        protocol: int = PROTOCOL,
        limits: Limits = DEFAULT_LIMITS,
        host: Host | None = None,
    ) -> "SharedFile":
        """Connect to the owner of the file, or become it: then the file is made, migrated and recovered as needed.

        `prepare` runs in a transaction each time this process becomes the owner (also after a failure of the disk), and
        what it returns is `Session.state`. Raises StoreMissingFolder, StoreOnNetworkFilesystem, StoreReadOnly,
        StoreNotADatabase, StoreNewerVersion, MigrationChanged, StoreFull, StoreBroken, or StoreUnavailable if the
        owner does not answer in time.
        """
        # In this order: a catalogue that is refused leaves no sockets of an inbox behind.
        catalogue, inbox, loop = Catalogue(operations, limits.frame_bytes), Inbox(), asyncio.get_running_loop()
        desk = Desk(
            place=Place.of(path),
            charter=Charter(application, tuple(migrations), prepare, protocol, vfs),
            rank=rank,
            client=ClientId(entropy.token(16)),
            pid=os.getpid(),
            catalogue=catalogue,
            inbox=inbox,
            listeners=Listeners(loop, inbox.ring_if_open),
            standing=Standing(),
            clock=clock,
            entropy=entropy,
            host=LocalHost() if host is None else host,
            limits=limits,
            probe=probe,
            telemetry=telemetry,
        )
        shared = cls(desk, loop)
        await shared._start()
        return shared

    async def _start(self) -> None:
        abandon_in_child(self._steward)
        abandon_in_child(self._readers)
        abandon_in_child(self._posting)
        self._thread.start()
        try:
            await asyncio.shield(self._entered)
        except BaseException:
            await self.close()
            raise

    def _note_entry(self, error: GangerError | None) -> None:
        self._resolve(self._entered, error)

    def _resolve(self, future: asyncio.Future[None], error: GangerError | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_settle, future, error)

    @property
    def owns(self) -> bool:
        """Whether this process owns the file at the moment."""
        return self._steward.owns

    async def call(self, operation: str, request: Any, near: Callable[[], None] | None = None) -> Any:
        """One unit of work: atomic, and durable when this returns.

        Raises what the operation raised, from whichever process it ran in; StoreFull or StoreClosed if nothing was
        done; StoreBroken or StoreUnavailable if it is unknown whether it was. Cancelling does not take it back.
        Units are run in no particular order.

        `near` may be called, on the loop and once, when it was run well and is about to be durable: the loop has
        nothing else to do while the disk is at work.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._post(
            operation, request, Awaited(loop, future), loop, None if near is None else partial(call_loop, loop, near)
        )
        return await future

    async def call_each(
        self, operation: str, requests: Sequence[Any], near: Callable[[], None] | None = None
    ) -> list[Any]:
        """As many units at once, each as by `call`: the reply or the error of each, in their order.

        `near` is for the last of them.
        """
        loop = asyncio.get_running_loop()
        party = Party(loop, len(requests))
        last = len(requests) - 1
        for seat, request in enumerate(requests):
            told = None if near is None or seat < last else partial(call_loop, loop, near)
            self._post(operation, request, Seated(party, seat), loop, told)
        return await party.future if requests else []

    def call_blocking(self, operation: str, request: Any, timeout: float | None = None) -> Any:
        """As `call`, from a plain thread. After the timeout StoreUnavailable: the unit may still be done."""
        blocked = Blocked()
        self._post(operation, request, blocked)
        if timeout is None and (lend := self._desk.inbox.lend) is not None:
            lend(blocked, self._desk.limits.answer_ms)
        return blocked.wait(timeout)

    def post_blocking(self, operation: str, request: Any) -> Letter:
        """From a plain thread: a unit that is durable when this returns, and run soon; its letter waits for the reply.

        It is run even if this process and the owner die at once. Raises as `call` does.
        """
        self._check_process()
        return self._posting.post(operation, request)

    def _post(
        self,
        operation: str,
        request: Any,
        waiter: Waiter,
        loop: asyncio.AbstractEventLoop | None = None,
        near: Callable[[], None] | None = None,
    ) -> None:
        self._check_process()
        self._desk.inbox.post(Unit(operation, request, waiter, near=near), loop)

    def _check_process(self) -> None:
        if os.getpid() != self._desk.pid:
            raise ForkedHandle(
                f"this handle on {self._desk.place.database} belongs to process {self._desk.pid}: open the file again "
                "after a fork",
                pid=self._desk.pid,
            )

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """Run a query on a thread, on a connection that can only read; it sees every commit acknowledged before.

        That also goes for letters of this process, which are waited for; if they cannot be run now, only for a moment.
        """
        self._check_process()
        if not self._posting.is_idle:
            await asyncio.to_thread(self._posting.settle, self._desk.limits.flush_ms / 1000)
        return await self._readers.read(query)

    def listen(self, topics: Iterable[str], told: Told) -> Callable[[], None]:
        """Have `told(topic)` called on the loop that opened the file whenever a commit wakes one of the topics.

        It may be called without a cause, never too late or too seldom: several wake-ups may become one. Whoever listens
        first and looks afterwards misses nothing. The returned function ends it.
        """
        self._check_process()
        return self._desk.listeners.add(topics, told)

    @property
    def standing(self) -> int:
        """How many units are left with it."""
        return len(self._desk.standing)

    def stand(
        self,
        operation: str,
        request: Any,
        topics: Iterable[str],
        told: Callable[[Outcome], None],
        haste: Haste | None = None,
    ) -> Callable[[], bool]:
        """Leave a unit that is run, once, in the very transaction that wakes one of the topics.

        Only if this process owns the file by then, so whoever leaves one listens to the topics too. `told` is called
        with what became of it, on this loop, before anybody is told of the topics; `haste` hears of it before. Returns
        what takes the unit back: False if it was run or is being run.
        """
        self._check_process()
        waiter = Called(asyncio.get_running_loop(), told, haste)
        return self._desk.standing.add(topics, operation, request, waiter)

    async def close(self) -> None:
        """Answer what is in flight, pass the file on, and let everything go. Idempotent."""
        self._check_process()
        await asyncio.to_thread(self._let_go)
        self._desk.inbox.close()
        await asyncio.shield(self._ended)
        self._thread.join()

    def _let_go(self) -> None:
        self._readers.close()
        self._posting.settle(self._desk.limits.flush_ms / 1000)
        self._posting.close()


def _settle(future: asyncio.Future[None], error: GangerError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
