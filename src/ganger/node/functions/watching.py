"""The output of a function that somebody follows, read by the node while the function is executed.

In a process of its own a function prints into files that the node has open. They are emptied when it ends, and then
the next one prints into them: so what is read counts only if the same function was executed before and after. In the
other modes, and for the stream `log`, the process is told to put all of it into the spool. Nobody tells the node how
far a stream reaches: it looks now and then, as long as somebody follows.
"""

from collections.abc import Mapping
from typing import Final

from ganger.core.errors import StoreBroken
from ganger.core.ids import Fence, TaskId
from ganger.node.functions.child import STREAMS, Child
from ganger.node.functions.messages import Follow, Mode
from ganger.node.shipping import Readable
from ganger.node.spool import LARGEST, Bell, Extent, Signal, Spool, SpoolKey

WATCHED: Final = (*STREAMS, "log")


class Watch:
    """One attempt. `look` is called while it is executed."""

    def __init__(self, spool: Spool, task: TaskId, fence: Fence) -> None:
        self._spool = spool
        self._keys = {name: SpoolKey(task, fence, name) for name in WATCHED}
        self._bells = {name: Bell() for name in WATCHED}
        self._child: Child | None = None
        self._seq = 0

    def readers(self) -> Mapping[str, Readable]:
        return {name: _Reader(self, name, self._bells[name]) for name in WATCHED}

    def look(self, child: Child, seq: int) -> None:
        """It is executed there now: see how far its streams reach."""
        if self._child is not child or self._seq != seq:
            self._child, self._seq = child, seq
            child.send(Follow(seq))
        for name, bell in self._bells.items():
            length = self._measure(child, name)
            if length > bell.extent().length:
                bell.tell(Extent(length))

    def _measure(self, child: Child, name: str) -> int:
        if _is_file(child, name):
            return child.measure(self._seq, name)
        return self._spool.read_ended(self._keys[name]).signal.extent().length

    async def take(self, name: str, offset: int, end: int) -> bytes:
        if self._child is None or not _is_file(self._child, name):
            return await self._spool.read(self._keys[name], self._bells[name]).take(offset, end)
        body = self._child.peek(self._seq, name, offset, min(end - offset, LARGEST))
        if not body:
            raise StoreBroken(f"the function has ended, and its {name} is not here any more")
        return body


class _Reader:
    """One stream."""

    def __init__(self, watch: Watch, name: str, signal: Signal) -> None:
        self._watch = watch
        self._name = name
        self.signal = signal

    async def take(self, offset: int, end: int) -> bytes:
        return await self._watch.take(self._name, offset, end)


def _is_file(child: Child, name: str) -> bool:
    return child.mode is Mode.PROCESS and name in STREAMS
