"""The memory store: naive, and the model of what every store does.

Each writing operation is one step that runs without waiting for anything, so nothing comes between its parts; if it
raises, what it wrote is taken back. Nothing survives the process.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ganger.core.audit import AuditLine
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadInput
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.task import Task
from ganger.engine.store import (
    Capabilities,
    Configure,
    Configured,
    Directory,
    Edits,
    Exchange,
    Exchanged,
    Look,
    Note,
    Page,
    Query,
    Submission,
    Submitted,
    Tend,
    Tended,
    Value,
)
from ganger.engine.stores.memory import reads
from ganger.engine.stores.memory.edits import edit
from ganger.engine.stores.memory.exchange import exchange
from ganger.engine.stores.memory.nodes import configure_node
from ganger.engine.stores.memory.notes import write
from ganger.engine.stores.memory.queues import configure_queue
from ganger.engine.stores.memory.step import Step
from ganger.engine.stores.memory.submit import submit
from ganger.engine.stores.memory.tables import Tables
from ganger.engine.stores.memory.upkeep import tend

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Listener = tuple[frozenset[str], Callable[[str], None]]


class MemoryStore:
    """A `Store` for tests and for work that nobody will miss. It belongs to one event loop at a time."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._tables = Tables()
        self._listeners: dict[int, Listener] = {}
        self._listened = 0
        self._tag = int.from_bytes(entropy.token(8)) >> 1

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, shared=False)

    async def submit(self, request: Submission) -> Submitted:
        return self._run(submit, request)

    async def exchange(self, request: Exchange) -> Exchanged:
        return self._run(exchange, request)

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        return self._run(write, notes)

    async def edit(self, request: Edits) -> None:
        self._run(edit, request)

    async def configure(self, request: Configure) -> Configured:
        return self._run(_configure, request)

    async def tend(self, step: Tend) -> Tended:
        return self._run(tend, step)

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return reads.tasks(self._tables, ids)

    async def find(self, query: Query) -> Page:
        return reads.find(self._tables, query)

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return reads.look(self._tables, task, most)

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        return reads.value(self._tables, task, key, reads.Part(start, most, fence))

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        return reads.events(self._tables, after, most)

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return reads.counts(self._tables)

    async def directory(self) -> Directory:
        queues = [self._tables.queues[queue].queue for queue in sorted(self._tables.queues)]
        nodes = [self._tables.nodes[node].node for node in sorted(self._tables.nodes)]
        return Directory(queues, nodes, self._tag, Position(self._tables.last("event")))

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        last = min(self._tables.last("audit"), after + most)
        return [self._tables.audit[Position(position)] for position in range(max(0, after) + 1, last + 1)]

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        self._listened += 1
        number = self._listened
        self._listeners[number] = (frozenset(topics), told)
        return lambda: self._unlisten(number)

    def _unlisten(self, number: int) -> None:
        self._listeners.pop(number, None)

    def _run(self, work: Callable[[Step, Request], Reply], request: Request) -> Reply:
        """One step: all of it is kept, or nothing."""
        journal = self._tables.journal
        step = Step(self._tables, self._clock.now(), self._clock.wall(), self._clock.boot_id())
        try:
            reply = work(step, request)
            step.finish()
        except BaseException:
            journal.take_back()
            raise
        journal.keep()
        self._tell(step.topics)
        return reply

    def _tell(self, topics: Iterable[str]) -> None:
        """Listeners are told when the operation is over: none of them can come into the middle of it."""
        loop = asyncio.get_running_loop()
        for topic in topics:
            for number, (wanted, _) in self._listeners.items():
                if topic in wanted:
                    loop.call_soon(self._tell_one, number, topic)

    def _tell_one(self, number: int, topic: str) -> None:
        if number in self._listeners:
            self._listeners[number][1](topic)


def _configure(step: Step, request: Configure) -> Configured:
    if request.queue is not None:
        configured = configure_queue(step, request.queue)
    elif request.node is not None:
        configured = configure_node(step, request.node, operator=request.act is not None)
    else:
        raise BadInput("name a queue or a node to configure")
    step.audit(request.act)
    return configured
