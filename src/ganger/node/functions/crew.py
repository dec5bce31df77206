"""The warm processes of one mode: who gets which job, who is replaced, and what becomes of the jobs of one that died.

Short jobs lie in a process before it begins them, so that it never waits for the next; but what lies in one process
while another has nothing to do, or while it is busy for long, waits in vain. So as many lie there as it will do in some
milliseconds, by what the last ones of their name took, and what lies behind a job that takes longer is called back and
given away, or given back to where it came from.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from ganger.core.clock import Clock, Moment
from ganger.core.errors import GangerError
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Lease
from ganger.node.executor import Ended
from ganger.node.functions.child import Child, Errand, Hearing, Stopped, tell
from ganger.node.functions.judging import SUCCEEDED, end_stopped, judge, judge_dead, release
from ganger.node.functions.messages import Drop, How, Job, Mode, Result, Stop, Trim
from ganger.node.functions.note import Executing
from ganger.node.functions.options import FunctionOptions
from ganger.node.lengths import Lengths, Name
from ganger.runtime.telemetry import Telemetry

STUCK: Final = 20
"""For so many ms a process may be busy with one job before what lies behind it is called back."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
_BACK_OFF: Final = 1_000
_HOPELESS: Final = 3


class Post(NamedTuple):
    """What a crew needs of the world around it. `bounced`: an async function was found, and belongs on the loop."""

    options: FunctionOptions
    clock: Clock
    telemetry: Telemetry
    lengths: Lengths
    report: Callable[[Lease, float | None, str | None], None]
    bounced: Callable[[Sequence[Errand], str], None]


class Crew:
    """Warm processes that do the same. They are started when there is the first job for them."""

    def __init__(self, mode: Mode, post: Post, count: int, slots: int) -> None:
        self._mode = mode
        self._post = post
        self._count = count
        self._slots = slots
        self._children: list[Child] = []
        self._waiting: deque[Errand] = deque()
        self._since: dict[Child, Moment] = {}
        self._trust = Moment(0)
        self._serial = 0
        self._failures = 0
        self._births: set[asyncio.Task[None]] = set()
        self._hearing = Hearing(self._take_results, self._take_sayings, self._bury, self._complain)
        self._is_closing = False
        self._is_returning = False

    @property
    def places(self) -> int:
        """How many more jobs would begin at once."""
        free = sum(max(0, self._slots - len(child.errands)) for child in self._able())
        return max(0, free + self._unborn - len(self._waiting))

    def room(self, names: Collection[Name]) -> int:
        """How many more jobs of these names would be begun soon."""
        laid = sum(max(0, self._window(child, names) - len(child.errands)) for child in self._able())
        return max(0, laid + self._unborn - len(self._waiting))

    @property
    def _unborn(self) -> int:
        """What processes that are yet to be started would begin at once; nobody knows more of them."""
        missing = max(0, self._count - len(self._able()))
        return 0 if self._failures or self._is_closing else missing * self._slots

    @property
    def is_stretched(self) -> bool:
        """Does anything lie here that has not begun?"""
        return bool(self._waiting) or any(len(child.errands) > self._slots for child in self._children)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not any(child.errands for child in self._children)

    def add(self, errands: Iterable[Errand]) -> None:
        self._is_returning = self._is_closing
        self._waiting.extend(errands)
        self._recruit()
        self._hand_out()
        self._return_excess()

    def prepare(self, jobs: list[Job], names: Collection[Name]) -> Child | None:
        """On any thread: have these ready in a process that has nothing to do, if nobody waits for it. Which it is.

        None if they are more than it would begin soon.
        """
        if self._waiting or self._is_closing or len(jobs) > self._slots * self._post.lengths.count_ahead(names):
            return None
        for child in self._children:
            if not (child.errands or child.is_retiring or child.is_killed) and child.prepare(jobs):
                return child
        return None

    def adopt(self, errands: Sequence[Errand]) -> None:
        """These were begun before the loop knew of them."""
        self._is_returning = self._is_closing
        for child in self._children:
            early = [errand for errand in errands if child.is_early(errand.seq)]
            if early and not child.errands:
                self._since[child] = self._post.clock.now()
            child.adopt(early)

    def trust(self, until: Moment) -> None:
        self._trust = until
        for child in self._children:
            child.trust(until)

    def find(self, task: TaskId, fence: Fence) -> Errand | None:
        laid = (errand for child in self._children for errand in child.errands.values())
        return next((errand for errand in (*self._waiting, *laid) if errand.is_of(task, fence)), None)

    def find_executing(self, task: TaskId, fence: Fence) -> tuple[Child, int] | None:
        """Who executes it now, and under which number."""
        found = ((child, one) for child in self._children for one in child.executing())
        return next(((child, one.seq) for child, one in found if (one.task, one.fence) == (task, fence)), None)

    def stop(self, errand: Errand, stopped: Stopped) -> None:
        """Give it back if it has not begun, else tell it that it is not wanted any more."""
        errand.stopped = errand.stopped or stopped
        if errand in self._waiting:
            self._waiting.remove(errand)
            tell([(errand, release())])
        for child in self._children:
            if errand.seq in child.errands:
                child.send(Stop(errand.seq))

    def force(self, errand: Errand) -> bool:
        """A job that was stopped has used up its grace: if it is executed now, its process ends with it.

        False if it is neither executed nor gone: then it waits for its turn, or its result is on the way.
        """
        for child in self._children:
            if errand.seq in child.errands and any(one.seq == errand.seq for one in child.executing()):
                child.kill()
                return True
        return all(errand.seq not in child.errands for child in self._children)

    def overdue(self) -> list[Errand]:
        """Those that have been executed for longer than they may."""
        now = self._post.clock.now()
        return [
            child.errands[seq]
            for child in self._children
            for seq, _, _, began in child.executing()
            if seq in child.errands and _is_late(child.errands[seq], now - began)
        ]

    def relieve(self) -> None:
        """Call back what lies behind a job that takes long: these, and all of their name, are not short."""
        now = self._post.clock.now()
        for child in self._able():
            executing = child.executing()
            if len(child.errands) > len(executing) >= self._slots and all(_lasts(one, now) for one in executing):
                for one in executing:
                    if (errand := child.errands.get(one.seq)) is not None:
                        self._post.lengths.exceed(errand.name, now - one.began)
                child.send(Drop())
        self._return_excess()

    def replace(self) -> None:
        """Replace who has served long enough or grown too much."""
        for child in self._able():
            if self._is_used_up(child):
                self._retire(child)

    def _return_excess(self) -> None:
        """Give back what waits here in vain: no process has room for it, nor will one that is started."""
        excess = len(self._waiting) - self._unborn
        if excess > 0 and not self._failures:
            tell([(errand, release()) for errand in [self._waiting.pop() for _ in range(excess)]])

    def trim(self) -> None:
        """Have cut off what was printed beyond what is kept."""
        for child in self._children:
            if child.errands and child.is_verbose:
                child.send(Trim())

    def executing(self) -> list[tuple[TaskId, Fence]]:
        """What has begun and not ended. A process notes an end just after it has told the result."""
        return [
            (one.task, one.fence) for child in self._children for one in child.executing() if one.seq in child.errands
        ]

    def drop_waiting(self) -> None:
        """Give back all that has not begun, and begin nothing more."""
        self._is_closing = True
        self.give_back()

    def give_back(self) -> None:
        """Give back all that has not begun."""
        self._is_returning = True
        back, self._waiting = list(self._waiting), deque()
        tell([(errand, release()) for errand in back])
        for child in self._children:
            child.send(Drop())

    async def close(self, *, kill: bool) -> None:
        """End all processes: at once, or when each has finished what it has."""
        self._is_closing = True
        if self._births:
            await asyncio.wait(self._births)
        for child in list(self._children):
            child.kill() if kill else child.quit()
        while self._children:
            await self._children[0].ended()
        back, self._waiting = list(self._waiting), deque()
        tell([(errand, release()) for errand in back])

    def _able(self) -> list[Child]:
        return [child for child in self._children if not (child.is_retiring or child.is_killed)]

    def _window(self, child: Child, names: Collection[Name]) -> int:
        """How many jobs may lie in a process that has some, and gets others of these names."""
        known = {*names, *(errand.name for errand in child.errands.values())}
        return self._slots * min(self._post.lengths.count_ahead(known), self._post.options.window)

    def _recruit(self) -> None:
        """Start what is missing, if there is anything to do for it, or if it is not known whether one can start."""
        missing = self._count - len(self._able()) - len(self._births)
        wanted = (self._waiting or self._failures) and not self._is_closing
        for _ in range(missing if wanted else 0):
            birth = asyncio.create_task(self._bear())
            self._births.add(birth)
            birth.add_done_callback(self._births.discard)

    async def _bear(self) -> None:
        if self._failures:
            await asyncio.sleep(min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE))
        self._serial += 1
        name = f"{self._mode.name.lower()}-{self._serial}"
        try:
            child = Child(name, self._mode, self._slots, self._post.options, self._hearing)
            child.trust(self._trust)
            await child.start()
        except OSError as error:
            self._fail(str(error))
            return
        self._since[child] = self._post.clock.now()
        self._children.append(child)
        self._hand_out()

    def _fail(self, why: str) -> None:
        """No process could be started: after some tries, whoever waits is given back to be tried elsewhere."""
        self._failures += 1
        self._post.telemetry.event("function_process_failed", mode=self._mode.name, error=why, failures=self._failures)
        if self._failures >= _HOPELESS:
            back, self._waiting = list(self._waiting), deque()
            tell([(errand, release(_BACK_OFF)) for errand in back])
        asyncio.get_running_loop().call_soon(self._recruit)

    def _hand_out(self) -> None:
        while self._waiting:
            able = self._able()
            if not able:
                return
            child = min(able, key=lambda one: len(one.errands))
            some = self._pick(child, max(1, len(self._waiting) // len(able)))
            if not some:
                return
            if not child.errands:
                self._since[child] = self._post.clock.now()
            child.begin(some)

    def _pick(self, child: Child, most: int) -> list[Errand]:
        """The first of those that wait, as far as this process begins them soon."""
        picked: list[Errand] = []
        lying, window = len(child.errands), 0
        name: Name | None = None
        while self._waiting and len(picked) < most:
            errand = self._waiting[0]
            if errand.name != name:
                name = errand.name
                window = self._window(child, {name, *(one.name for one in picked)})
            if lying + len(picked) >= window:
                break
            picked.append(self._waiting.popleft())
        return picked

    def _take_results(self, child: Child, results: Sequence[int | Result]) -> None:
        self._failures = 0
        if not results:
            # It says that it is there: what it was given meanwhile begins only now.
            self._since[child] = self._post.clock.now()
        ended: list[tuple[Errand, Ended]] = []
        back: list[Errand] = []
        errands = child.errands
        busy = min(self._slots, len(errands))
        for result in results:
            if not isinstance(result, int):
                self._take_result(errands.pop(result.seq, None), result, ended, back)
            elif (errand := errands.pop(result, None)) is not None:
                ended.append((errand, SUCCEEDED if errand.stopped is None else Ended(end_stopped(errand.stopped))))
        if ended:
            self._note_lengths(child, busy, [errand for errand, _ in ended])
        self._redistribute(child, back)
        self._hand_out()
        tell(ended)
        if child.is_retiring and not child.errands:
            child.quit()

    def _note_lengths(self, child: Child, busy: int, ended: Sequence[Errand]) -> None:
        """What ended together took as long each, of the time for which so many were executed."""
        now = self._post.clock.now()
        each = (now - self._since[child]) * busy / len(ended)
        self._since[child] = now
        for name, count in Counter([errand.name for errand in ended]).items():
            self._post.lengths.note(name, each * count, count)

    def _take_result(
        self, errand: Errand | None, result: Result, ended: list[tuple[Errand, Ended]], back: list[Errand]
    ) -> None:
        if errand is None:
            return
        if result.how is How.SUCCEEDED or errand.stopped is not None:
            ended.append((errand, judge(result, errand.stopped)))
        elif result.how is How.BOUNCED:
            self._post.bounced([errand], result.body.decode())
        elif result.how is How.DROPPED and not self._is_returning:
            back.append(errand)
        else:
            ended.append((errand, judge(result, None)))

    def _redistribute(self, child: Child, back: Sequence[Errand]) -> None:
        """What was called back goes to whoever has nothing to do; the rest goes back to where it came from."""
        able = [one for one in self._able() if not one.errands]
        idle = len(back) if child.is_retiring else len(able) * self._slots
        self._waiting.extendleft(reversed(back[:idle]))
        tell([(errand, release()) for errand in back[idle:]])

    def _take_sayings(self, child: Child, sayings: Sequence[tuple[int, float | None, str | None]]) -> None:
        for seq, percent, info in sayings:
            if seq in child.errands:
                self._post.report(child.errands[seq].assignment.claimed.lease, percent, info)

    def _bury(self, child: Child) -> None:
        """Whoever was executed ends with the process; the others are run by another one, and nobody blames them."""
        self._children.remove(child)
        del self._since[child]
        executed = {one.seq for one in child.executing()}
        errands, child.errands = child.errands, {}
        ended = [(errand, judge_dead(child, errand)) for seq, errand in errands.items() if seq in executed]
        others = [errand for seq, errand in errands.items() if seq not in executed]
        stopped = [errand for errand in others if errand.stopped is not None or self._is_closing]
        self._waiting.extendleft(reversed([errand for errand in others if errand not in stopped]))
        self._tell_death(child, executed)
        tell([*ended, *((errand, release()) for errand in stopped)])
        if not child.is_warm and not child.is_killed:
            self._fail(f"{child.tell_end()}: {child.last_words()}")
        else:
            self._recruit()

    def _complain(self, child: Child, error: GangerError) -> None:
        self._post.telemetry.event("output_not_rescued", mode=self._mode.name, pid=child.pid, error=error.code)

    def _tell_death(self, child: Child, executed: Iterable[int]) -> None:
        if not child.is_retiring:
            self._post.telemetry.event(
                "function_process_died", mode=self._mode.name, why=child.tell_end(), executing=len(list(executed))
            )

    def _is_used_up(self, child: Child) -> bool:
        options = self._post.options
        if options.recycle_after is not None and child.served >= options.recycle_after:
            return True
        return options.recycle_bytes is not None and child.memory() >= options.recycle_bytes

    def _retire(self, child: Child) -> None:
        self._post.telemetry.event("function_process_recycled", mode=self._mode.name, served=child.served)
        child.is_retiring = True
        child.send(Drop())
        if not child.errands:
            child.quit()
        self._recruit()


def _is_late(errand: Errand, age: int) -> bool:
    timeout = errand.assignment.claimed.timeout
    return timeout is not None and age >= timeout and errand.stopped is None


def _lasts(one: Executing, now: Moment) -> bool:
    return now - one.began >= STUCK
