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
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from ganger.core.errors import GangerError
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.node import Node
from ganger.core.outcome import Crashed, Release
from ganger.core.task import Claimed, Kind
from ganger.node.source import Finished, WorkSource
from ganger.node.vigil import Neighbour, Vigil
from ganger.runtime.telemetry import SILENT, Telemetry

LOOKS: Final = 200
_PAUSE: Final = 0.02
"""Seconds between two looks at the notes: processes that were killed are gone within milliseconds."""

_LOT: Final = 500


class Departed(Neighbour, Protocol):
    """A neighbour, and what it left behind."""

    def read_node(self) -> NodeId | None:
        """Its last registration."""
        ...

    def read_last(self) -> Collection[tuple[TaskId, Fence]] | None:
        """What its dead processes were executing; None if one of them may still live."""
        ...


class Inheriting(Vigil[Departed]):
    """Settles for the nodes of this machine that died."""

    def __init__(
        self,
        source: WorkSource,
        list_neighbours: Callable[[], Iterable[Departed]],
        list_nodes: Callable[[], Awaitable[Sequence[Node]]],
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__("inheriting", list_neighbours, source.hear_nodes, telemetry)
        self._source = source
        self._list_nodes = list_nodes

    async def mourn(self, neighbour: Departed, epoch: int) -> None:
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

    async def _settle(self, neighbour: Departed, epoch: int) -> bool:
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

    async def _find(self, neighbour: Departed) -> NodeId | None:
        """Its registration, if that is here. The number alone may be another's: a store can be put back to a backup."""
        number = neighbour.read_node()
        here = await self._list_nodes()
        return next((node.id for node in here if (node.id, node.name) == (number, neighbour.name) and node.here), None)

    async def _give_back(self, node: NodeId, held: Sequence[Claimed], last: Collection[tuple[TaskId, Fence]]) -> None:
        finished = [Finished(one, _judge(one, last)) for one in held]
        for start in range(0, len(finished), _LOT):
            await self._source.take(node, 0, start=False, finished=finished[start : start + _LOT])


def _judge(claimed: Claimed, last: Collection[tuple[TaskId, Fence]]) -> Crashed | Release:
    return Crashed("its node died under it") if (claimed.id, claimed.fence) in last else Release()
