"""The store of a far engine, as much of it as the engine's own rules need on this side.

What is read comes as it is. What is written goes to the operation of the engine at the server that checks it, and not
to the store there: a client may be of anybody. The rest is decided over there (see `engine.py`) and refused here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ganger.assembly.remote.bells import RemoteBells
from ganger.assembly.remote.link import Link
from ganger.core.audit import AuditLine
from ganger.core.clock import Clock, Wall
from ganger.core.errors import BadInput, DuplicateKey, NodeGone, StoreUnavailable
from ganger.core.event import Event
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.queue import FOREVER, Counts
from ganger.core.task import NewTask, OnConflict, Task
from ganger.engine.store import (
    Capabilities,
    Configure,
    Configured,
    Directory,
    Edits,
    Exchange,
    Exchanged,
    Look,
    NodeChange,
    Note,
    Page,
    Query,
    QueueChange,
    Submission,
    Submitted,
    Tend,
    Tended,
    Value,
)
from ganger.wire.v1 import remote

LOAD: Final = 4 << 20
"""Bytes of values that are sent in one request."""

_ENVELOPE: Final = 1_000
_REFUSED = list[tuple[int, str]]


class RemoteStore:
    """A `Store` at the other end of a link. `secrets` are those of the nodes that registered here."""

    def __init__(self, link: Link, clock: Clock, draw: Callable[[], str]) -> None:
        self.link = link
        self.secrets: dict[NodeId, str] = {}
        self._clock = clock
        self._draw = draw
        self._bells = RemoteBells(link)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, shared=True, distant=True)

    async def close(self) -> None:
        await self._bells.close()

    def name_secret(self, node: NodeId) -> dict[str, str]:
        """The header with which a node speaks; NodeGone if it did not register here."""
        secret = self.secrets.get(node)
        if secret is None:
            raise NodeGone(f"node {node} did not register here", node=node)
        return {remote.NODE_HEADER: secret}

    async def submit(self, request: Submission) -> Submitted:
        """Tasks without a key get one, so that they can be sent again when the answer is lost, and are stored once."""
        self._check_under(request.under)
        data = [(index, datum.key, datum.value or b"") for index, datum in request.data]
        mark = self._draw()
        tasks = [_name(task, mark, index) for index, task in enumerate(request.tasks)]
        sent = remote.SubmitIn(tasks, data, request.act)
        submitted = await self._send(sent)
        named = {index for index, task in enumerate(request.tasks) if task.key is None}
        return Submitted(submitted.ids, [index for index in submitted.existing if index not in named])

    def _check_under(self, lease: tuple[TaskId, Fence] | None) -> None:
        """What is done under a lease is done with its token, by which the server knows it."""
        if lease is not None and not self.link.speaks_for(*lease):
            raise refuse("to act under a lease without its token")

    async def _send(self, sent: remote.SubmitIn) -> Submitted:
        doubts: list[StoreUnavailable] = []

        async def send() -> Submitted:
            try:
                return await self.link.tell("/v1/engine/submit", Submitted, sent)
            except StoreUnavailable as error:
                doubts.extend([] if error.fields.get("unsent") else [error])
                raise
            except DuplicateKey as error:
                if not doubts:
                    raise
                said = "an answer to this submission was lost before, so the task that has the key may be this very one"
                raise DuplicateKey(f"{error.message} ({said})", **error.fields) from None

        return await self.link.patiently(send)

    async def exchange(self, request: Exchange) -> Exchanged:
        raise refuse("to move tasks of a store")

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        """Notes of a holder, or an operator's values, each by itself."""
        if any(note.fence for note in notes):
            return await self._write_held(notes)
        for note in notes:
            if note.datum is None or note.datum.value is None:
                raise refuse("to write this note")
            datum = remote.DatumIn(note.task, note.datum.key, note.datum.value, note.datum.only_if_unset)
            await self.link.tell_only("/v1/engine/data", datum)
        return []

    async def _write_held(self, notes: Sequence[Note]) -> list[tuple[int, str]]:
        """In as many requests as it takes: output of many attempts may be more than one body may have."""
        node = next(reversed(self.secrets), NodeId(0))
        headers, refused = self.name_secret(node), []
        for start, end in split(list(map(_weigh, notes))):
            told = await self.link.tell(f"/v1/workers/{node}/notes", _REFUSED, notes[start:end], headers=headers)
            refused += [(start + index, verdict) for index, verdict in told]
        return refused

    async def edit(self, request: Edits) -> None:
        self._check_under(request.under)
        await self.link.tell_only("/v1/engine/edits", request.edits)

    async def configure(self, request: Configure) -> Configured:
        if request.queue is not None:
            return await self.link.tell("/v1/engine/queue", Configured, self._relate(request.queue))
        if request.node is None:
            raise BadInput("a change names a queue or a node")
        return await self._change_node(request.node)

    def _relate(self, change: QueueChange) -> QueueChange:
        """With the length of a pause for its end: the wall clock over there may be another."""
        if change.paused_until is None or change.paused_until in (0, FOREVER):
            return change
        return change._replace(paused_until=Wall(max(1, change.paused_until - self._clock.wall())))

    async def _change_node(self, change: NodeChange) -> Configured:
        if change.register is not None:
            return await self._register(change.register)
        if change.drain or change.resume:
            return await self.link.tell("/v1/engine/drain", Configured, remote.DrainIn(change.id, change.resume))
        if change.limit is not None:
            raise refuse("limiting a node")
        headers, at = {remote.NODE_HEADER: change.token}, f"/v1/workers/{change.id}"
        if change.leave:
            await self.link.tell_only(f"{at}/leave", headers=headers)
            return await self._find_left(change.id)
        return await self.link.tell(
            f"{at}/beat", Configured, remote.BeatIn(change.lease, change.vitals), headers=headers
        )

    async def _register(self, said: Registration) -> Configured:
        configured = await self.link.tell("/v1/workers", Configured, said)
        if configured.node is not None:
            self.secrets.pop(configured.node.id, None)
            self.secrets[configured.node.id] = said.token
        return configured

    async def _find_left(self, node: NodeId) -> Configured:
        self.secrets.pop(node, None)
        found = (one for one in (await self.directory()).nodes if one.id == node)
        return Configured(node=next(found, None))

    async def tend(self, step: Tend) -> Tended:
        raise refuse("upkeep")

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        found: list[Task | None] = []
        for start in range(0, len(ids), remote.MOST_IDS):
            asked = remote.TasksAsk([int(one) for one in ids[start : start + remote.MOST_IDS]])
            found += await self.link.ask("/v1/engine/tasks", list[Task | None], asked)
        return found

    async def find(self, query: Query) -> Page:
        return await self.link.ask("/v1/engine/find", Page, query)

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return await self.link.ask("/v1/engine/look", Look, remote.LookAsk(task, most))

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        """All that is asked for, in as many requests as it takes."""
        body, size, ended = b"", 0, True
        while len(body) < most:
            asked = remote.ValueAsk(task, key, start + len(body), min(most - len(body), remote.LARGEST_PIECE), fence)
            piece, headers = await self.link.ask_bytes("/v1/engine/value", asked)
            size, ended = int(headers[remote.SIZE_HEADER]), headers[remote.ENDED_HEADER] == "1"
            body += piece
            if not piece or start + len(body) >= size:
                break
        return Value(body, None, start, size, ended)

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        return await self.link.ask("/v1/engine/events", list[Event], remote.EventsAsk(after, most))

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return await self.link.ask("/v1/engine/counts", tuple[list[Counts], dict[QueueId, dict[str, int]]])

    async def directory(self) -> Directory:
        return await self.link.ask("/v1/engine/directory", Directory)

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        raise refuse("to read the audit log")

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        return self._bells.listen(topics, told)


def split(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From where to where what has these sizes goes together, so that no request has much more than `LOAD`."""
    start = load = 0
    for place, size in enumerate(sizes):
        if place > start and load + size > LOAD:
            yield start, place
            start, load = place, 0
        load += size
    if start < len(sizes):
        yield start, len(sizes)


def _weigh(note: Note) -> int:
    body = note.chunk.body if note.chunk is not None else note.datum.value if note.datum is not None else None
    return _ENVELOPE + len(body or b"")


def refuse(what: str) -> BadInput:
    return BadInput(f"{what} is not for those who reach a server: do it on the server's machine, with its store")


def _name(task: NewTask, mark: str, index: int) -> NewTask:
    if task.key is not None:
        return task
    return task._replace(key=f"sent:{mark}:{index}", on_conflict=OnConflict.RETURN)
