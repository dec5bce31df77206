"""Executes commands and shell scripts, through the guardian.

How an end becomes an outcome:

| the attempt | outcome | data `result` |
|---|---|---|
| exited with 0 | Succeed | 0 |
| exited with n | Fail, code 2 | n |
| was killed by a signal that was not ours | Crashed: its own process died under it | 128 + signal |
| used more CPU time or memory than it may | Fail, code 2 | 128 + signal |
| took too long | Fail, code 124, whatever it exited with after TERM | what it exited with, or 128 + signal |
| no such program | Fail, code 127 | 127 |
| a program that cannot be executed | Fail, code 126 | 126 |
| no working directory | Fail, code 2 | - |
| a spec that is not one | Fail, code 2, never tried again | - |
| somebody stopped it | Killed, even if it exited with 0 when asked | what it exited with, or 128 + signal |
| its lease could not be trusted, or the node was closed | Release: nothing counts against the task | as above |
| the machine could start nothing | Release, after a second | - |
| its guardian was killed | Crashed | - |

A guardian that is killed takes all its attempts along, guilty or not. They count a crash each, as those of a node that
died do: one of them may have killed it, and a task that kills whoever takes it must not go round for ever.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Final, NamedTuple

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import BadInput, BadNumber
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Crashed, Fail, Killed, Outcome, Release, Succeed
from ganger.core.task import Kind
from ganger.node.executor import Assignment, Ended
from ganger.node.guardian.messages import Caps, End, Start
from ganger.node.guardian.remote import Guardian
from ganger.node.guardian.ward import Ward
from ganger.node.spool import Signal, Spool
from ganger.wire.specs import CommandSpec, Limits, ShellSpec, decode

TIMED_OUT: Final = 124
SMALL: Final = 64 * 1024
"""A stream of at most so many bytes is handed over whole with the end."""

_LONGEST_ARGUMENT: Final = 100_000
_LARGEST: Final = 1 << 62
_MACHINE_PAUSE: Final = 1_000


class Home(NamedTuple):
    """What every command has if its spec says nothing else: PATH, HOME, LANG and USER, and where it runs."""

    environment: Mapping[str, str]
    folder: Path


class CommandRun:
    """An attempt that the guardian keeps."""

    def __init__(self, ward: Ward, spool: Path) -> None:
        self._ward = ward
        self._spool = spool
        self._ended: Ended | None = None

    @property
    def task(self) -> TaskId:
        return self._ward.task

    @property
    def fence(self) -> Fence:
        return self._ward.fence

    @property
    def pid(self) -> int:
        """Of its own process; 0 if it never had one."""
        return self._ward.pid

    async def ended(self) -> Ended:
        """As the contract says. `streams` names all that the spool has; the small ones are in `data` as well."""
        end = await self._ward.ended()
        if self._ended is None:
            self._ended = Ended(judge(end), _gather(end, self._spool), tuple(end.streams))
        return self._ended

    async def stop(self, reason: str) -> None:
        self._ward.stop("stop", reason)

    def trust(self, until: Moment) -> None:
        self._ward.trust(until)

    def forget(self) -> None:
        """Its end is settled: until this is called, the next node of the same name is told of it again."""
        self._ward.forget()

    def signal(self, stream: str) -> Signal:
        """For reading a stream of the spool while it grows."""
        return self._ward.signal(stream)


class NeverRan:
    """An attempt whose spec is wrong: it has ended as soon as it is looked at."""

    def __init__(self, assignment: Assignment, error: BadInput) -> None:
        self.task = assignment.claimed.id
        self.fence = assignment.claimed.fence
        self._ended = Ended(Fail(reason=str(error), again=False))

    async def ended(self) -> Ended:
        return self._ended

    async def stop(self, reason: str) -> None:
        """There is nothing to stop."""

    def trust(self, until: Moment) -> None:
        """There is nothing to trust."""

    def forget(self) -> None:
        """There is nothing to forget."""


class CommandExecutor:
    """Commands and shell scripts."""

    kinds: Sequence[str] = (Kind.COMMAND, Kind.SHELL)

    def __init__(self, guardian: Guardian, home: Home) -> None:
        self._guardian = guardian
        self._home = home
        self._folder = Path(guardian.post.folder.spool)

    @property
    def spool(self) -> Spool:
        """Where the output of its attempts is. The folder is there once an attempt was started or adopted."""
        return Spool(self._folder, self._guardian.post.cap)

    async def start(self, assignment: Assignment) -> CommandRun | NeverRan:
        try:
            order = make_order(assignment, self._home)
        except BadInput as error:
            return NeverRan(assignment, error)
        return CommandRun(await self._guardian.start(order), self._folder)

    async def adopt(self) -> Sequence[CommandRun]:
        return [CommandRun(ward, self._folder) for ward in await self._guardian.adopt()]

    async def close(self, *, leave_running: bool) -> None:
        await self._guardian.close(leave_running=leave_running)


def make_order(assignment: Assignment, home: Home) -> Start:
    """What the guardian is told to start; BadInput says what is wrong with the spec."""
    claimed = assignment.claimed
    spec = _read(claimed.kind, assignment.spec)
    argv, script = _program(spec)
    _refuse_nul(spec, argv)
    return Start(
        claimed.id,
        claimed.fence,
        argv,
        {**home.environment, **spec.env, **assignment.environment},
        str(home.folder) if spec.cwd is None else spec.cwd,
        assignment.trusted_until,
        stdin=None if spec.stdin is None else spec.stdin.encode(),
        script=script,
        merge=spec.merge,
        caps=_cap(spec.limits),
        grace=max(0, min(spec.grace, _LARGEST)),
        timeout=claimed.timeout,
    )


def _read(kind: str, spec: bytes) -> CommandSpec | ShellSpec:
    found: CommandSpec | ShellSpec = decode(spec, ShellSpec if kind == Kind.SHELL else CommandSpec)
    return found


def _program(spec: CommandSpec | ShellSpec) -> tuple[list[str], bytes | None]:
    """The arguments, and the script where it is too long to be one of them."""
    if isinstance(spec, CommandSpec):
        return spec.argv, None
    script = spec.script.encode()
    if len(script) <= _LONGEST_ARGUMENT:
        return ["bash", "-c", spec.script], None
    return ["bash", "/dev/fd/3"], script


def _refuse_nul(spec: CommandSpec | ShellSpec, argv: Sequence[str]) -> None:
    texts = [*argv, spec.cwd or "", *spec.env, *spec.env.values()]
    if any("\0" in text for text in texts):
        raise BadInput("a command, its environment and its working directory cannot hold a NUL: take it out")
    if any(not name or "=" in name for name in spec.env):
        raise BadInput("the name of an environment variable is not empty and holds no =")


def _cap(limits: Limits) -> Caps:
    for name in ("cpu", "memory", "files", "output"):
        bound = getattr(limits, name)
        if bound is not None and not 0 <= bound <= _LARGEST:
            raise BadNumber(f"the limit {name} is {bound}; give 0 to {_LARGEST}, or none", field=name)
    return Caps(limits.cpu, limits.memory, limits.files, limits.output)


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
        return Crashed(f"it was killed by {_name(end.signal)}")
    if end.code:
        return Fail(reason=f"it exited with code {end.code}")
    return Succeed(b"0")


def _name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _gather(end: End, spool: Path) -> dict[str, bytes]:
    """The data that an attempt leaves: its exit code, what it said if that is little, and what was cut off."""
    data = {name: text for name in end.streams if (text := _read_small(end, name, spool)) is not None}
    code = end.code if end.signal is None else 128 + end.signal
    if code is not None:
        data["result"] = str(code).encode()
    cut = {name: dropped for name, (_, dropped) in end.streams.items() if dropped}
    if cut:
        data["cut"] = msgspec.json.encode(cut)
    return data


def _read_small(end: End, name: str, spool: Path) -> bytes | None:
    """The whole of a small stream, which lies in the system's cache: it was written a moment ago."""
    if end.streams[name][0] > SMALL:
        return None
    try:
        return (spool / f"{end.task}.{end.fence}.{name}").read_bytes()
    except OSError:
        # Whoever reads the stream from the spool meets the error there, and can say more about it.
        return None
