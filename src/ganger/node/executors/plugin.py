"""Executes plugins, each attempt in a process of its own under the guardian.

How an end becomes an outcome, where the guardian has not ended it (`guardian.run` has the rest):

| the attempt | outcome |
|---|---|
| left an answer with status 1 | Succeed |
| left an answer with a larger status | Fail with that code |
| left an answer that is none, or a status below 1 | Fail, code 2, never tried again |
| ended without an answer | Fail, code 2, with what it exited with |
| its plugin is not here any more | Release, after a while: another node may have it |

What its process exited with is left as the data `exit`: its code, -1 if a signal ended it, -3 if it was never started.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput
from ganger.core.outcome import LARGEST_CODE, Fail, Outcome, Release, Succeed
from ganger.core.task import EXIT, PLUGIN
from ganger.node.executor import Assignment, Ended
from ganger.node.guardian.messages import End, Start
from ganger.node.guardian.remote import Guardian
from ganger.node.guardian.run import SMALL, GuardedRun, NeverRan, find_cut, judge, read_small
from ganger.node.guardian.ward import Ward
from ganger.node.masking import mask
from ganger.node.plugins import NO_NAMES, Answer, Plugin, PluginTask, find_plugin
from ganger.node.secrets import NO_SECRETS, Opening, Secrets
from ganger.node.spool import Spool
from ganger.wire.cuts import FULL, add_cut
from ganger.wire.specs import PluginSpec, decode
from ganger.wire.unreadable import UNREADABLE

_GONE_PAUSE: Final = 30_000
_GRACE: Final = 5_000
_SIGNALLED: Final = b"-1"
_NOT_STARTED: Final = b"-3"


class Papers(NamedTuple):
    """The files between the node and one attempt."""

    task: Path
    answer: Path
    masks: Path

    @classmethod
    def of(cls, folder: Path, task: int, fence: int) -> "Papers":
        return cls(*(folder / f"{task}.{fence}.{what}.json" for what in ("task", "answer", "masks")))

    def write(self, task: bytes, masks: Sequence[bytes]) -> None:
        """What must be masked in the answer is written down too: the next node of this name may have to read it."""
        self.task.write_bytes(task)
        if masks:
            self.masks.write_bytes(msgspec.json.encode(masks))

    def read_masks(self) -> list[bytes]:
        try:
            return msgspec.json.decode(self.masks.read_bytes(), type=list[bytes])
        except FileNotFoundError:
            return []

    def remove(self) -> None:
        for path in self:
            path.unlink(missing_ok=True)


class PluginExecutor:
    """Plugins that queues name; `knows` finds them, in `paths` first. `named` says what some names are.

    It has a guardian of its own: adopting takes all that one keeps.
    """

    def __init__(
        self,
        guardian: Guardian,
        environment: Mapping[str, str],
        folder: Path,
        paths: Sequence[str] = (),
        named: Mapping[str, str] = NO_NAMES,
        *,
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        self._secrets = secrets
        self._guardian = guardian
        self._environment = environment
        self._paths = paths
        self._named = named
        self._folder = folder
        self.ahead = 0
        self._known: dict[str, Plugin] = {}
        self._streams = Path(guardian.post.folder.spool)
        self._spool = Spool(self._streams, guardian.post.cap)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def kinds(self) -> Sequence[str]:
        return [f"{PLUGIN}{name}" for name in self._known]

    @property
    def spool(self) -> Spool:
        return self._spool

    def knows(self, name: str) -> bool:
        """Is this plugin here? One that was found stays known; one that was not may have come since."""
        if name not in self._known and (found := find_plugin(name, self._paths, self._named)) is not None:
            self._known[name] = found
        return name in self._known

    async def start(self, assignment: Assignment) -> GuardedRun | NeverRan:
        name = assignment.claimed.kind.removeprefix(PLUGIN)
        if not self.knows(name):
            return NeverRan(assignment, Release(_GONE_PAUSE))
        papers = Papers.of(self._folder, assignment.claimed.id, assignment.claimed.fence)
        try:
            task, masks = describe(assignment, self._secrets)
            papers.write(task, masks)
        except BadInput as error:
            return NeverRan(assignment, Fail(reason=str(error), again=False), {EXIT: _NOT_STARTED})
        return self._take_on(await self._guardian.start(self._order(assignment, self._known[name], papers, masks)))

    def _order(self, assignment: Assignment, plugin: Plugin, papers: Papers, masks: list[bytes]) -> Start:
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
            masks=masks,
        )

    async def adopt(self) -> Sequence[GuardedRun]:
        return [self._take_on(ward) for ward in await self._guardian.adopt()]

    def _take_on(self, ward: Ward) -> GuardedRun:
        papers = Papers.of(self._folder, ward.task, ward.fence)
        return GuardedRun(ward, partial(conclude, papers=papers, spool=self._streams), papers.remove)

    async def close(self, *, leave_running: bool) -> None:
        await self._guardian.close(leave_running=leave_running)


def describe(assignment: Assignment, secrets: Secrets) -> tuple[bytes, list[bytes]]:
    """The task as its plugin reads it, and the secrets in it. BadInput: its spec is no plugin's, or one is missing."""
    claimed, opening = assignment.claimed, Opening(secrets)
    spec: PluginSpec = decode(assignment.spec or b"{}", PluginSpec)
    params = opening.put_in_all(spec.params)
    task = PluginTask(claimed.id, claimed.queue, claimed.attempts + 1, claimed.fence, params)
    return msgspec.json.encode(task), opening.values


def conclude(end: End, papers: Papers, spool: Path) -> Ended:
    """How the attempt ended, by the table above, with what it said."""
    printed = add_cut(read_small(end, spool) | _tell_exit(end), *find_cut(end))
    if end.why != "exit" or end.signal is not None:
        return Ended(judge(end), printed, tuple(end.streams))
    answer, why = _read_answer(papers.answer)
    if answer is None:
        return Ended(_judge_silence(end, why), printed, tuple(end.streams))
    given = {"stdout": answer.stdout, "stderr": answer.stderr}
    masks = papers.read_masks()
    said = {name: mask(text.encode("utf-8", "replace"), masks) for name, text in given.items() if text is not None}
    cut = {name: _put(spool / f"{end.task}.{end.fence}.{name}", text) for name, text in said.items()}
    lost = {name: missing for name, missing in cut.items() if missing}
    kept = {name: text[: len(text) - cut[name]] for name, text in said.items()}
    small = {name: text for name, text in {**printed, **kept}.items() if len(text) <= SMALL}
    return Ended(_judge_answer(answer), add_cut(small, lost, FULL, end.fence), tuple({**end.streams, **said}))


def _put(path: Path, text: bytes) -> int:
    """What the plugin says in its answer stands for what its process wrote there; how much of it was not kept."""
    try:
        path.write_bytes(text)
    except OSError:
        # What is small goes into the store with the end.
        return max(0, len(text) - SMALL)
    return 0


def _tell_exit(end: End) -> dict[str, bytes]:
    """What its process exited with, as task runners of Disbatch put it; nothing if that is not known."""
    if end.why == "program":
        return {EXIT: _NOT_STARTED}
    if end.signal is not None:
        return {EXIT: _SIGNALLED}
    return {} if end.code is None else {EXIT: str(end.code).encode()}


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
    except (OSError, *UNREADABLE) as error:
        return None, str(error)
