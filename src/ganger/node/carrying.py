"""From a claim to an end: attempts are handed to their executors, watched, stopped, and put down when they have ended.

Nothing here decides about leases. What is claimed is begun as soon as a slot is free, or goes back; what has ended is
laid into the hands of whoever settles. A slot is free again when the executor says that nothing of the attempt runs.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, ParamSpec

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, NodeGone
from ganger.core.ids import TaskId
from ganger.core.lease import trusted_until
from ganger.core.outcome import Killed, Release
from ganger.core.state import Status
from ganger.core.task import Claimed
from ganger.node.appetite import Appetite
from ganger.node.beginning import Early
from ganger.node.disowning import LOST, end_stray
from ganger.node.executor import Assignment, BatchExecutor, Ended, Executor, Run, find_for
from ganger.node.hands import KILLED_EARLY, Hand, Hands, Key, Wish
from ganger.node.keeping import Keeper
from ganger.node.means import Means
from ganger.node.seats import Seats
from ganger.node.starting import Beginnings, Starts
from ganger.node.waiting import Waits
from ganger.runtime.faults import name_fault

_BACK_OFF: Final = 1_000
"""A task that could not be begun for no fault of its own is due again after so many ms."""

_SUPPLY: Final = 4
"""So many for each slot last a while, however short they are."""

HANDED_BACK: Final = "the node hands it back"

P = ParamSpec("P")


class Carrier:
    """Carries attempts to those who execute them."""

    def __init__(
        self, means: Means, executors: Sequence[Executor], batch: Sequence[BatchExecutor], keeper: Keeper
    ) -> None:
        self.hands = Hands()
        self._source, self._options, self._session, _, self._telemetry = means
        self._executors, self._batch, self._keeper = executors, batch, keeper
        self._starts = Starts(means.source, self.refuse, means.telemetry)
        self._beginnings = Beginnings(batch, self.hands, self._starts)
        self._following = keeper.following
        self._ends: dict[Key, Moment] = {}
        self.touched = asyncio.Event()
        self._backlog: deque[Hand] = deque()
        self._seats = Seats(means.options.slots)
        self.appetite = Appetite(means.options.slots, means.options.prefetch, batch, has_executors=bool(executors))
        self._waits = Waits(means.options, self.hands, self._take_back)
        self._launching, self._is_closed = 0, False
        self._jobs: set[asyncio.Task[None]] = set()
        self.early = Early(batch, lambda: not (self._takes_nothing or self._options.trace), self.take)

    @property
    def claims_started(self) -> bool:
        """Does everything that is claimed begin at once, so that nobody need be told of it?"""
        return self.appetite.begins_all

    @property
    def used(self) -> int:
        """How many slots are in use. A function uses one from its claim on: who executes it knows when it begins."""
        return min(self._seats.used + len(self.hands.held) - self._runs, self._options.slots)

    @property
    def is_well_supplied(self) -> bool:
        """Is there more to begin than what could end in a few milliseconds?"""
        return self._runs > _SUPPLY * self._options.slots

    @property
    def _runs(self) -> int:
        """How many attempts executors have, or will have when there is a slot."""
        return self._seats.taken + len(self._backlog)

    @property
    def _takes_nothing(self) -> bool:
        return self._is_closed or self._session.is_draining

    @property
    def spare(self) -> int:
        """How many more tasks are of use here now."""
        if self._takes_nothing:
            return 0
        return self.appetite.count(len(self.hands.held), self._runs) - self._launching

    def take(self, claimed: Sequence[Claimed]) -> None:
        """Begin these as soon as there is a slot; what came too late, is too much or of no kind of ours goes back."""
        is_begun, claimed = self.early.pick(claimed), self.hands.without_renounced(claimed)
        kinds = dict.fromkeys([one.kind for one in claimed])
        if kinds:
            self.appetite.expect(batches=all(find_for(self._batch, kind) for kind in kinds))
        for kind in kinds:
            some = [one for one in claimed if one.kind == kind] if len(kinds) > 1 else claimed
            executor, batch = find_for(self._executors, kind), find_for(self._batch, kind)
            if (self._takes_nothing and not is_begun) or not (executor or batch):
                self._give_back(some, Release() if self._takes_nothing else Release(_BACK_OFF))
            elif batch is None:
                self._queue(some, executor)
            else:
                self._launch(some, batch)
        self._begin_runs()

    def _queue(self, claimed: Sequence[Claimed], executor: Executor | None) -> None:
        self.appetite.expect_runs(claimed)
        room = self.appetite.runs - len(self.hands.held)
        hands = [Hand(one, executor) for one in claimed[: max(0, room)]]
        self._hold(hands)
        self._backlog.extend(hands)
        self._give_back(claimed[len(hands) :], Release())
        self._waits.look_soon()

    def _launch(self, claimed: Sequence[Claimed], batch: BatchExecutor) -> None:
        """Hand a batch over at once; a spec that did not travel along is read first, and so is a trace."""
        hands = [Hand(one, None, batch, is_told=one.status == Status.RUNNING) for one in claimed]
        self._hold(hands)
        until, environment, traced = self._session.trusted_until, dict(self._options.environment), self._options.trace
        whole = [Assignment(one, one.spec, environment, until) for one in claimed if not (one.spec is None or traced)]
        self._begin_batch(batch, whole)
        self._following.attend(hands)
        if len(whole) < len(hands):
            self._launching += len(hands) - len(whole)
            self._spawn(self._begin_large, batch, [hand for hand in hands if traced or hand.claimed.spec is None])
        if not all(hand.is_told for hand in hands):
            self._beginnings.look_soon()

    def _hold(self, hands: Sequence[Hand]) -> None:
        self.hands.add(hands)
        if {hand.claimed.until for hand in hands} - {None}:
            self.touched.set()

    def _give_back(self, claimed: Sequence[Claimed], released: Release) -> None:
        for one in claimed:
            self.hands.add_ended(one, released)

    def adopt(self, claimed: Claimed, executor: Executor, run: Run) -> None:
        """Go on with an attempt that a former node began."""
        hand = Hand(claimed, executor, run=run)
        self._hold([hand])
        self._following.inherit(hand.key)
        hand.is_told = claimed.status == Status.RUNNING
        self._seats.take(executor)
        run.trust(self._trust_of(claimed))
        self._spawn(self._see_through, hand, executor, run)

    def disown(self, run: Run) -> None:
        """End an attempt that a former node began and whose lease is lost."""
        self._spawn(end_stray, run, self._telemetry)

    def trust(self, until: Moment) -> None:
        """All leases were renewed."""
        for hand in self.hands.held.values():
            if hand.run is not None:
                hand.run.trust(self._trust_of(hand.claimed))
        for batch in self._batch:
            batch.trust(until)

    def _trust_of(self, claimed: Claimed) -> Moment:
        until, end = self._session.trusted_until, self.end_of(claimed)
        return until if end is None else Moment(min(until, trusted_until(end, 0)))

    def end_of(self, claimed: Claimed) -> Moment | None:
        """The end of a lease that has its own, as far as it was moved by now."""
        return self._ends.get((claimed.id, claimed.fence), claimed.until)

    def extend(self, hand: Hand, end: Moment) -> None:
        """A lease with an end of its own was renewed."""
        if hand.key in self.hands.held:
            self._ends[hand.key] = end
            if hand.run is not None:
                hand.run.trust(self._trust_of(hand.claimed))

    async def hand_over(self, length: int) -> None:
        """Leases with an end of their own wait so long for the next node."""
        touched = [hand for hand in self.hands.held.values() if hand.claimed.until is not None]
        ends = await self._source.touch([hand.claimed.lease for hand in touched], length) if touched else ()
        for hand, end in zip(touched, ends, strict=True):
            if end is not None:
                self.extend(hand, end)

    def follow(self, followed: Sequence[TaskId]) -> None:
        """These are followed by somebody, and no others."""
        self._following.heed(followed, self.hands.held)

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
        was_closed, self._is_closed = self._is_closed, True
        self._return_unbegun()
        for batch in () if was_closed else self._batch:
            self._spawn(batch.close, give_back=True)

    def retreat(self) -> None:
        """What has not begun goes back; what runs goes on."""
        self._return_unbegun()
        for batch in self._batch:
            batch.give_back()

    def _return_unbegun(self) -> None:
        self._take_back([hand for hand in self.hands.held.values() if hand.executor is not None and not hand.is_told])

    def _take_back(self, hands: Sequence[Hand]) -> None:
        """Give back those of these that have not begun."""
        for hand in hands:
            if hand in self._backlog:
                self._put_down(hand, Ended(Release()))
            elif hand.run is not None:
                hand.run.withdraw()

    async def stop(self) -> None:
        """Watch nothing any more; what runs is its executor's."""
        self._is_closed = True
        for job in self._jobs:
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs)
        self._beginnings.close()
        self._waits.close()
        await self._following.stop()
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
        self._put_all_down([(hand, ended)])

    def _put_all_down(self, ends: Sequence[tuple[Hand, Ended]]) -> None:
        """None of them waits here any more. Most have no end of their own, and nobody follows them."""
        for hand, _ in ends if self._ends or self._following.is_busy else ():
            self._ends.pop(hand.key, None)
            self._following.forget(hand.key)
        self.hands.end(ends)
        for hand, _ in ends:
            if hand.wish is Wish.DROP:
                self._telemetry.event("attempt_dropped", task=hand.claimed.id, fence=hand.claimed.fence)

    def refuse(self, hand: Hand) -> None:
        """The store says that it is not ours any more: it is stopped, and nobody hears of it again."""
        if hand.key in self.hands.held:
            self._telemetry.event("stale_start", task=hand.claimed.id, fence=hand.claimed.fence)
            self._ask(hand, Wish.DROP, LOST)

    def _begin_runs(self) -> None:
        while self._backlog and not self._takes_nothing:
            executor = self._backlog[0].executor
            if executor is None or not self._seats.has_room(executor):
                return
            self._seats.take(executor)
            self._spawn(self._carry, self._backlog.popleft(), executor)

    async def _carry(self, hand: Hand, executor: Executor) -> None:
        try:
            run = hand.run = await executor.start(await self._assign(hand.claimed))
        except Exception as error:
            self._give_up(hand, executor, error)
            return
        self._following.attend([hand])
        if hand.wish is not Wish.NONE:
            await self._stop_run(run, HANDED_BACK)
        await self._see_through(hand, executor, run)

    async def _see_through(self, hand: Hand, executor: Executor, run: Run) -> None:
        loop = asyncio.get_running_loop()
        try:
            await run.begun()
            began, hand.has_begun = loop.time(), True
            if hand.wish is Wish.NONE and not hand.is_told:
                self._starts.note([hand])
            ended = await run.ended()
            if not isinstance(ended.outcome, Release):
                self.appetite.note(hand.claimed, 1000 * (loop.time() - began))
        except NodeGone:
            # Another node has taken over what runs here, and will hear of its end.
            hand.wish = Wish.DROP
            self._put_down(hand, Ended(Release()))
        except GangerError as error:
            self._give_up(hand, executor, error)
        else:
            await self._finish(hand, executor, run, ended)

    def _give_up(self, hand: Hand, executor: Executor, error: Exception) -> None:
        self._seats.leave(executor)
        self._put_down(hand, self._excuse(hand.claimed, error))
        self._begin_runs()

    async def _finish(self, hand: Hand, executor: Executor, run: Run, ended: Ended) -> None:
        self._seats.leave(executor)
        self._begin_runs()
        if hand.wish is Wish.DROP:
            run.forget()
        else:
            ended = await self._keeper.keep(hand, ended)
        self._put_down(hand, ended)

    def _excuse(self, claimed: Claimed, error: Exception) -> Ended:
        """It could not be begun, which is not its own fault."""
        self._telemetry.event("attempt_not_begun", task=claimed.id, error=name_fault(error))
        return Ended(Release(_BACK_OFF))

    async def _assign(self, claimed: Claimed) -> Assignment:
        spec = claimed.spec if claimed.spec is not None else await self._source.spec(claimed.id)
        return Assignment(claimed, spec, await self._options.tell(claimed.id, claimed.fence), self._trust_of(claimed))

    def _begin_batch(self, batch: BatchExecutor, assignments: Sequence[Assignment]) -> None:
        try:
            batch.start(assignments, self._hear)
        except Exception as error:
            self._hear([(one, self._excuse(one.claimed, error)) for one in assignments])

    async def _begin_large(self, batch: BatchExecutor, hands: Sequence[Hand]) -> None:
        for hand in hands:
            try:
                self._begin_batch(batch, [await self._assign(hand.claimed)])
                self._following.attend([hand])
            except GangerError as error:
                self._put_down(hand, self._excuse(hand.claimed, error))
            finally:
                self._launching -= 1

    def _hear(self, ended: Sequence[tuple[Assignment, Ended]]) -> None:
        held, live = self.hands.held, self._following.is_busy
        ends: list[tuple[Hand, Ended]] = []
        for assignment, end in ended:
            claimed = assignment.claimed
            if (hand := held.get((claimed.id, claimed.fence))) is None:
                continue
            if (end.streams or (live and self._following.concerns(hand.key))) and hand.wish is not Wish.DROP:
                self._spawn(self._keep_and_put_down, hand, end)
            else:
                ends.append((hand, end))
        self._put_all_down(ends)

    async def _keep_and_put_down(self, hand: Hand, ended: Ended) -> None:
        self._put_down(hand, await self._keeper.keep(hand, ended))

    def _spawn(self, work: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        job = asyncio.create_task(self._outlive(work, *args, **kwargs))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _outlive(self, work: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """An error that nobody foresaw is told; the attempt stays in our hands, and its lease with it, until we end."""
        try:
            await work(*args, **kwargs)
        except Exception as error:
            self._telemetry.event("carrier_failed", error=name_fault(error))
