"""The attempts of one node: begun, watched, ended, proven dead, told, and kept in mind until the node has them safe."""

import heapq
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from ganger.core.clock import Clock
from ganger.node.guardian.attempt import NEVER, Attempt
from ganger.node.guardian.books import Books
from ganger.node.guardian.floods import AHEAD, Floods
from ganger.node.guardian.floor import Floor, Orphans
from ganger.node.guardian.killing import ask, force, is_over
from ganger.node.guardian.loop import ONCE, Eyes
from ganger.node.guardian.messages import End, Fault, FromGuardian, Grew, Key, Listing, Start, Started, Stop, Stuck
from ganger.node.guardian.obituary import is_dead
from ganger.node.guardian.spare import Spare
from ganger.node.guardian.spawn import CannotStart, Spawner
from ganger.node.guardian.taps import CHUNK, Pipes, Tap
from ganger.node.masking import mask_text

STARTS_PER_TURN: Final = 16
"""So many programs are started before pipes and clocks have their turn again."""

TELL_EVERY: Final = 20
SAY_AFTER: Final = 3
"""So many ms an attempt is *fresh*: the node is not told that it runs, and its pipes hold what it says. Most that end
sooner are told by their end, and whatever they have said is taken then.
"""

TRY_AGAIN: Final = 250

STUCK_AFTER: Final = 5_000

Tell = Callable[[FromGuardian], None]


class Tools(NamedTuple):
    """What the keep works with."""

    spool: str
    spare: Spare
    cap: int
    clock: Clock
    eyes: Eyes
    floor: Floor
    spawner: Spawner
    books: Books


class Keep:
    """One turn of the loop is: hear what happened (the handlers), then `turn`, which does what follows from it."""

    def __init__(self, tools: Tools, serial: int, tell: Tell) -> None:
        self._tools = tools
        self._tell = tell
        self._attempts: dict[Key, Attempt] = {}
        self._by_serial: dict[int, Attempt] = {}
        self._serials: dict[Key, int] = {}
        self._waiting: dict[Key, Start] = {}
        self._gone: list[Attempt] = []
        self._dying: dict[Key, Attempt] = {}
        self._heap: list[tuple[int, int]] = []
        self._grown: dict[Key, Attempt] = {}
        self._tell_at = NEVER
        self._fresh: dict[Key, Attempt] = {}
        self._say_at = NEVER
        self._serial = serial
        self._buffer = memoryview(bytearray(CHUNK))
        self._must_look = False
        self._broken: str | None = None
        self._floods = Floods(tools.clock)
        tools.eyes.watch(tools.books.sync_done, self._take_sync)
        tools.eyes.watch(self._floods.done, self._floods.wake)

    @property
    def is_running(self) -> bool:
        return bool(self._attempts or self._waiting)

    @property
    def is_supplied(self) -> bool:
        """Is there an order for the next room?"""
        return bool(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Nothing runs, and nobody has to be told of anything."""
        return not (self._attempts or self._waiting or self._tools.books.ended)

    def listing(self) -> Listing:
        coming = [Started(order.task, order.fence, 0) for order in self._waiting.values()]
        running = [attempt.started() for attempt in self._attempts.values()]
        return Listing([*running, *coming], list(self._tools.books.ended.values()))

    def start(self, order: Start) -> None:
        if order.key in self._attempts:
            self._tell(self._attempts[order.key].started())
        elif order.key in self._tools.books.ended:
            self._tell(self._tools.books.ended[order.key])
        else:
            self._waiting.setdefault(order.key, order)

    def stop(self, wish: Stop) -> None:
        key = wish.task, wish.fence
        attempt = self._attempts.get(key)
        if attempt is not None and not wish.unbegun:
            self._doom(attempt, wish.why, wish.text)
        order = self._waiting.pop(key, None)
        if order is not None:
            self._never_began(order, wish.why, wish.text)

    def stop_all(self, why: str, text: str) -> None:
        for task, fence in [*self._attempts, *self._waiting]:
            self.stop(Stop(task, fence, why, text))

    def _doom(self, attempt: Attempt, why: str, text: str) -> None:
        attempt.blame(why, text)
        if not attempt.asked and not attempt.forced:
            ask(attempt, self._look(), self._tools.clock.now())
            self._plan(attempt)

    def trust(self, until: Iterable[tuple[int, int, int]]) -> None:
        for task, fence, moment in until:
            attempt = self._attempts.get((task, fence))
            if attempt is not None:
                attempt.trusted = moment
                self._plan(attempt)
            elif (order := self._waiting.get((task, fence))) is not None:
                self._waiting[order.key] = msgspec.structs.replace(order, trusted_until=moment)

    def watch(self, key: Key) -> None:
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.watched = True
            self._note_growth(attempt)

    def forget(self, keys: Iterable[Key]) -> None:
        self._tools.books.forget(keys)

    def wait(self) -> int:
        """Milliseconds until something is due."""
        due = min(self._heap[0][0] if self._heap else NEVER, self._tell_at, self._say_at, self._tools.books.due)
        return 0 if self._must_look or self._find_next() is not None else max(0, due - self._tools.clock.now())

    def turn(self, child_died: bool) -> None:
        """Do what follows from what happened."""
        now = self._tools.clock.now()
        self._must_look |= child_died
        if child_died:
            self._gone += [attempt for attempt in self._fresh.values() if not attempt.ended and is_dead(attempt)]
        self._bury(now)
        if self._must_look:
            self._must_look = False
            self._check(self._look())
        self._begin_waiting()
        self._act(now)
        self._tell_growth(now)
        self._say_begun(now)
        self._commit()
        self._tools.books.sync(now)

    def _begin_waiting(self) -> None:
        for _ in range(STARTS_PER_TURN):
            order = self._find_next()
            if order is None:
                return
            del self._waiting[order.key]
            self._begin(order)

    def _find_next(self) -> Start | None:
        """The first of those that wait, if there is room for it: nobody overtakes."""
        order = next(iter(self._waiting.values()), None)
        return order if order is not None and (not order.room or len(self._attempts) < order.room) else None

    def _begin(self, order: Start) -> None:
        now = self._tools.clock.now()
        if self._broken and not self._mend():
            self._never_began(order, "machine", self._broken)
        elif now >= order.trusted_until:
            self._never_began(order, "trust", "its lease had ended before it could start")
        else:
            self._serial += 1
            try:
                self._launch(order, now)
            except CannotStart as refusal:
                self._never_began(order, "program", refusal.text, refusal.code)
            except OSError as error:
                self._never_began(order, "machine", f"no program can be started: {error}")

    def _launch(self, order: Start, now: int) -> None:
        tools = self._tools
        cap = tools.cap if order.caps.output is None else min(tools.cap, order.caps.output)
        cell = tools.spawner.lend_cell(order)
        tools.spare.hold()
        pipes = Pipes(tools.spool, order.key, cap, order.merge, masks=order.masks, spare=tools.spare)
        attempt = Attempt(order, self._serial, now, pipes, cell)
        try:
            attempt.pid = tools.spawner.spawn(order, self._serial, cell, pipes.writers)
        except BaseException:
            pipes.close(self._buffer)
            tools.spawner.give_back(cell)
            raise
        pipes.hand_over()
        self._enrol(attempt, now)

    def _enrol(self, attempt: Attempt, now: int) -> None:
        self._attempts[attempt.key] = attempt
        self._by_serial[attempt.serial] = attempt
        self._serials[attempt.key] = attempt.serial
        self._tools.books.begin(attempt)
        self._plan(attempt)
        self._keep_fresh(attempt, now + SAY_AFTER)

    def _keep_fresh(self, attempt: Attempt, until: int) -> None:
        attempt.fresh_until = until
        self._fresh[attempt.key] = attempt
        self._say_at = min(self._say_at, until)

    def _say_begun(self, now: int) -> None:
        if now < self._say_at:
            return
        for attempt in [fresh for fresh in self._fresh.values() if fresh.fresh_until <= now]:
            del self._fresh[attempt.key]
            self._tell(attempt.started())
            self._settle_in(attempt, now)
        self._say_at = min((fresh.fresh_until for fresh in self._fresh.values()), default=NEVER)

    def _settle_in(self, attempt: Attempt, now: int) -> None:
        """It is not one of those that end at once: draw from its pipes, see to it that its end is seen however many
        run, and give it a cell. What cannot be had is no reason to end it: until it has a descriptor, the signal tells
        of its end.
        """
        for tap in attempt.pipes.taps:
            self._watch(attempt, tap)
        if attempt.ended:
            return
        try:
            attempt.pidfd = os.pidfd_open(attempt.pid)
        except OSError:
            self._keep_fresh(attempt, now + TRY_AGAIN)
            return
        self._tools.eyes.watch(attempt.pidfd, partial(self._gone.append, attempt), ONCE)
        try:
            attempt.cell = attempt.cell or self._tools.spawner.lodge(attempt.pid)
        except OSError as error:
            self._tell(Fault(f"task {attempt.order.task} cannot be put into a cgroup: {error}"))

    def _never_began(self, order: Start, why: str, text: str, code: int | None = None) -> None:
        end = End(order.task, order.fence, why, mask_text(text, order.masks), code, serial=self._serial)
        self._tools.books.close_unbegun(end)
        self._tell(end)

    def _watch(self, attempt: Attempt, tap: Tap) -> None:
        self._tools.eyes.watch(tap.fd, partial(self._draw, attempt, tap))

    def _draw(self, attempt: Attempt, tap: Tap) -> None:
        if tap.draw(self._buffer) == 0:
            self._tools.eyes.unwatch(tap.fd)
            attempt.pipes.close_tap(tap)
            return
        if attempt.watched:
            self._note_growth(attempt)
        if tap.ahead >= AHEAD:
            self._rest(attempt, tap)

    def _rest(self, attempt: Attempt, tap: Tap) -> None:
        """Let the disk catch up with a pipe before it is drawn from again."""
        tap.ahead = 0
        self._tools.eyes.unwatch(tap.fd)
        try:
            self._floods.rest(tap.files(), partial(self._go_on, attempt, tap))
        except OSError as error:
            self._go_on(attempt, tap, error)

    def _go_on(self, attempt: Attempt, tap: Tap, error: OSError | None) -> None:
        if error is not None:
            self._tell(Fault(f"the output of task {attempt.order.task} cannot be brought to the disk: {error}"))
        if tap in attempt.pipes.taps:
            self._watch(attempt, tap)

    def _note_growth(self, attempt: Attempt) -> None:
        self._grown[attempt.key] = attempt
        self._tell_at = min(self._tell_at, self._tools.clock.now() + TELL_EVERY)

    def _tell_growth(self, now: int) -> None:
        if now < self._tell_at:
            return
        grown, self._grown, self._tell_at = self._grown, {}, NEVER
        streams = [(key, attempt.pipes.extents()) for key, attempt in grown.items()]
        self._tell(Grew([(*key, name, *extent) for key, extents in streams for name, extent in extents.items()]))

    def _bury(self, now: int) -> None:
        for attempt in self._gone:
            if attempt.pidfd >= 0:
                self._tools.eyes.let_go(attempt.pidfd)
            self._dying[attempt.key] = attempt
        if self._gone:
            self._tools.books.bury(self._gone, now)
            self._must_look = True
        self._gone.clear()

    def _commit(self) -> None:
        """What was noted is written before anything of this turn is told."""
        try:
            self._tools.books.commit(self._attempts.values())
        except OSError as error:
            self._break(error)

    def _take_sync(self) -> None:
        try:
            self._tools.books.take_sync()
        except OSError as error:
            self._break(error)

    def _break(self, error: OSError) -> None:
        """What could not be made safe is still told to the node; but nothing is begun that could not be noted."""
        self._broken = f"the guardian's journal cannot be written: {error}"
        self._tell(Fault(self._broken))

    def _mend(self) -> bool:
        """Has the journal been written anew, now that the disk may have room for it?"""
        try:
            is_mended = self._tools.books.mend(self._attempts.values())
        except OSError:
            return False
        self._broken = None if is_mended else self._broken
        return is_mended

    def _look(self) -> Orphans:
        return self._tools.floor.look(self._tools.books.mains, self._serials)

    def _check(self, orphans: Orphans) -> None:
        now = self._tools.clock.now()
        for attempt in list(self._dying.values()):
            if is_over(attempt, orphans):
                self._finish(attempt)
            elif not attempt.asked and not attempt.forced:
                ask(attempt, orphans, now)
                self._plan(attempt)

    def _finish(self, attempt: Attempt) -> None:
        for tap in attempt.pipes.taps:
            self._tools.eyes.unwatch(tap.fd)
        attempt.pipes.close(self._buffer)
        self._give_back_cell(attempt)
        self._strike_out(attempt)
        end = attempt.end(attempt.pipes.extents(), attempt.pipes.faults())
        self._tools.books.close(end)
        self._tell(end)
        self._must_look |= self._tools.floor.has_strays

    def _strike_out(self, attempt: Attempt) -> None:
        key = attempt.key
        del self._attempts[key], self._serials[key], self._by_serial[attempt.serial], self._dying[key]
        self._grown.pop(key, None)
        self._fresh.pop(key, None)

    def _give_back_cell(self, attempt: Attempt) -> None:
        try:
            self._tools.spawner.give_back(attempt.cell)
        except OSError as error:
            self._tell(Fault(f"the empty cgroup of task {attempt.order.task} cannot be removed: {error}"))

    def _plan(self, attempt: Attempt) -> None:
        heapq.heappush(self._heap, (attempt.due, attempt.serial))

    def _act(self, now: int) -> None:
        while self._heap and self._heap[0][0] <= now:
            _, serial = heapq.heappop(self._heap)
            attempt = self._by_serial.get(serial)
            if attempt is None:
                continue
            if attempt.due <= now:
                self._act_on(attempt, now)
            self._plan(attempt)

    def _act_on(self, attempt: Attempt, now: int) -> None:
        if not attempt.forced and attempt.deadline <= now < min(attempt.trusted, attempt.kill_at):
            attempt.blame("timeout", f"timed out after {attempt.order.timeout} ms")
            ask(attempt, self._look(), now)
            return
        attempt.blame("trust", "its lease could not be trusted any more")
        denied = force(attempt, self._look(), now)
        self._must_look = True
        if (denied or now - attempt.forced_at > STUCK_AFTER) and not attempt.stuck:
            attempt.stuck = True
            self._tell(Stuck(*attempt.key, denied or [attempt.pid]))
