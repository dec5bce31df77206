"""Executes plugins, each attempt in a process of its own under the guardian.

How an end becomes an outcome:

| the attempt | outcome |
|---|---|
| left an answer with status 1 | Succeed |
| left an answer with a larger status | Fail with that code |
| left an answer that is none, or a status below 1 | Fail, code 2, never tried again |
| ended without an answer | Fail, code 2, with what it exited with |
| was killed by a signal that was not ours | Crashed |
| took too long | Fail, code 124 |
| was stopped | Killed |
| ended because the lease or the node did | Release |
| its plugin is not here any more | Release, after a while: another node may have it |
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import BadInput
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import LARGEST_CODE, Crashed, Fail, Killed, Outcome, Release, Succeed
from ganger.core.task import PLUGIN
from ganger.node.executor import Assignment, Ended
from ganger.node.guardian.messages import End, Start
from ganger.node.guardian.remote import Guardian
from ganger.node.guardian.ward import Ward
from ganger.node.plugins import Answer, Plugin, PluginTask, find_plugin
from ganger.node.spool import Signal, Spool
from ganger.wire.specs import PluginSpec, decode

TIMED_OUT: Final = 124
SMALL: Final = 64 * 1024
_MACHINE_PAUSE: Final = 1_000
_GONE_PAUSE: Final = 30_000
_GRACE: Final = 5_000


class Papers(NamedTuple):
    """The files between the node and one attempt."""

    task: Path
    answer: Path

    @classmethod
    def of(cls, folder: Path, task: int, fence: int) -> "Papers":
        return cls(folder / f"{task}.{fence}.task.json", folder / f"{task}.{fence}.answer.json")

    def remove(self) -> None:
        for path in self:
            path.unlink(missing_ok=True)


class PluginRun:
    """An attempt that the guardian keeps."""

    def __init__(self, ward: Ward, papers: Papers, spool: Path) -> None:
        self._ward = ward
        self._papers = papers
        self._spool = spool
        self._ended: Ended | None = None

    @property
    def task(self) -> TaskId:
        return self._ward.task

    @property
    def fence(self) -> Fence:
        return self._ward.fence

    async def ended(self) -> Ended:
        end = await self._ward.ended()
        if self._ended is None:
            self._ended = judge(end, self._papers, self._spool)
        return self._ended

    async def stop(self, reason: str) -> None:
        self._ward.stop("stop", reason)

    def trust(self, until: Moment) -> None:
        self._ward.trust(until)

    def forget(self) -> None:
        self._papers.remove()
        self._ward.forget()

    def signal(self, stream: str) -> Signal:
        """For reading a stream of the spool while it grows."""
        return self._ward.signal(stream)


class NeverRan:
    """An attempt that could not be begun: it has ended as soon as it is looked at."""

    def __init__(self, assignment: Assignment, outcome: Outcome) -> None:
        self.task = assignment.claimed.id
        self.fence = assignment.claimed.fence
        self._ended = Ended(outcome)

    async def ended(self) -> Ended:
        return self._ended

    async def stop(self, reason: str) -> None:
        """There is nothing to stop."""

    def trust(self, until: Moment) -> None:
        """There is nothing to trust."""


class PluginExecutor:
    """Plugins that queues name; `knows` finds them. It has a guardian of its own: adopting takes all that one keeps."""

    def __init__(self, guardian: Guardian, environment: Mapping[str, str], folder: Path) -> None:
        self._guardian = guardian
        self._environment = environment
        self._folder = folder
        self._known: dict[str, Plugin] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def kinds(self) -> Sequence[str]:
        return [f"{PLUGIN}{name}" for name in self._known]

    @property
    def spool(self) -> Spool:
        return Spool(Path(self._guardian.post.folder.spool), self._guardian.post.cap)

    def knows(self, name: str) -> bool:
        """Is this plugin here? One that was found stays known; one that was not may have come since."""
        if name not in self._known and (found := find_plugin(name)) is not None:
            self._known[name] = found
        return name in self._known

    async def start(self, assignment: Assignment) -> PluginRun | NeverRan:
        name = assignment.claimed.kind.removeprefix(PLUGIN)
        if not self.knows(name):
            return NeverRan(assignment, Release(_GONE_PAUSE))
        papers = Papers.of(self._folder, assignment.claimed.id, assignment.claimed.fence)
        try:
            papers.task.write_bytes(describe(assignment))
        except BadInput as error:
            return NeverRan(assignment, Fail(reason=str(error), again=False))
        ward = await self._guardian.start(self._order(assignment, self._known[name], papers))
        return PluginRun(ward, papers, Path(self._guardian.post.folder.spool))

    def _order(self, assignment: Assignment, plugin: Plugin, papers: Papers) -> Start:
        claimed = assignment.claimed
        return Start(
            claimed.id,
            claimed.fence,
            [*plugin.words, str(papers.task), str(papers.answer)],
            {**self._environment, **assignment.environment},
            str(self._folder),
            assignment.trusted_until,
            grace=_GRACE,
            timeout=claimed.timeout,
        )

    async def adopt(self) -> Sequence[PluginRun]:
        spool = Path(self._guardian.post.folder.spool)
        wards = await self._guardian.adopt()
        return [PluginRun(ward, Papers.of(self._folder, ward.task, ward.fence), spool) for ward in wards]

    async def close(self, *, leave_running: bool) -> None:
        await self._guardian.close(leave_running=leave_running)


def describe(assignment: Assignment) -> bytes:
    """The task as its plugin reads it. BadInput: its spec is not one of a plugin."""
    claimed = assignment.claimed
    spec: PluginSpec = decode(assignment.spec or b"{}", PluginSpec)
    return msgspec.json.encode(PluginTask(claimed.id, claimed.queue, claimed.attempts + 1, claimed.fence, spec.params))


def judge(end: End, papers: Papers, spool: Path) -> Ended:
    """How the attempt ended, by the table above, with what it said."""
    printed = {name: text for name in end.streams if (text := _read_small(end, name, spool)) is not None}
    if end.why != "exit" or end.signal is not None:
        return Ended(_judge_end(end), printed, tuple(end.streams))
    answer, why = _read_answer(papers.answer)
    if answer is None:
        return Ended(_judge_silence(end, why), printed, tuple(end.streams))
    given = {"stdout": answer.stdout, "stderr": answer.stderr}
    said = {name: text.encode("utf-8", "replace") for name, text in given.items() if text is not None}
    for name, text in said.items():
        # What the plugin says in its answer stands for what its process wrote there.
        (spool / f"{end.task}.{end.fence}.{name}").write_bytes(text)
    small = {name: text for name, text in {**printed, **said}.items() if len(text) <= SMALL}
    return Ended(_judge_answer(answer), small, tuple({**end.streams, **said}))


def _judge_end(end: End) -> Outcome:
    match end.why:
        case "exit" | "lost":
            return Crashed(end.text or f"it was killed by signal {end.signal}")
        case "timeout":
            return Fail(TIMED_OUT, end.text)
        case "stop":
            return Killed(end.text)
        case "trust" | "shutdown":
            return Release()
        case "machine":
            return Release(_MACHINE_PAUSE)
        case _:
            return Fail(reason=end.text or f"it ended: {end.why}")


def _judge_silence(end: End, why: str | None) -> Outcome:
    if why is not None:
        return Fail(reason=f"the plugin's answer is none: {why}", again=False)
    return Fail(reason=f"the plugin exited with code {end.code} and left no answer")


def _judge_answer(answer: Answer) -> Outcome:
    if answer.status == 1:
        return Succeed(b"1")
    if not 1 < answer.status <= LARGEST_CODE:
        return Fail(
            reason=f"the plugin answered status {answer.status}; a task that has ended has 1 or more", again=False
        )
    return Fail(answer.status, f"the plugin answered status {answer.status}")


def _read_answer(path: Path) -> tuple[Answer | None, str | None]:
    """The answer, or what is wrong with it; neither if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Answer), None
    except FileNotFoundError:
        return None, None
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return None, str(error)


def _read_small(end: End, name: str, spool: Path) -> Any:
    """The whole of a small stream; None for a long one, and for one that whoever reads the spool will miss too."""
    if end.streams[name][0] > SMALL:
        return None
    try:
        return (spool / f"{end.task}.{end.fence}.{name}").read_bytes()
    except OSError:
        return None
