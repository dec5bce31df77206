"""Schedules are kept as tasks, and their ticks become tasks, each exactly once, whoever makes them.

*Where a schedule is.* It is an open group in the queue `schedules`: a task that takes no slot, waits for ever, and is
listed, held (which pauses it), kicked and removed as any other. Its spec says when and what; its value `last` says up
to which tick all is done, and which task was made last.

*Why a tick happens once.* The task of a tick has the key `schedule:<name>:<tick>`, and whoever submits it a second time
is given the first. So it does not matter that a process dies between the submission and the note in `last`, nor that
two processes make ticks at once. `last` is what keeps a tick from coming back after its task was pruned.

*When the wall clock jumps.* Forwards: the ticks in between are missed ones, and the schedule's policy says which are
made. Backwards by more than a minute: the schedule goes on from the new time, because it must not stand still until
a date that was a mistake; the ticks that come a second time find their keys taken, as long as their tasks are kept.

*Overlap.* Unless it is asked for, no tick is made while the task of the one before has not ended; one that somebody
holds has not ended. Ticks that come meanwhile are late ones, under the same policy.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

import msgspec

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, GangerError, QueueNotFound, StoreError, TaskNotFound
from ganger.core.ids import QueueId, TaskId
from ganger.core.schedule import QUEUE, Missed, Schedule, choose, due
from ganger.core.state import Status, is_final
from ganger.core.task import DEFAULT_PRIORITY, SCHEDULES, Kind, NewTask, OnConflict, Task
from ganger.engine.agenda import Agenda
from ganger.engine.audit import act
from ganger.engine.engine import Engine
from ganger.engine.store import Change, Edit, Query
from ganger.engine.ticks import check, next_ticks, ticks_until
from ganger.engine.upkeep import ALONE, Chore, LeaderGate, Stepped
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.unreadable import UNREADABLE

LAST: Final = "last"
TICK: Final = "schedule:"
"""So begins the key of a tick's task."""

FORMAT: Final = 1
LARGEST: Final = 1 << 20
PAGE: Final = 1_000
BACKWARDS: Final = 60_000
LOOK_SHARE: Final = 50
"""Looking at all schedules takes at most such a part of the time, however often something happens."""

TROUBLE: Final = 60_000
"""After so many milliseconds a schedule whose task was refused is tried again."""


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """What each tick submits; the fields are those of NewTask."""

    queue: int
    kind: str
    spec: bytes = b""
    priority: int = DEFAULT_PRIORITY
    retry: str | None = None
    timeout: int | None = None
    limit_key: str | None = None
    requires: tuple[str, ...] = ()
    description: str | None = None


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule as it is stored."""

    schedule: dict[str, str | int | bool | None]
    work: Work
    format: int = FORMAT
    owner: str | None = None


class Last(msgspec.Struct, frozen=True):
    """Every tick up to `until` is done with; `task` is the newest that was made."""

    until: int
    task: int | None = None


class Planned(NamedTuple):
    """A schedule as it is now. `paused`: somebody holds it. `owner`: the program that declares it, if one does."""

    task: TaskId
    schedule: Schedule
    work: Work
    last: Last
    paused: bool
    owner: str | None = None


class Schedules:
    """The schedules of one engine: add, change, list, remove. One is paused by holding its task, and goes on kicked."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def add(self, schedule: Schedule, work: Work, *, by: str, owner: str | None = None) -> TaskId:
        """Keep a schedule; its first tick is the next one. Uses: directory, configure, submit.

        Raises BadInput, QueueNotFound, DuplicateKey if the name is taken.
        """
        checked = check(schedule)
        if checked.every is not None and not checked.start:
            checked = checked._replace(start=self._clock.wall())
        await self._engine.queues.get(QueueId(work.queue))
        queue = await self._engine.queues.ensure(QUEUE, by=by)
        spec = _write(checked, work, owner)
        task = NewTask(queue.id, Kind.GROUP, spec, key=_key(schedule.name), open_group=True, description=schedule.name)
        return (await self._engine.submit([task], act=act(by, "schedule.add", name=schedule.name))).ids[0]

    async def change(self, planned: Planned, schedule: Schedule, work: Work, *, by: str) -> None:
        """Let a schedule make other ticks, or other tasks; a pause stays one. Uses: write, edit.

        If its times are others, the first of them is the next one from now on. Raises BadInput, TaskNotFound.
        """
        checked = check(schedule)
        if checked.every is not None and not checked.start:
            checked = checked._replace(start=planned.schedule.start or self._clock.wall())
        if timing(checked) != timing(planned.schedule):
            # Before the new times are: else those of them that have passed would look like missed ones.
            await self._engine.put_data(
                planned.task, LAST, msgspec.json.encode(Last(self._clock.wall(), planned.last.task))
            )
        spec = _write(checked, work, planned.owner)
        await self._engine.edit([Edit(planned.task, change=Change(spec=spec))], by=by)

    async def get(self, name: str) -> Planned:
        """The schedule of this name, or TaskNotFound. Uses: find, value."""
        found = (await self._engine.find(Query(key=_key(name)))).tasks
        if not found:
            raise TaskNotFound(f"there is no schedule {name!r:.80}", name=name)
        return await read(self._engine, found[0])

    async def all(self, *, skip_bad: bool = False) -> AsyncGenerator[Planned, None]:
        """Every schedule. Uses: directory, find, value. BadInput: one cannot be read, unless such are left out."""
        async for task in stored(self._engine):
            try:
                planned = await read(self._engine, task)
            except BadInput:
                if not skip_bad:
                    raise
            else:
                yield planned

    async def remove(self, name: str, *, by: str) -> None:
        """Make no more ticks; the tasks that were made go on. TaskNotFound. Uses: find, value, edit."""
        await self._engine.remove((await self.get(name)).task, by=by)


def timing(schedule: Schedule) -> tuple[str | None, int | None, str]:
    """What says when its ticks are."""
    return schedule.cron, schedule.every, schedule.zone


def _write(schedule: Schedule, work: Work, owner: str | None) -> bytes:
    return msgspec.json.encode(Written(schedule._asdict(), work, owner=owner))


def _key(name: str) -> str:
    return f"{SCHEDULES}{name}"


async def stored(engine: Engine) -> AsyncGenerator[Task, None]:
    """The tasks that are schedules and not ended; the queue is small, and walked without any other index."""
    try:
        queue = await engine.queues.named(QUEUE)
    except QueueNotFound:
        return
    async for task in engine.walk(Query(queue=queue.id, most=PAGE)):
        if task.kind == Kind.GROUP and not is_final(task.status):
            yield task


async def read(engine: Engine, task: Task) -> Planned:
    """The schedule that a task is. BadInput if it is none."""
    try:
        written = msgspec.json.decode((await engine.read_data(task.id, "spec", most=LARGEST)).body, type=Written)
        schedule = _schedule(written)
        body = (await engine.read_data(task.id, LAST)).body
        last = msgspec.json.decode(body, type=Last) if body else Last(task.created)
    except UNREADABLE as error:
        raise BadInput(f"task {task.id} of the queue {QUEUE} is no schedule: {error}") from None
    return Planned(task.id, schedule, written.work, last, task.status == Status.HELD, written.owner)


def find_work(spec: bytes) -> Work | None:
    """What a schedule with this spec submits; None if it is none."""
    try:
        return msgspec.json.decode(spec, type=Written).work
    except UNREADABLE:
        return None


def _schedule(written: Written) -> Schedule:
    if written.format > FORMAT:
        raise BadInput(f"it was written by a newer version, in the format {written.format}; this one knows {FORMAT}")
    defaults = Schedule._field_defaults
    fields = [written.schedule.get(field, defaults.get(field)) for field in Schedule._fields]
    return msgspec.convert(fields, Schedule)


class Scheduler(Chore):
    """Makes the ticks of all schedules that are due."""

    def __init__(
        self, engine: Engine, clock: Clock, *, gate: LeaderGate = ALONE, telemetry: Telemetry = SILENT
    ) -> None:
        super().__init__(engine.store, clock, gate=gate, telemetry=telemetry)
        self._engine = engine
        self._agenda = Agenda()
        self._known: dict[TaskId, int] = {}
        self._wall = 0

    async def step(self) -> Stepped:
        """Make what is due. Uses: directory, find, value, tasks, submit, write."""
        began = self._clock.now()
        try:
            await self._find()
            self.quiet = max(Chore.quiet, LOOK_SHARE * (self._clock.now() - began))
            made = [await self._tick(task) for task in self._agenda.take(self._clock.wall(), PAGE)]
        except BaseException:
            self._forget()
            raise
        return Stepped(sum(made), next_at=self._agenda.next())

    def _forget(self) -> None:
        self._agenda.clear()
        self._known.clear()

    async def _find(self) -> None:
        """Plan those that are new or changed, or wait for a task to end; all if the wall clock went backwards."""
        wall, before = self._clock.wall(), self._wall
        self._wall = wall
        if wall < before:
            self._forget()
        found = {task.id: int(task.modified) async for task in stored(self._engine) if task.status == Status.BLOCKED}
        for task, modified in found.items():
            if self._known.get(task) != modified or task not in self._agenda:
                self._agenda.plan(task, 0)
        for gone in self._known.keys() - found.keys():
            self._agenda.drop(gone)
        self._known = found

    async def _tick(self, task: TaskId) -> int:
        """Make what is due of one schedule. One that is in trouble stops no other."""
        try:
            return await self._make(task)
        except StoreError:
            raise
        except GangerError as error:
            self._tell.event("tick_refused", schedule=task, error=name_fault(error))
            self._agenda.plan(task, self._clock.wall() + TROUBLE)
            return 0

    async def _make(self, task: TaskId) -> int:
        (found,) = await self._store.tasks([task])
        if found is None or found.status != Status.BLOCKED:
            return 0
        planned, wall = await read(self._engine, found), self._clock.wall()
        last = await self._rewind(planned, wall)
        ticks = due(ticks_until(planned.schedule, wall), last.until, planned.schedule.most)
        if ticks and await self._is_busy(planned.schedule, last):
            # Nothing is planned: the end of that task is an event, and with an event all unplanned ones are looked at.
            return 0
        chosen = choose(planned.schedule, ticks, wall)
        if ticks:
            last = await self._submit(planned, last, chosen, ticks)
        following = next_ticks(planned.schedule, 1, last.until)
        self._agenda.plan(task, following[0] if following else wall + TROUBLE)
        return len(chosen)

    async def _rewind(self, planned: Planned, wall: int) -> Last:
        """Where to go on: after a jump backwards from the new time."""
        last = planned.last
        if wall >= last.until - BACKWARDS:
            return last
        self._tell.event("schedule_rewound", schedule=planned.schedule.name, milliseconds=last.until - wall)
        return await self._keep(planned.task, Last(wall, last.task))

    async def _is_busy(self, schedule: Schedule, last: Last) -> bool:
        if schedule.overlap or last.task is None:
            return False
        (before,) = await self._store.tasks([TaskId(last.task)])
        return before is not None and not is_final(before.status)

    async def _submit(self, planned: Planned, last: Last, chosen: Sequence[int], ticks: Sequence[int]) -> Last:
        """Make these ticks, and then say so. All that are due are done with, unless the others are to follow."""
        made = (await self._engine.submit([_task(planned, tick) for tick in chosen])).ids if chosen else []
        until = chosen[-1] if planned.schedule.missed == Missed.ALL else ticks[-1]
        if planned.schedule.missed != Missed.ALL and len(ticks) > len(chosen):
            self._tell.event("ticks_missed", schedule=planned.schedule.name, ticks=len(ticks) - len(chosen))
        return await self._keep(planned.task, Last(until, made[-1] if made else last.task))

    async def _keep(self, task: TaskId, last: Last) -> Last:
        await self._engine.put_data(task, LAST, msgspec.json.encode(last))
        return last


def _task(planned: Planned, tick: int) -> NewTask:
    work = planned.work
    return NewTask(
        QueueId(work.queue), work.kind, work.spec, work.priority, key=f"{TICK}{planned.schedule.name}:{tick}",
        on_conflict=OnConflict.RETURN, description=work.description, retry=work.retry, timeout=work.timeout,
        limit_key=work.limit_key, requires=work.requires,
    )  # fmt: skip
