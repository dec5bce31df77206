"""From a claim to an end: attempts are handed to their executors, watched, stopped, and put down when they have ended.

Nothing here decides about leases. What is claimed is begun as soon as a slot is free, or goes back; what has ended is
laid into the hands of whoever settles. A slot is free again when the executor says that nothing of the attempt runs.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, ParamSpec, TypeVar

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, NodeGone
from ganger.core.ids import TaskId
from ganger.core.lease import trusted_until
from ganger.core.outcome import Killed, Release
from ganger.core.task import Claimed
from ganger.node.executor import Assignment, BatchExecutor, Ended, Executor, Run
from ganger.node.hands import KILLED_EARLY, Hand, Hands, Wish
from ganger.node.keeping import Keeper
from ganger.node.means import Means
from ganger.node.offers import forget
from ganger.node.starting import Starts

_BACK_OFF: Final = 1_000
"""A task that could not be begun for no fault of its own is due again after so many ms."""

LOST: Final = "its lease was lost"
HANDED_BACK: Final = "the node hands it back"

E = TypeVar("E", Executor, BatchExecutor)
P = ParamSpec("P")


class Carrier:
    """Carries attempts to those who execute them."""

    def __init__(
        self, means: Means, executors: Sequence[Executor], batch: Sequence[BatchExecutor], keeper: Keeper
    ) -> None:
        self.hands = Hands()
        self._source, self._options, self._session, _, self._telemetry = means
        self._executors, self._batch, self._keeper = executors, batch, keeper
        self._starts = Starts(means.source, self._refuse, means.telemetry)
        self._backlog: deque[Hand] = deque()
        self._running = 0
        self._launching = 0
        self._jobs: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def claims_started(self) -> bool:
        """Does everything that is claimed begin at once, so that nobody need be told of it?"""
        return not self._executors

    @property
    def spare(self) -> int:
        """How many more tasks are of use here now."""
        if self._is_closed:
            return 0
        if self._executors:
            return self._options.slots + self._options.prefetch - len(self.hands.held)
        return sum(batch.room for batch in self._batch) - self._launching

    def take(self, claimed: Sequence[Claimed]) -> None:
        """Begin these as soon as there is a slot; what came too late or is of no kind of ours goes back."""
        by_kind: dict[str, list[Claimed]] = {}
        for one in claimed:
            by_kind.setdefault(one.kind, []).append(one)
        for kind, some in by_kind.items():
            executor, batch = _find(self._executors, kind), _find(self._batch, kind)
            if self._is_closed or not (executor or batch):
                self._give_back(some)
                continue
            hands = [Hand(one, executor, batch) for one in some]
            self.hands.add(hands)
            if batch is None:
                self._backlog.extend(hands)
            else:
                self._launching += len(hands)
                self._spawn(self._begin_batch, batch, hands)
        self._begin_runs()

    def _give_back(self, claimed: Sequence[Claimed]) -> None:
        for one in claimed:
            self.hands.add_ended(one, Release() if self._is_closed else Release(_BACK_OFF))

    def adopt(self, claimed: Claimed, executor: Executor, run: Run) -> None:
        """Go on with an attempt that a former node began."""
        hand = Hand(claimed, executor, run=run)
        self.hands.add([hand])
        self._running += 1
        run.trust(self._trust_of(claimed))
        self._spawn(self._watch, hand, run)

    def disown(self, run: Run) -> None:
        """End an attempt that a former node began and whose lease is lost."""
        self._spawn(self._end_stray, run)

    async def _end_stray(self, run: Run) -> None:
        self._telemetry.event("attempt_disowned", task=run.task, fence=run.fence)
        try:
            await run.stop(LOST)
            await run.ended()
        except GangerError as error:
            self._telemetry.event("attempt_unheard", task=run.task, fence=run.fence, error=error.code)
            return
        forget(run)

    def trust(self, until: Moment) -> None:
        """All leases were renewed."""
        for hand in self.hands.held.values():
            if hand.run is not None:
                hand.run.trust(self._trust_of(hand.claimed))
        for batch in self._batch:
            batch.trust(until)

    def _trust_of(self, claimed: Claimed) -> Moment:
        until = self._session.trusted_until
        if claimed.until is None:
            return until
        # A touched lease has its own end, and nobody here touches it.
        return Moment(min(until, trusted_until(claimed.until, 0)))

    def kill(self, tasks: Iterable[TaskId]) -> None:
        """Somebody asked for their death."""
        for hand in [hand for task in tasks for hand in self.hands.of(task)]:
            if hand.wish is Wish.NONE:
                self._ask(hand, Wish.KILL, "a kill was asked for")

    def hand_back(self) -> None:
        """End all that runs and give it back."""
        for hand in list(self.hands.held.values()):
            if hand.wish is Wish.NONE:
                self._ask(hand, Wish.HAND_BACK, HANDED_BACK)

    def expect_end(self) -> None:
        """The executors end everything: whatever they make of that, it is given back."""
        for hand in self.hands.held.values():
            if hand.wish is Wish.NONE:
                hand.wish = Wish.HAND_BACK

    async def put_all_down(self, *, but_runs: bool) -> None:
        """Wait until everything, or everything but what an executor leaves running, has ended."""
        while any(not (but_runs and hand.run) for hand in self.hands.held.values()):
            self.hands.woken.clear()
            await self.hands.woken.wait()

    def drop(self) -> None:
        """All leases are lost: end everything, and say nothing about it."""
        self.hands.drop_ended()
        for hand in list(self.hands.held.values()):
            self._ask(hand, Wish.DROP, LOST)

    def close(self) -> None:
        """Begin nothing more; what has not begun goes back."""
        if self._is_closed:
            return
        self._is_closed = True
        for hand in list(self._backlog):
            self._put_down(hand, Ended(Release()))
        for batch in self._batch:
            self._spawn(self._wind_down, batch)

    async def stop(self) -> None:
        """Watch nothing any more; what runs is its executor's."""
        self._is_closed = True
        for job in self._jobs:
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs)
        await self._starts.close()

    def _ask(self, hand: Hand, wish: Wish, reason: str) -> None:
        hand.wish = wish
        if hand in self._backlog:
            self._put_down(hand, Ended(Killed(KILLED_EARLY) if wish is Wish.KILL else Release()))
        elif hand.run is not None:
            self._spawn(self._stop_run, hand.run, reason)
        elif hand.batch is not None:
            self._spawn(hand.batch.stop, hand.claimed.id, hand.claimed.fence, reason)

    async def _stop_run(self, run: Run, reason: str) -> None:
        try:
            await run.stop(reason)
        except GangerError as error:
            self._telemetry.event("attempt_not_stopped", task=run.task, fence=run.fence, error=error.code)

    def _put_down(self, hand: Hand, ended: Ended) -> None:
        if hand in self._backlog:
            self._backlog.remove(hand)
        if not self.hands.end(hand, ended):
            self._telemetry.event("attempt_dropped", task=hand.claimed.id, fence=hand.claimed.fence)

    def _refuse(self, hand: Hand) -> None:
        """The store says that it is not ours any more: it is stopped, and nobody hears of it again."""
        if hand.key in self.hands.held:
            self._telemetry.event("stale_start", task=hand.claimed.id, fence=hand.claimed.fence)
            self._ask(hand, Wish.DROP, LOST)

    def _begin_runs(self) -> None:
        while self._backlog and self._running < self._options.slots:
            hand = self._backlog.popleft()
            self._running += 1
            if hand.executor is not None:
                self._spawn(self._carry, hand, hand.executor)

    async def _carry(self, hand: Hand, executor: Executor) -> None:
        try:
            run = await executor.start(await self._assign(hand.claimed))
        except Exception as error:
            self._running -= 1
            self._put_down(hand, self._excuse(hand, error))
            self._begin_runs()
            return
        hand.run = run
        if hand.wish is not Wish.NONE:
            await self._stop_run(run, HANDED_BACK)
        else:
            self._starts.note([hand])
        await self._watch(hand, run)

    async def _watch(self, hand: Hand, run: Run) -> None:
        try:
            ended = await run.ended()
        except NodeGone:
            # Another node has taken over what runs here, and will hear of its end.
            hand.wish = Wish.DROP
            self._put_down(hand, Ended(Release()))
            return
        self._running -= 1
        self._begin_runs()
        if hand.wish is Wish.DROP:
            forget(run)
        else:
            await self._keeper.keep(hand.performer, hand.claimed, ended)
        self._put_down(hand, ended)

    def _excuse(self, hand: Hand, error: Exception) -> Ended:
        """It could not be begun, which is not its own fault."""
        self._telemetry.event("attempt_not_begun", task=hand.claimed.id, error=repr(error))
        return Ended(Release(_BACK_OFF))

    async def _assign(self, claimed: Claimed) -> Assignment:
        spec = claimed.spec if claimed.spec is not None else await self._source.spec(claimed.id)
        told = {"GANGER_TASK": str(claimed.id), "GANGER_FENCE": str(claimed.fence)}
        return Assignment(claimed, spec, {**self._options.environment, **told}, self._trust_of(claimed))

    async def _begin_batch(self, batch: BatchExecutor, hands: Sequence[Hand]) -> None:
        if not self.claims_started:
            self._starts.note(list(hands))
        until, environment = self._session.trusted_until, dict(self._options.environment)
        whole = [hand for hand in hands if hand.claimed.spec is not None]
        ready = [Assignment(hand.claimed, hand.claimed.spec or b"", environment, until) for hand in whole]
        try:
            for hand in hands:
                if hand.claimed.spec is None:
                    ready += await self._assign_large(hand)
            await batch.start(ready, self._hear)
        except Exception as error:
            self._hear([(one, self._excuse(hand, error)) for one, hand in zip(ready, hands, strict=False)])
        finally:
            self._launching -= len(hands)

    async def _assign_large(self, hand: Hand) -> list[Assignment]:
        try:
            return [await self._assign(hand.claimed)]
        except GangerError as error:
            self._put_down(hand, self._excuse(hand, error))
            return []

    def _hear(self, ended: Sequence[tuple[Assignment, Ended]]) -> None:
        held = self.hands.held
        for assignment, end in ended:
            hand = held.get((assignment.claimed.id, assignment.claimed.fence))
            if hand is None:
                continue
            if end.streams and hand.wish is not Wish.DROP:
                self._spawn(self._keep_and_put_down, hand, end)
            else:
                self._put_down(hand, end)

    async def _keep_and_put_down(self, hand: Hand, ended: Ended) -> None:
        await self._keeper.keep(hand.performer, hand.claimed, ended)
        self._put_down(hand, ended)

    async def _wind_down(self, batch: BatchExecutor) -> None:
        await batch.close(give_back=True)

    def _spawn(self, work: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        job = asyncio.create_task(self._outlive(work, *args, **kwargs))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _outlive(self, work: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """An error that nobody foresaw is told; the attempt stays in our hands, and its lease with it, until we end."""
        try:
            await work(*args, **kwargs)
        except Exception as error:
            self._telemetry.event("carrier_failed", error=repr(error))


def _find(executors: Sequence[E], kind: str) -> E | None:
    """Who takes a kind: asked each time, because a plugin may have been found since."""
    return next((executor for executor in executors if kind in executor.kinds), None)
