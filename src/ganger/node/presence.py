"""A node comes, is lost, comes again, and goes: its registration, and what a former node of its name has left it.

Coming: the name is registered first, which a second live node of that name is refused. With the token of a former node
this is the same registration as before, and its leases are ours. Then executors are asked what they still have. What is
leased to us and still runs, or ended unheard, we go on with. What runs and is not leased to us is ended. What is leased
to us and runs nowhere is settled at once, or our own beats would keep its lease for ever: it goes back if it had not
begun, and counts as a crash if it had.

Going: everything that has ended is settled, what has not begun is given back, and the registration ends; what is left
then lapses at once and nobody is blamed. For a restart the leases are extended instead, and what runs is left to the
next node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from ganger.core.errors import GangerError, NodeGone, NodeTaken
from ganger.core.node import Registration
from ganger.core.outcome import Crashed, Outcome, Release
from ganger.core.state import Status
from ganger.core.task import Claimed
from ganger.node.carrying import Carrier
from ganger.node.executor import BatchExecutor, Executor
from ganger.node.means import Means
from ganger.node.pausing import Pause
from ganger.node.settling import Settling
from ganger.runtime.faults import name_fault
from ganger.runtime.service import Service

PATIENCE: Final = 5.0
"""Seconds: so long the last words to the source may take; and functions that run at a restart, without a grace."""


class House(NamedTuple):
    """Those who execute, and the one who carries attempts to them."""

    carrier: Carrier
    executors: Sequence[Executor]
    batch: Sequence[BatchExecutor]


class Presence(Service):
    """Is there from the first to the last moment of a node; its end is the node's. `changed`: see Beating."""

    def __init__(
        self, means: Means, house: House, settling: Settling, said: Registration, changed: Callable[[], None]
    ) -> None:
        super().__init__("presence", telemetry=means.telemetry)
        self._source, self._options, self._session, self._entropy, _ = means
        self._carrier, self._executors, self._batch = house
        self._settling, self._said, self._changed = settling, said, changed
        self.leaves_running = False

    async def start(self) -> None:
        """Register and adopt. Raises NodeTaken while another live node has the name, and errors of the source."""
        await self._join()
        await self._adopt()
        await super().start()

    async def run(self) -> None:
        try:
            await self.draining.wait()
        finally:
            await self._depart()

    async def rejoin(self, unwanted: asyncio.Event) -> None:
        """The registration is gone: end everything, and register anew as soon as that is possible and still wanted."""
        self._session.lose()
        self._carrier.drop()
        self._changed()
        if self._session.is_draining:
            # It was on its way out: there is nothing left to register for.
            return
        pause = Pause(self._entropy)
        while not unwanted.is_set():
            try:
                await self._join()
            except NodeTaken as error:
                self._telemetry.event("name_taken", called=self._said.name, message=str(error))
            except GangerError as error:
                self._telemetry.event("join_failed", error=error.code, message=str(error))
            else:
                self._changed()
                return
            await pause.take(unwanted)

    async def _join(self) -> None:
        self._session.join(await self._source.join(self._said))
        self._options.joined(self._session.node)
        self._telemetry.event("node_joined", node=self._session.node, called=self._said.name)

    async def _adopt(self) -> None:
        held = await self._held()
        for executor in self._executors:
            for run in await executor.adopt():
                claimed = held.pop((run.task, run.fence), None)
                if claimed is None:
                    self._carrier.disown(run)
                else:
                    self._carrier.adopt(claimed, executor, run)
        for claimed in held.values():
            self._carrier.hands.add_ended(claimed, self._judge_left(claimed))

    async def _held(self) -> dict[tuple[int, int], Claimed]:
        return {(one.id, one.fence): one for one in await self._source.held(self._session.node)}

    def _judge_left(self, claimed: Claimed) -> Outcome:
        """What becomes of a task that a former node held and that runs nowhere."""
        batch = [one for one in self._batch if claimed.kind in one.kinds]
        executed = any((claimed.id, claimed.fence) in one.blamed for one in batch)
        began = executed if batch else claimed.status == Status.RUNNING
        return Crashed("its node died under it") if began else Release()

    async def _depart(self) -> None:
        """The end: nothing of this may keep the next step from being taken."""
        self._carrier.close()
        for step in self._steps():
            try:
                await step()
            except (GangerError, TimeoutError) as error:
                self._telemetry.event("departure_failed", step=step.__name__, error=name_fault(error))

    def _steps(self) -> list[Callable[[], Awaitable[None]]]:
        if self.leaves_running:
            # First of all, because nobody beats any more; and last, because the next node is to have all of it.
            return [self._extend, self._finish_batches, self._put_down, self._say_last, self._extend, self._hang_up]
        return [self._end_batches, self._end_runs, self._put_down, self._say_last, self._leave]

    async def _finish_batches(self) -> None:
        """Functions cannot be left to another node: those that run may finish."""
        patience = PATIENCE if self._options.grace is None else self._options.grace / 1_000
        closing = [asyncio.ensure_future(batch.close(give_back=True)) for batch in self._batch]
        if closing:
            await asyncio.wait(closing, timeout=patience)
        await self._end_batches()

    async def _end_batches(self) -> None:
        for batch in self._batch:
            await batch.close(give_back=False)

    async def _end_runs(self) -> None:
        self._carrier.expect_end()
        for executor in self._executors:
            await executor.close(leave_running=False)

    async def _put_down(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._carrier.put_all_down(but_runs=self.leaves_running)

    async def _say_last(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._settling.flush()

    async def _extend(self) -> None:
        async with asyncio.timeout(PATIENCE):
            beaten = await self._source.beat(self._session.node, self._session.token, self._options.handover)
            self._session.renew(beaten)
            self._carrier.trust(beaten.trusted_until)
            await self._carrier.hand_over(self._options.handover)

    async def _hang_up(self) -> None:
        await self._carrier.stop()
        for executor in self._executors:
            await executor.close(leave_running=True)

    async def _leave(self) -> None:
        await self._carrier.stop()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._source.leave(self._session.node, self._session.token)
        except NodeGone:
            # Somebody took it away already: that is what was wanted.
            self._telemetry.event("node_gone", node=self._session.node)
        self._session.lose()
