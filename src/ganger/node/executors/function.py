"""Executes Python functions in warm processes: see `node/functions` for who does what there.

Where a function runs: where its spec says, else where the node's options do. An async function whose spec says nothing
is found out by the process that is asked to execute it, is sent to the loop, and goes there at once from then on.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from ganger.core.clock import Clock, Moment
from ganger.core.errors import BadInput, StoreError
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Lease
from ganger.core.outcome import Fail
from ganger.core.task import Claimed, Kind
from ganger.node.executor import Assignment, Ended, Told
from ganger.node.functions.child import Child, Errand, Stopped
from ganger.node.functions.crew import Crew, Post
from ganger.node.functions.judging import release
from ganger.node.functions.messages import Job, Mode
from ganger.node.functions.note import Note
from ganger.node.functions.options import FunctionOptions
from ganger.node.functions.references import Resolve, has_references, open_arguments, resolve
from ganger.node.functions.watching import Watch
from ganger.node.lengths import Lengths, Name, name
from ganger.node.secrets import NO_SECRETS, Secrets, may_have_reference
from ganger.node.shipping import Readable
from ganger.node.spool import Spool
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.unreadable import UNREADABLE

TICK: Final = 0.1
"""Seconds between two looks at what is executed, while anything is."""

_GLANCE: Final = 0.02
"""Seconds between two looks at what has not begun, while there is anything."""

_BACK_OFF: Final = 1_000
_SAYS_MODE: Final = b'"mode"'
_NAMES: Final = {"process": Mode.PROCESS, "thread": Mode.THREAD, "loop": Mode.LOOP}


class _Route(msgspec.Struct, frozen=True):
    """The two fields of a spec that say where it runs."""

    path: str = ""
    mode: str | None = None
    grace: int = 5_000


_ROUTE: Final = msgspec.json.Decoder(_Route)


def tell_nobody(lease: Lease, percent: float | None, info: str | None) -> None:
    """A report that is not wanted."""


class FunctionExecutor:
    """Functions by import path."""

    kinds: Sequence[str] = (Kind.FUNCTION,)

    def __init__(
        self,
        options: FunctionOptions,
        clock: Clock,
        *,
        report: Callable[[Lease, float | None, str | None], None] = tell_nobody,
        read: Resolve | None = None,
        secrets: Secrets = NO_SECRETS,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._options = options
        self._read = read
        self._secrets = secrets
        self._seqs = count(1)
        self._resolving: set[asyncio.Task[None]] = set()
        self._on_loop: set[str] = set()
        self._prepared: tuple[Child, list[Job]] | None = None
        self._begun: dict[tuple[TaskId, Fence], int] = {}
        self._watched: dict[tuple[TaskId, Fence], Watch] = {}
        self._trust = Moment(0)
        self._ticking: asyncio.TimerHandle | None = None
        self._glancing: asyncio.TimerHandle | None = None
        self.lengths = Lengths()
        self._last: tuple[Mode, frozenset[Name]] = options.mode, frozenset()
        for folder in (options.notes, options.spool):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._blamed = _read_notes(options)
        post = Post(options, clock, telemetry, self.lengths, report, self._bounce)
        self._crews = {
            Mode.PROCESS: Crew(Mode.PROCESS, post, options.processes, 1),
            Mode.THREAD: Crew(Mode.THREAD, post, 1, options.threads),
            Mode.LOOP: Crew(Mode.LOOP, post, 1, options.coroutines),
        }

    @property
    def places(self) -> int:
        return self._crews[self._last[0]].places

    @property
    def room(self) -> int:
        # Nobody knows what comes next: it is taken for more of what came last.
        mode, names = self._last
        return self._crews[mode].room(names)

    @property
    def spool(self) -> Spool:
        """Where large output of its attempts is."""
        return Spool(self._options.spool, self._options.cap)

    @property
    def blamed(self) -> Collection[tuple[TaskId, Fence]]:
        """What a former node of the same name was executing when it died."""
        return self._blamed

    def start(self, assignments: Sequence[Assignment], told: Told) -> None:
        if not assignments:
            return
        self.trust(max(self._trust, assignments[0].trusted_until))
        if self._begun:
            assignments = self._adopt(assignments, told)
        # One look at all: the usual spec refers to nothing and says no mode, and then none is looked at by itself.
        specs = b"\n".join([one.spec for one in assignments])
        linked = [one for one in assignments if _refers(one.spec)] if _refers(specs) else []
        plain = [one for one in assignments if one not in linked] if linked else assignments
        errands = [Errand(next(self._seqs), one, told, name(one.claimed.kind, one.spec)) for one in plain]
        self._run(errands, says_mode=_SAYS_MODE in specs)
        for one in linked:
            resolving = asyncio.get_running_loop().create_task(self._start_resolved(one, told))
            self._resolving.add(resolving)
            resolving.add_done_callback(self._resolving.discard)

    def prepare(self, claimed: Sequence[Claimed]) -> bool:
        """Only the usual spec, which refers to nothing and says no mode, and only while no function is on the loop."""
        jobs: list[Job] = []
        if self._prepared is not None:
            return False
        for one in claimed:
            spec = one.spec
            if one.kind != Kind.FUNCTION or spec is None or self._on_loop or _SAYS_MODE in spec or _refers(spec):
                return False
            jobs.append(Job(next(self._seqs), one.id, one.fence, one.attempts + 1, spec))
        names = {name(Kind.FUNCTION, job.spec) for job in jobs}
        child = self._crews[self._options.mode].prepare(jobs, names)
        if child is None:
            return False
        self._prepared = child, jobs
        return True

    def begin(self) -> None:
        if self._prepared is not None:
            (child, jobs), self._prepared = self._prepared, None
            self._begun |= {(TaskId(job.task), Fence(job.fence)): job.seq for job in jobs}
            child.begin_prepared()

    def forget(self) -> None:
        if self._prepared is not None:
            (child, _), self._prepared = self._prepared, None
            child.forget_prepared()

    def _adopt(self, assignments: Sequence[Assignment], told: Told) -> Sequence[Assignment]:
        """Those that run already get their errands; the others are left."""
        keys = [(one.claimed.id, one.claimed.fence) for one in assignments]
        seqs = [self._begun.pop(key, None) for key in keys]
        errands = [
            Errand(seq, one, told, name(one.claimed.kind, one.spec))
            for seq, one in zip(seqs, assignments, strict=True)
            if seq is not None
        ]
        self._expect(self._options.mode, errands)
        self._crews[self._options.mode].adopt(errands)
        return [one for seq, one in zip(seqs, assignments, strict=True) if seq is None]

    async def _start_resolved(self, assignment: Assignment, told: Told) -> None:
        try:
            spec, masks = open_arguments(assignment.spec, self._secrets)
            if has_references(spec):
                spec = await self._resolve(spec)
        except BadInput as error:
            told([(assignment, Ended(Fail(reason=str(error), again=False)))])
        except StoreError:
            told([(assignment, release(_BACK_OFF))])
        else:
            called = name(assignment.claimed.kind, spec)
            errand = Errand(next(self._seqs), replace(assignment, spec=spec), told, called, masks=tuple(masks))
            self._run([errand], says_mode=True)

    async def _resolve(self, spec: bytes) -> bytes:
        """Called when the secrets are in: what another task returned is no reference to one."""
        if self._read is None:
            raise BadInput("an argument is the result of another task, and nobody here can read results")
        return await resolve(spec, self._read)

    def _run(self, errands: Sequence[Errand], *, says_mode: bool) -> None:
        if self._on_loop or says_mode:
            self._sort(errands)
        else:
            self._give(self._options.mode, errands)
        self._tick_soon()
        self._glance_soon()

    def _give(self, mode: Mode, errands: Sequence[Errand]) -> None:
        self._expect(mode, errands)
        self._crews[mode].add(errands)

    def _expect(self, mode: Mode, errands: Sequence[Errand]) -> None:
        if errands:
            self._last = mode, frozenset([errand.name for errand in errands])

    def _sort(self, errands: Sequence[Errand]) -> None:
        by_mode: dict[Mode, list[Errand]] = {}
        for errand in errands:
            by_mode.setdefault(self._route(errand.assignment.spec), []).append(errand)
        for mode, some in by_mode.items():
            self._give(mode, some)

    def _route(self, spec: bytes) -> Mode:
        route = _read_route(spec)
        if route.mode in _NAMES:
            return _NAMES[route.mode]
        return Mode.LOOP if route.path in self._on_loop else self._options.mode

    def _bounce(self, errands: Sequence[Errand], path: str) -> None:
        self._on_loop.add(path)
        self._give(Mode.LOOP, errands)
        # Nothing has ended, but there is room where these were.
        for told in {errand.told for errand in errands}:
            told([])

    @property
    def executing(self) -> Collection[tuple[TaskId, Fence]]:
        return [key for crew in self._crews.values() for key in crew.executing()]

    def give_back(self) -> None:
        for crew in self._crews.values():
            crew.give_back()

    def watch(self, task: TaskId, fence: Fence) -> Mapping[str, Readable]:
        """What an attempt says while it is executed."""
        watch = self._watched.setdefault((task, fence), Watch(self.spool, task, fence))
        self._tick_soon()
        return watch.readers()

    def _look(self) -> None:
        """See how far those reach that are watched; who has ended is watched no more."""
        crews = self._crews.values()
        for key, watch in list(self._watched.items()):
            executing = [found for crew in crews if (found := crew.find_executing(*key)) is not None]
            for child, seq in executing:
                watch.look(child, seq)
            if not executing and all(crew.find(*key) is None for crew in crews):
                del self._watched[key]

    async def stop(self, task: TaskId, fence: Fence, reason: str) -> None:
        self._stop(task, fence, Stopped(reason))

    def _stop(self, task: TaskId, fence: Fence, stopped: Stopped) -> None:
        for crew in self._crews.values():
            errand = crew.find(task, fence)
            if errand is not None:
                crew.stop(errand, stopped)
                grace = max(0, _read_route(errand.assignment.spec).grace) / 1000
                asyncio.get_running_loop().call_later(grace, self._force, crew, errand)

    def _force(self, crew: Crew, errand: Errand) -> None:
        if not crew.force(errand):
            asyncio.get_running_loop().call_later(TICK, self._force, crew, errand)

    def trust(self, until: Moment) -> None:
        self._trust = until
        for crew in self._crews.values():
            crew.trust(until)

    async def close(self, *, give_back: bool) -> None:
        crews = self._crews.values()
        if give_back:
            for crew in crews:
                crew.drop_waiting()
        if self._resolving:
            await asyncio.wait(self._resolving)
        await asyncio.gather(*(crew.close(kill=not give_back) for crew in crews))
        for timer in (self._ticking, self._glancing):
            if timer is not None:
                timer.cancel()

    def _glance_soon(self) -> None:
        if self._glancing is None and any(crew.is_stretched for crew in self._crews.values()):
            self._glancing = asyncio.get_running_loop().call_later(_GLANCE, self._glance)

    def _glance(self) -> None:
        self._glancing = None
        for crew in self._crews.values():
            crew.relieve()
        self._glance_soon()

    def _tick_soon(self) -> None:
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        for crew in self._crews.values():
            for errand in crew.overdue():
                claimed = errand.assignment.claimed
                self._stop(claimed.id, claimed.fence, Stopped(f"it took more than {claimed.timeout} ms", is_late=True))
            crew.replace()
            crew.trim()
        self._look()
        if any(not crew.is_idle for crew in self._crews.values()):
            self._tick_soon()


def _refers(spec: bytes) -> bool:
    return has_references(spec) or may_have_reference(spec)


def _read_route(spec: bytes) -> _Route:
    try:
        return _ROUTE.decode(spec)
    except UNREADABLE:
        # Whoever executes it says what is wrong with it.
        return _Route()


def _read_notes(options: FunctionOptions) -> frozenset[tuple[TaskId, Fence]]:
    """What a former node left: whom to blame for its death, each note read once."""
    blamed: set[tuple[TaskId, Fence]] = set()
    for path in options.notes.glob("*.note"):
        try:
            note = Note.open(path)
        except ValueError:
            # A node that died while it made the page had executed nothing with it.
            path.unlink()
            continue
        blamed |= {(one.task, one.fence) for one in note.executing()}
        note.close()
        path.unlink()
    return frozenset(blamed)
