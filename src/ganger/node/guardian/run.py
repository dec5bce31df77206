"""What a node holds of an attempt that the guardian keeps, or that never came to be kept; and how an end is judged.

How an end becomes an outcome:

| the attempt | outcome |
|---|---|
| exited with 0 | Succeed |
| exited with n | Fail, code 2 |
| was ended by a signal n that was not ours | Fail, code 128 + n |
| used more CPU time or memory than it may | Fail, code 2 |
| took too long | Fail, code 124, whatever it exited with after TERM |
| no such program | Fail, code 127 |
| a program that cannot be executed | Fail, code 126 |
| no working directory | Fail, code 2 |
| somebody stopped it | Killed, even if it exited with 0 when asked |
| its lease could not be trusted, or the node was closed | Release: nothing counts against the task |
| the machine could start nothing | Release, after a second |
| its guardian was killed | Crashed |

A guardian that is killed takes all its attempts along, guilty or not. They count a crash each, as those of a node that
died do: one of them may have killed it, and a task that kills whoever takes it must not go round for ever.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from signal import Signals
from types import MappingProxyType
from typing import Final

from ganger.core.clock import Moment
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Crashed, Fail, Killed, Outcome, Release, Succeed
from ganger.node.executor import Assignment, Ended
from ganger.node.guardian.messages import End
from ganger.node.guardian.ward import Ward
from ganger.node.spool import Signal

TIMED_OUT: Final = 124
SIGNALLED: Final = 128
"""A shell's code for a program that a signal ended is this plus its number."""

SMALL: Final = 64 * 1024
"""A stream of at most so many bytes is handed over whole with the end."""

_MACHINE_PAUSE: Final = 1_000
_NO_DATA: Final[Mapping[str, bytes]] = MappingProxyType({})


class GuardedRun:
    """An attempt that the guardian keeps.

    `conclude` makes of its end what the node is told, once. `clear` removes what else there is of it when it may be
    forgotten.
    """

    def __init__(self, ward: Ward, conclude: Callable[[End], Ended], clear: Callable[[], None] = lambda: None) -> None:
        self._ward = ward
        self._conclude = conclude
        self._clear = clear
        self._ended: Ended | None = None

    @property
    def task(self) -> TaskId:
        return self._ward.task

    @property
    def fence(self) -> Fence:
        return self._ward.fence

    @property
    def pid(self) -> int:
        """Of its own process; 0 if it has none, or if it ended so soon that the guardian told only of that."""
        return self._ward.pid

    async def begun(self) -> None:
        await self._ward.begun()

    async def ended(self) -> Ended:
        """As the contract says. `streams` names all that the spool has; the small ones are in `data` as well."""
        end = await self._ward.ended()
        if self._ended is None:
            self._ended = self._conclude(end)
        return self._ended

    async def stop(self, reason: str) -> None:
        self._ward.stop("stop", reason)

    def withdraw(self) -> None:
        self._ward.withdraw()

    def trust(self, until: Moment) -> None:
        self._ward.trust(until)

    def forget(self) -> None:
        self._clear()
        self._ward.forget()

    def signal(self, stream: str) -> Signal:
        """For reading a stream of the spool while it grows."""
        return self._ward.signal(stream)


class NeverRan:
    """An attempt that could not be begun: it has ended as soon as it is looked at."""

    def __init__(self, assignment: Assignment, outcome: Outcome, data: Mapping[str, bytes] = _NO_DATA) -> None:
        self.task = assignment.claimed.id
        self.fence = assignment.claimed.fence
        self._ended = Ended(outcome, data)

    async def begun(self) -> None:
        """It never will."""

    async def ended(self) -> Ended:
        return self._ended

    async def stop(self, reason: str) -> None:
        """There is nothing to stop."""

    def withdraw(self) -> None:
        """There is nothing to take back."""

    def trust(self, until: Moment) -> None:
        """There is nothing to trust."""

    def forget(self) -> None:
        """There is nothing to forget."""


def judge(end: End) -> Outcome:
    """The outcome of an end, by the table above."""
    match end.why:
        case "exit":
            return _judge_exit(end)
        case "timeout":
            return Fail(TIMED_OUT, end.text)
        case "program":
            return Fail(end.code or Fail().code, end.text)
        case "stop":
            return Killed(end.text)
        case "trust" | "shutdown":
            return Release()
        case "machine":
            return Release(_MACHINE_PAUSE)
        case "lost":
            return Crashed(end.text)
        case _:
            return Fail(reason=end.text or f"it ended: {end.why}")


def _judge_exit(end: End) -> Outcome:
    if end.signal is not None:
        return Fail(SIGNALLED + end.signal, f"it was killed by {_name(end.signal)}")
    if end.code:
        return Fail(reason=f"it exited with code {end.code}")
    return Succeed(b"0")


def _name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def find_cut(end: End) -> tuple[Mapping[str, int], str, int]:
    """How much of each stream was not kept, why, and of which attempt that is."""
    cut = {name: dropped for name, (_, dropped) in end.streams.items() if dropped}
    return cut, next(iter(end.faults.values()), ""), end.fence


def read_small(end: End, spool: Path) -> dict[str, bytes]:
    """The small streams, whole: they lie in the system's cache, for they were written a moment ago."""
    small = [name for name, (length, _) in end.streams.items() if length <= SMALL]
    return {name: text for name in small if (text := _read(spool / f"{end.task}.{end.fence}.{name}")) is not None}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        # Whoever reads the stream from the spool meets the error there, and can say more about it.
        return None
