"""The watch over the other nodes of this machine: the kernel tells when one of their processes ends.

A node is known by its folder: the process in it has its lock. A broken connection, or a silence, says nothing, because
the node may go on; the end of its process does, and the lock, which falls with it. Nothing is polled for that: a
process is a descriptor that can be read when it has ended. Only whether new nodes have come is looked at now and then,
besides at each word of the store, which may be lost.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from ganger.core.errors import GangerError
from ganger.runtime.service import Service
from ganger.runtime.telemetry import Telemetry

LOOK: Final = 5.0
"""Seconds between two looks for new neighbours: less than a third of any usual lease."""


class Neighbour(Protocol):
    """A node of this machine, by the folder in which it keeps what it needs."""

    @property
    def name(self) -> str: ...

    def find_process(self) -> int | None:
        """The process that is this node now; None if none is found."""
        ...

    def is_taken(self) -> bool:
        """Has any process its lock, also one that cannot be seen from here?"""
        ...

    def read_epoch(self) -> int:
        """It grows with each process."""
        ...


N = TypeVar("N", bound=Neighbour)


class Vigil(Service, ABC, Generic[N]):
    """Calls `mourn` once for each process of a neighbour that has ended, also for one that ended before we came."""

    def __init__(
        self,
        name: str,
        list_neighbours: Callable[[], Iterable[N]],
        hear_nodes: Callable[[Callable[[], None]], Callable[[], None]],
        telemetry: Telemetry,
    ) -> None:
        super().__init__(name, telemetry=telemetry)
        self._list = list_neighbours
        self._hear = hear_nodes
        self._came = asyncio.Event()
        self._watched: dict[str, int] = {}
        self._mourned: dict[str, int] = {}
        self._jobs: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def mourn(self, neighbour: N, epoch: int) -> None:
        """Do what follows from its death. The next node of its name may be there at any moment."""

    async def run(self) -> None:
        unhear = self._hear(self._came.set)
        try:
            while True:
                self._came.clear()
                for neighbour in self._list():
                    self._watch(neighbour)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._came.wait()
        finally:
            unhear()
            self._let_go()
            await asyncio.gather(*self._jobs, return_exceptions=True)

    async def drain(self) -> None:
        """It only waits for what may never come: there is nothing to finish."""
        await self.stop()

    def _watch(self, neighbour: N) -> None:
        """Of each process once: others come and go often, and to look for a process is not cheap."""
        epoch = neighbour.read_epoch()
        if neighbour.name in self._watched or self._mourned.get(neighbour.name) == epoch:
            return
        pid = neighbour.find_process()
        if pid == os.getpid():
            self._mourned[neighbour.name] = epoch
        elif (fd := open_process(pid)) is not None:
            self._watched[neighbour.name] = fd
            asyncio.get_running_loop().add_reader(fd, self._bereave, neighbour, epoch)
        elif not neighbour.is_taken():
            self._begin(neighbour, epoch)

    def _bereave(self, neighbour: N, epoch: int) -> None:
        fd = self._watched.pop(neighbour.name)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        self._begin(neighbour, epoch)
        # The next of its name may be there already.
        self._came.set()

    def _begin(self, neighbour: N, epoch: int) -> None:
        self._mourned[neighbour.name] = epoch
        job = asyncio.get_running_loop().create_task(self._mourn_safely(neighbour, epoch))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _mourn_safely(self, neighbour: N, epoch: int) -> None:
        try:
            await self.mourn(neighbour, epoch)
        except (GangerError, OSError) as error:
            self._telemetry.event(f"{self.name}_failed", called=neighbour.name, trouble=str(error))

    def _let_go(self) -> None:
        for fd in self._watched.values():
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
        self._watched.clear()
        for job in self._jobs:
            job.cancel()


def open_process(pid: int | None) -> int | None:
    """A descriptor that can be read when the process has ended; None if it is gone already."""
    try:
        return None if pid is None else os.pidfd_open(pid)
    except ProcessLookupError:
        return None


async def outlive(fd: int) -> None:
    """Wait for the end of the process that this is a descriptor of, and close it."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
