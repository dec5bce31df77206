"""The engine: the one door to what the system does. Every operation names the operations of the store that it uses."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from ganger.core.audit import Act
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadInput, GangerError
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.outcome import Outcome, Release
from ganger.core.queue import Counts
from ganger.core.task import Claimed, Eager, NewTask, Task
from ganger.core.token import Attempt
from ganger.engine import (
    again,
    audit,
    edit,
    explain,
    family,
    follow,
    inspect,
    live,
    operate,
    output,
    paging,
    renew,
    settle,
    submit,
)
from ganger.engine.blob import BlobRef, Blobs
from ganger.engine.checks import OUTPUT
from ganger.engine.claim import Desk, check_claim
from ganger.engine.contents import Contents
from ganger.engine.follow import EVERYTHING, Wanted
from ganger.engine.limits import Limits
from ganger.engine.line import Line
from ganger.engine.nodes import Nodes
from ganger.engine.operate import Moved
from ganger.engine.output import Part, Places, Wish
from ganger.engine.queues import Queues
from ganger.engine.readiness import Readiness, check_ready
from ganger.engine.settle import Settled, Settling
from ganger.engine.store import Claim, Edit, Exchange, Look, Note, Page, Past, Prompt, Query, Store, Submitted
from ganger.engine.wait import Follower, Waited
from ganger.engine.walls import Judges, Walls
from ganger.engine.witness import Witness
from ganger.runtime.telemetry import SILENT, Telemetry

PLAIN_LIMITS = Limits()
_KILLING = 30.0


class Engine:
    """What the system does, over one store. Safe for any number of tasks of one event loop. Close it at the end."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        entropy: Entropy,
        *,
        blobs: Blobs | None = None,
        witness: Witness | None = None,
        limits: Limits = PLAIN_LIMITS,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self.store = store
        self.limits = limits
        self.queues = Queues(store, clock, limits)
        self.nodes = Nodes(store, limits)
        self._clock = clock
        self._witness = witness
        self._prompt = store if isinstance(store, Prompt) else None
        self._desk = Desk(store, clock, telemetry)
        self._line = Line(store, clock, self._desk, self.queues, self.nodes)
        self._follower = Follower(store)
        self._walls: Judges = Walls(store, self.queues)
        self._places = Places(store, blobs, limits)
        self.contents = Contents(self._places)
        self._settling = Settling(store, clock, entropy, self.queues, self._desk, limits, witness)

    async def close(self) -> None:
        """Send home whoever waits, give back what nobody took, listen no more; the store stays open. Uses: exchange."""
        self._line.close()
        self._follower.close()
        self.queues.close()
        await self._desk.close()

    async def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        under: Attempt | None = None,
        act: Act | None = None,
        data: Sequence[tuple[int, str, bytes | BlobRef]] = (),
        pasts: Sequence[tuple[int, Past]] = (),
    ) -> Submitted:
        """Store new tasks, all or none; durable when it returns. Uses: submit, tasks; look, directory, find (`under`).

        `under`: an attempt submits them, below itself and while it holds its lease (see `walls.py`). `data` are values
        that tasks are born with: the index of the task, the key, the content, or what `keep` made of it (as `spec` it
        takes the place of the task's own). `pasts` are the ends of tasks that ended in another store. To send it again
        safely give keys with on_conflict `return`.
        Raises BadInput and its kin with the task's index, DuplicateKey, QueueNotFound, StaleLease, NotAllowed,
        StoreFull.
        """
        if under is not None:
            await self._walls.check_new(under, tasks)
        kept = [(index, await output.make_born_datum(self._places, key, content)) for index, key, content in data]
        return await submit.submit(
            self.store, tasks, self.limits, witness=self._witness, under=under, act=act, data=kept, pasts=pasts
        )

    def post_now(self, tasks: Sequence[NewTask]) -> Callable[[], Submitted] | None:
        """As `submit`, from any thread but the event loop's, which waits; None if that cannot be. Uses: submit.

        Tasks without a key that refer to no other may be seen a moment after this returns; they are safe by then, and
        what is returned waits for the reply. It cannot be where the store has no such way, or where somebody has to
        witness what was submitted.
        """
        if self._witness is not None or self._prompt is None:
            return None
        return submit.post_now(self._prompt, tasks, self.limits)

    async def claim(self, claim: Claim) -> list[Claimed]:
        """Lease what is ready now, if anything is. Uses: exchange.

        Raises NodeGone if the holder is not live or drains. If the caller is cancelled, what was claimed is given back.
        """
        check_claim(claim, self.limits)
        return (await self._desk.exchange(Exchange(claim=claim))).claimed

    async def wait_claim(self, claim: Claim, timeout: float | None = None, eager: Eager | None = None) -> list[Claimed]:
        """Lease something as soon as there is something; nothing when the time (seconds) is up.

        Those who wait are served in the order in which they came. Who is `eager` may be asked to begin before this
        returns, if the store can do that. Raises as `claim` does.
        Uses: listen, directory, exchange.
        """
        check_claim(claim, self.limits)
        if not claim.queues or claim.ids:
            raise BadInput("only a claim of queues can wait; ids are claimed at once or not", field="queues")
        return await self._line.wait(claim, timeout, eager)

    async def settle(self, items: Sequence[tuple[Claimed, Outcome]], claim: Claim | None = None) -> Settled:
        """Say how attempts ended, each by itself, and lease the next, in one step.

        A lease that has ended is in `refused` as stale: its outcome was not stored, because another may have the task.
        Uses: exchange, directory (crashes alone).
        """
        return await settle.settle(self._settling, items, claim)

    async def settle_each(
        self, items: Sequence[tuple[Claimed, Outcome, Claim]], near: Callable[[], None] | None = None
    ) -> list[Settled | GangerError]:
        """As `settle` for several holders at once, each with its one attempt and claim; a reply or an error for each.

        They share a step where the store can do that. `near` may be called, once, when that step is made and about to
        be safe: whoever has something to prepare does it while the disk is at work. Uses: exchange, directory (crashes
        alone).
        """
        return await settle.settle_each(self._settling, items, near)

    async def settle_leases(self, items: Sequence[tuple[Lease, Outcome]]) -> Settled:
        """Settle for one who knows no more than leases. Uses: tasks (failures), directory, exchange."""
        return await settle.settle_leases(self._settling, items)

    async def settle_by_lease(self, lease: Lease, outcome: Outcome) -> None:
        """Settle one, or raise StaleLease or TaskNotFound. Uses: tasks (failures), directory, exchange."""
        await settle.settle_by_lease(self._settling, lease, outcome)

    async def release(self, lease: Lease, delay: int = 0, priority: int | None = None) -> None:
        """Give a task back untried, after a delay if that is given; StaleLease if it is lost. Uses: exchange."""
        await settle.settle_by_lease(self._settling, lease, Release(delay, priority))

    async def conclude(self, task: TaskId, branch: bool, failed: str | None = None) -> None:
        """End a condition: it chose a branch, or failed for this reason. Uses: tasks, exchange."""
        await settle.conclude(self._settling, task, branch, failed)

    async def start(self, leases: Sequence[Lease]) -> list[tuple[int, str]]:
        """Say that claimed tasks run now; returns the refused by index and verdict. Uses: exchange."""
        return await renew.start(self.store, leases, self.limits)

    async def renew(self, leases: Sequence[Lease], length: int | None = None) -> list[tuple[int, str]]:
        """More time for touched leases; returns the refused by index and verdict. Uses: write."""
        return await renew.renew(self.store, leases, length, self.limits)

    async def progress(self, lease: Lease, percent: float | None, info: str | None = None) -> None:
        """Say how far the attempt is; StaleLease if the lease is lost. Uses: write."""
        await renew.progress(self.store, lease, percent, info, self.limits)

    async def write(self, notes: Sequence[Note]) -> list[tuple[int, str]]:
        """Store many notes of holders at once, as they are; returns the refused by index and verdict. Uses: write."""
        return await self.store.write(tuple(notes))

    async def keep(self, content: AsyncIterator[bytes]) -> bytes | BlobRef:
        """Take content in before anything names it: what is small is given back, what is large is safe as a blob.

        It is never whole in memory. What nobody names within a day is collected. The store is not asked.
        Raises StoreFull, PayloadTooLarge where there is no place for blobs, and whatever the content raises.
        """
        return await output.keep(self._places, content)

    async def put_data(
        self, writer: Lease | TaskId, key: str, content: output.Content, *, only_if_unset: bool = False
    ) -> None:
        """Keep a named value of a task: its holder's while it runs, an operator's (by id) while it is not final.

        Large content goes to the blobs and is safe there before the store names it. Uses: write.
        Raises StaleLease, TaskNotFound, WrongStatus, PayloadTooLarge.
        """
        note = Note(writer.task, writer.fence) if isinstance(writer, Lease) else Note(writer, Fence(0))
        await output.put_data(self._places, note, key, content, only_if_unset)

    async def put_kin_data(
        self, attempt: Attempt, task: TaskId, key: str, content: output.Content, *, only_if_unset: bool = False
    ) -> None:
        """Keep a named value of a parent or a child of an attempt, ended or not. Uses: look, tasks, edit.

        Raises StaleLease, NotAllowed if it is of another family, PayloadTooLarge.
        """
        datum = (await output.make_datum(self._places, key, content))._replace(only_if_unset=only_if_unset)
        await self.edit([Edit(task, datum=datum)], under=attempt)

    async def append_output(self, lease: Lease, stream: str, start: int, body: bytes) -> None:
        """Keep output from an offset on; sending it again changes nothing. StaleLease if lost. Uses: write."""
        await output.append_output(self._places, lease, stream, start, body)

    async def read_data(self, task: TaskId, key: str, start: int = 0, most: int = 65_536) -> Part:
        """A part of a named value, wherever it lies; a key that is not there has size 0. Uses: value."""
        return await output.read(self._places, Wish(task, key, start, most))

    async def read_page(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, version: str | None = None
    ) -> paging.DataPage:
        """A part of a named value with the value's version; StalePage if it is not the one given. Uses: value."""
        return await paging.read_page(self._places, Wish(task, key, start, most), version)

    async def read_output(
        self, task: TaskId, stream: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Part:
        """A part of one output stream, of that attempt or the newest that has some. Uses: value."""
        return await output.read(self._places, Wish(task, f"{OUTPUT}{stream}", start, most, fence))

    def follow_output(
        self, task: TaskId, streams: Sequence[str] = live.SAID, start: int = 0, fence: Fence | None = None
    ) -> AsyncGenerator[live.Heard, None]:
        """Output as it comes, of the newest attempt and those after it, or of one, until the task has ended.

        Uses: listen, write, tasks, value. Whoever reads slowly slows nobody. Use `contextlib.aclosing` to leave early.
        Raises TaskNotFound, BadName.
        """
        return live.follow_output(self._places, live.Wanted(task, streams, start, fence))

    async def hold(self, ids: Sequence[TaskId], *, by: str, reason: str | None = None) -> Moved:
        """Set waiting tasks aside until somebody kicks them. Uses: exchange."""
        return await operate.hold(self.store, ids, reason, by, self.limits)

    async def kick(self, ids: Sequence[TaskId], *, by: str) -> Moved:
        """Make held or delayed tasks ready. Uses: exchange."""
        return await operate.kick(self.store, ids, by)

    async def kick_queue(self, queue: QueueId, most: int, *, by: str) -> Moved:
        """Kick so many of a queue: held ones, or delayed ones if none is held. Uses: find, exchange."""
        return await operate.kick_queue(self.store, queue, most, by, self.limits)

    async def cancel(self, ids: Sequence[TaskId], *, by: str) -> Moved:
        """End tasks that wait; a group ends with all its members. Uses: tasks, exchange, find, edit."""
        return await operate.cancel(self.store, ids, by)

    async def kill(self, ids: Sequence[TaskId], *, by: str) -> Moved:
        """Have running tasks killed, and waiting ones cancelled; groups with their members. Uses: tasks, edit, find."""
        return await operate.kill(self.store, ids, by)

    async def orphan(self, node: str, *, by: str, force: bool = False) -> Moved:
        """End the tasks of a node that is no more as orphaned, also where nobody ends the leases that it has.

        NodeNotFound, Conflict if it is here or was heard of lately; with `force` it is taken to be no more.
        Uses: directory, find, exchange.
        """
        return await operate.orphan(self.store, node, by, force=force)

    async def edit(self, edits: Sequence[Edit], *, by: str | None = None, under: Attempt | None = None) -> None:
        """Change tasks that have not started, and their graph, all or nothing.

        Uses: edit, tasks; look, directory, find (`under`).
        An operator edits `by` name, an attempt `under` its lease, which reaches its own family only (see `walls.py`).
        Raises TaskNotFound, WrongStatus, CycleFound, UnknownParent, StaleLease, NotAllowed.
        """
        if under is not None:
            await self._walls.check_edits(under, edits)
        await edit.edit(self.store, edits, self.limits, by=by, under=under)

    async def link(self, task: TaskId, parent: TaskId, on: str = "success", *, by: str) -> None:
        """Let a waiting task wait for one more parent; CycleFound if that waits for it. Uses: edit, tasks."""
        await edit.edit(self.store, [Edit(task, link=(parent, on))], self.limits, by=by)

    async def unlink(self, task: TaskId, parent: TaskId, *, by: str) -> None:
        """Let a waiting task not wait for this parent any more. Uses: edit."""
        await edit.edit(self.store, [Edit(task, unlink=parent)], self.limits, by=by)

    async def remove(self, task: TaskId, *, by: str, descendants: bool = False, kill: bool = False) -> None:
        """Take a task out of its graph; its children get its parents, or go too. WrongStatus names what runs of these.

        With `kill` that is ended first, and waited for, at most for half a minute.
        Uses: edit, tasks, find, listen, directory, events, counts, look.
        """
        if kill:
            await self.wait(await operate.kill_to_remove(self.store, task, by, descendants=descendants), _KILLING)
        await edit.edit(self.store, [Edit(task, remove=True, descendants=descendants)], self.limits, by=by)

    async def close_group(self, group: TaskId, *, by: str) -> None:
        """Say that no more members come, so that the group can end. Uses: edit."""
        await edit.edit(self.store, [Edit(group, close_group=True)], self.limits, by=by)

    async def retry_final(self, task: TaskId, *, by: str) -> TaskId:
        """Try a final task again as a new one; WrongStatus if it is not final. Uses: tasks, value, submit."""
        return await again.retry_final(self._places, task, by, self._witness)

    async def wait(self, ids: Sequence[TaskId], timeout: float | None = None, *, until_held: bool = False) -> Waited:
        """Wait until all of these have ended, or the time (seconds) is up.

        With `until_held` also until nothing goes on any more in all that is left, because of held tasks: `held` names
        them. Uses: listen, directory, events, tasks, counts, look, find.
        """
        return await self._follower.wait(inspect.check_ids(ids, self.limits), timeout, until_held=until_held)

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        """The tasks with these ids, None where there is none. Uses: tasks."""
        return await self.store.tasks(inspect.check_ids(ids, self.limits))

    async def find(self, query: Query) -> Page:
        """One page of the tasks that match. Uses: find."""
        return await inspect.find(self.store, query, self.limits)

    def walk(self, query: Query) -> AsyncGenerator[Task, None]:
        """Every task that matches, a page at a time. Uses: find."""
        return inspect.walk(self.store, query, self.limits)

    async def look(self, task: TaskId, most: int = 100) -> Look:
        """All about one task: itself, family, attempts, keys of its data; or TaskNotFound. Uses: look."""
        return await self.store.look(task, most)

    async def family(self, lease: Lease, most: int = 100) -> family.Relatives:
        """A holder's task, its parents and its children; StaleLease if the lease is lost. Uses: look, tasks."""
        return await family.read_family(self.store, lease, most)

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        """For each queue how many tasks have each status, and how often each fact was told. Uses: counts."""
        return await self.store.counts()

    async def explain(self, task: TaskId) -> explain.Why:
        """Why this task is not running: see `explain.py` for the codes.

        Uses: look, directory, tasks, counts, find, value (of conditions).
        """
        return await explain.explain(self.store, self._clock, task)

    async def readiness(self, node: str | None = None) -> list[Readiness]:
        """Is work being taken: each node that is here (or that one), and what lies ready in vain.

        Uses: directory, find, look, counts.
        """
        return await check_ready(self.store, self._clock, node)

    def subscribe(self, after: Position | None = None, wanted: Wanted = EVERYTHING) -> AsyncGenerator[Event, None]:
        """The events behind a position (None: from now on), in order, for ever. Uses: listen, directory, events.

        Resume with the position of the last event that was dealt with. Use `contextlib.aclosing` to leave early.
        """
        return follow.subscribe(self.store, after, wanted)

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        """The events behind a position that are there now, at most so many. Uses: events."""
        inspect.check_most(most, self.limits)
        return await self.store.events(after, most)

    async def verify_audit(self) -> audit.Verified:
        """Check the chain of the audit log; AuditBroken names the first line that does not fit. Uses: audit."""
        return await audit.verify(self.store)
