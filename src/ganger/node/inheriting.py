"""What died with a node of this machine goes back at once, and not when its lease ends.

What can go wrong, and why this is right:

- *The node is not dead.* A broken connection, or a silence, says nothing: the node may go on. What counts here is its
  process, which the kernel tells the end of, and the lock of its folder, which falls with the process.
- *What it ran goes on.* Commands do, in the care of their guardian, so that the next node of that name can adopt them:
  they keep their lease, and their guardian ends them with it. Functions end with their node; but it takes a moment, and
  none may begin elsewhere before. So the notes of its processes are looked at until each says that nothing is left.
- *Another node has the name by now*, maybe on another machine. What goes back is what the registration holds that the
  dead process wrote down in its folder, and no other.
- *The next node of that name comes at the same time.* Whatever is held was held before the process was known to be
  dead, and every settle is fenced: of two who settle the same attempt one is refused. If that node is there already it
  is left alone, because it has read the notes, and removed them.
- *Several processes look after the same store.* The same fence lets one of them settle.

What cannot be proven dead this way waits for the end of its lease, as it would anyway.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from ganger.core.errors import GangerError
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.node import Node
from ganger.core.outcome import Crashed, Release
from ganger.core.task import Claimed, Kind
from ganger.node.source import Finished, WorkSource
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

LOOKS: Final = 200
_PAUSE: Final = 0.02
"""Seconds between two looks at the notes: processes that were killed are gone within milliseconds."""

_LOT: Final = 500


class Neighbour(Protocol):
    """A node of this machine, by the folder in which it keeps what it needs."""

    @property
    def name(self) -> str: ...

    def find_process(self) -> int | None:
        """The process that is this node now; None if none is found."""
        ...

    def read_node(self) -> NodeId | None:
        """Its last registration."""
        ...

    def is_taken(self) -> bool:
        """Has any process its lock, also one that cannot be seen from here?"""
        ...

    def read_epoch(self) -> int:
        """It grows with each process."""
        ...

    def read_last(self) -> Collection[tuple[TaskId, Fence]] | None:
        """What its dead processes were executing; None if one of them may still live."""
        ...


class Inheriting(Service):
    """Watches the processes of the other nodes of this machine, and settles for those that died."""

    def __init__(
        self,
        source: WorkSource,
        list_neighbours: Callable[[], Iterable[Neighbour]],
        list_nodes: Callable[[], Awaitable[Sequence[Node]]],
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__("inheriting", telemetry=telemetry)
        self._source = source
        self._list = list_neighbours
        self._list_nodes = list_nodes
        self._came = asyncio.Event()
        self._watched: dict[str, int] = {}
        self._settled: dict[str, int] = {}
        self._jobs: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        unhear = self._source.hear_nodes(self._came.set)
        try:
            while True:
                self._came.clear()
                for neighbour in self._list():
                    self._watch(neighbour)
                await self._came.wait()
        finally:
            unhear()
            self._let_go()

    async def drain(self) -> None:
        """It only waits for what may never come: there is nothing to finish."""
        await self.stop()

    def _watch(self, neighbour: Neighbour) -> None:
        """Of each process once: others come and go often, and to look for a process is not cheap."""
        epoch = neighbour.read_epoch()
        if neighbour.name in self._watched or self._settled.get(neighbour.name) == epoch:
            return
        pid = neighbour.find_process()
        if pid == os.getpid():
            self._settled[neighbour.name] = epoch
        elif (fd := _open(pid)) is not None:
            self._watched[neighbour.name] = fd
            asyncio.get_running_loop().add_reader(fd, self._bereave, neighbour, epoch)
        elif not neighbour.is_taken():
            self._mourn(neighbour, epoch)

    def _bereave(self, neighbour: Neighbour, epoch: int) -> None:
        fd = self._watched.pop(neighbour.name)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        self._mourn(neighbour, epoch)
        # The next of its name may be there already.
        self._came.set()

    def _mourn(self, neighbour: Neighbour, epoch: int) -> None:
        self._settled[neighbour.name] = epoch
        job = asyncio.get_running_loop().create_task(self._inherit(neighbour, epoch))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def _let_go(self) -> None:
        for fd in self._watched.values():
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
        self._watched.clear()
        for job in self._jobs:
            job.cancel()

    async def _inherit(self, neighbour: Neighbour, epoch: int) -> None:
        trouble = "its processes are not known to be dead"
        for _ in range(LOOKS):
            try:
                if await self._settle(neighbour, epoch):
                    return
            except GangerError as error:
                # The dead one may have owned the file, and the next owner is being found.
                trouble = f"{error.code}: {error}"
            await asyncio.sleep(_PAUSE)
        self._telemetry.event("inheriting_failed", called=neighbour.name, trouble=trouble)

    async def _settle(self, neighbour: Neighbour, epoch: int) -> bool:
        """False: it is too early."""
        node = await self._find(neighbour)
        held = () if node is None else await self._source.held(node)
        functions = [one for one in held if one.kind == Kind.FUNCTION]
        if node is None or not functions:
            return True
        last = neighbour.read_last()
        if last is None:
            return False
        # Asked last: whatever is held was held, and the notes were there, before the lock was found free.
        if neighbour.is_taken() or neighbour.read_epoch() != epoch:
            return True
        await self._give_back(node, functions, last)
        self._telemetry.event("node_inherited", node=node, called=neighbour.name, tasks=len(functions))
        return True

    async def _find(self, neighbour: Neighbour) -> NodeId | None:
        """Its registration, if that is here. The number alone may be another's: a store can be put back to a backup."""
        number = neighbour.read_node()
        here = await self._list_nodes()
        return next((node.id for node in here if (node.id, node.name) == (number, neighbour.name) and node.here), None)

    async def _give_back(self, node: NodeId, held: Sequence[Claimed], last: Collection[tuple[TaskId, Fence]]) -> None:
        finished = [Finished(one, _judge(one, last)) for one in held]
        for start in range(0, len(finished), _LOT):
            await self._source.take(node, 0, start=False, finished=finished[start : start + _LOT])


def _open(pid: int | None) -> int | None:
    """A descriptor that can be read when the process has ended; None if it is gone already."""
    try:
        return None if pid is None else os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _judge(claimed: Claimed, last: Collection[tuple[TaskId, Fence]]) -> Crashed | Release:
    return Crashed("its node died under it") if (claimed.id, claimed.fence) in last else Release()
