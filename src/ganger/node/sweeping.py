"""What a dead node of this machine left without a guardian is ended, before its tasks are leased to anybody again.

A node that is killed leaves its commands to its guardian, which ends them when their lease can be trusted no more. If
the guardian is killed as well, nobody does: the next node of that name would, and may never come. So every node watches
the others of its machine, and when one dies, its guardians.

What can go wrong, and why this is right:

- *There is not much time.* The lease of a node that dies has at least two thirds of its length left, because it beat
  that often; what it left is looked for at once, here and not by a process that has to be started first.
- *We were not there when it died.* Then it is done before we take any work.
- *The guardian lives.* It keeps its word, and the next node of its name is to find what runs: it is only watched.
- *The next node of that name comes at the same time.* It has its own guardian, or starts one. Of two guardians in one
  folder one finds the lock taken, and each of them clears the floor before it does anything else.
- *Several neighbours do this at once.* The same lock lets one of them do it.
- *A process cannot be killed* (it hangs in the kernel). It is waited for, by a thread that holds up nobody.

How it is ended is what every guardian does before it takes an order. What became of it is in the journal, for the next
node of that name.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from ganger.core.clock import Entropy
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.journal import NewerFormat
from ganger.node.guardian.recovery import Taken, sweep
from ganger.node.pausing import Pause
from ganger.node.vigil import LOOK, Neighbour, Vigil, open_process, outlive
from ganger.runtime.telemetry import SILENT, Telemetry

_PAUSE: Final = 0.02
_PATIENCE: Final = 10.0
"""Seconds: so long a node does not begin because of what others left."""


class Guarded(Neighbour, Protocol):
    """A neighbour, and where its guardians stand."""

    def list_runs(self) -> Sequence[RunFolder]:
        """Whatever lies in its folder that is the run folder of a guardian."""
        ...


class Sweeping(Vigil[Guarded]):
    """Ends what killed nodes and killed guardians of this machine left. It has done so once when `start` returns."""

    def __init__(
        self,
        list_neighbours: Callable[[], Iterable[Guarded]],
        hear_nodes: Callable[[Callable[[], None]], Callable[[], None]],
        entropy: Entropy,
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__("sweeping", list_neighbours, hear_nodes, telemetry)
        self._entropy = entropy

    async def start(self) -> None:
        left = [self._sweep(one, run) for one in self._list() for run in one.list_runs()]
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*left)
        except TimeoutError:
            self._telemetry.event("sweeping_failed", trouble="what a dead node left does not end: it is waited for")
        await super().start()

    async def mourn(self, neighbour: Guarded, epoch: int) -> None:
        await asyncio.gather(*(self._outlive_guardian(neighbour, run) for run in neighbour.list_runs()))

    async def _outlive_guardian(self, neighbour: Guarded, run: RunFolder) -> None:
        """Until nothing is left there, or the next node of that name is."""
        pause = Pause(self._entropy, _PAUSE, LOOK)
        while run.is_named() and not neighbour.is_taken():
            fd = open_process(run.find_guardian())
            if fd is not None:
                await outlive(fd)
                pause.reset()
                continue
            await self._sweep(neighbour, run)
            # A process that is about to be gone has no files any more, and for a moment still its locks.
            await pause.take()

    async def _sweep(self, neighbour: Guarded, run: RunFolder) -> None:
        if neighbour.is_taken() or not run.is_left():
            return
        try:
            await _in_a_thread(sweep, run)
        except Taken:
            # Somebody else is at it.
            return
        except (NewerFormat, OSError) as error:
            self._telemetry.event("sweeping_failed", called=neighbour.name, trouble=str(error))
        else:
            self._telemetry.event("node_swept", called=neighbour.name, run=run.path)


async def _in_a_thread(do: Callable[[RunFolder], None], run: RunFolder) -> None:
    """Whoever ends before it does does not wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def work() -> None:
        try:
            do(run)
        except Exception as error:
            tell(error)
        else:
            tell(None)

    def tell(error: Exception | None) -> None:
        # A loop that is closed has nobody left to wake.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(end, error)

    def end(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    threading.Thread(target=work, name="sweep", daemon=True).start()
    await done
