"""A store as a picture that can be laid on another's: ids become ordinals, and what no contract promises is left out.

Two stores that got the same requests may number their tasks, queues and nodes differently, word a reason in their own
way and cut a batch of facts into events elsewhere. Everything else must be the same.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ganger.core.event import Event, Fact
from ganger.core.ids import NodeId, Position, QueueId, TaskId
from ganger.core.node import Node
from ganger.core.state import WAITING, Status
from ganger.core.task import SOURCE, SUCCESSOR, Attempt, Claimed, Task
from ganger.engine.store import Lapsed, Query, Store

ALIKE: Final = (
    "kind", "status", "priority", "fence", "until", "key", "description", "join", "kids", "retry", "timeout", "renewal",
    "ttr", "limit_key", "requires", "kill", "attempts", "crashes", "reserves", "timeouts", "releases", "buries",
    "kicks", "percent", "info", "created", "started", "ended", "spec_size", "delay",
)  # fmt: skip
"""Fields of a task that are the same in every store."""

_PARENT: Final = re.compile(r"task \d+ [^;]*; its ")
_COUNT: Final = re.compile(r"\d+")


class Side:
    """One store, and what its numbers mean: the ordinal of each task, queue and node in the order of their making."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tasks: list[TaskId] = []
        self.queues: list[QueueId] = []
        self.nodes: list[NodeId] = []

    async def learn(self) -> int:
        """Give ordinals to tasks that the store made by itself; returns how many tasks there are."""
        known = set(self.tasks)
        self.tasks += [task.id for task in await walk(self.store) if task.id not in known]
        return len(self.tasks)

    def ordinal_of(self, task: int | None) -> int | None:
        return self.tasks.index(TaskId(task)) if task is not None and task in self.tasks else None

    async def draw(self) -> dict[str, Any]:
        """The whole store."""
        directory = await self.store.directory()
        tasks = await walk(self.store)
        present = {task.id for task in tasks}
        batches = sorted({task.batch for task in tasks if task.batch is not None})
        names = {node.identity: node.name for node in directory.nodes}
        return {
            "tasks": {self.ordinal_of(task.id): self._draw_task(task, present, batches, names) for task in tasks},
            "looks": {self.ordinal_of(task.id): await self._look(task) for task in tasks},
            "queues": [
                (queue.name, queue.policy._replace(becomes=None), queue.paused_until) for queue in directory.queues
            ],
            "nodes": [draw_node(node) for node in directory.nodes],
            "counts": await self._count(),
            "history": await self._tell(),
        }

    def _draw_task(
        self, task: Task, present: set[TaskId], batches: Sequence[int], names: dict[int, str]
    ) -> dict[str, Any]:
        drawn = {field: getattr(task, field) for field in ALIKE}
        drawn["queue"] = self.queues.index(task.queue)
        drawn["holder"] = None if task.holder is None else self.nodes.index(task.holder)
        drawn["group"] = self.ordinal_of(task.group) if task.group in present else None
        drawn["batch"] = None if task.batch is None else batches.index(task.batch)
        drawn["reason"] = say(task.reason)
        drawn["waits"] = task.waits if task.status in WAITING else None
        drawn["due"] = task.due if task.status == Status.DELAYED else None
        drawn["parked"] = task.parked if task.status == Status.QUEUED else None
        ready = task.status in (Status.QUEUED, Status.DELAYED)
        drawn["avoid"] = names.get(task.avoid, "gone") if ready and task.avoid is not None else None
        return drawn

    async def _look(self, task: Task) -> dict[str, Any]:
        look = await self.store.look(task.id)
        return {
            "parents": sorted((self.ordinal_of(parent), on) for parent, on in look.family.parents),
            "children": sorted((self.ordinal_of(child), on) for child, on in look.family.children),
            "attempts": [draw_attempt(attempt) for attempt in look.attempts],
            "data": {key: await self._draw_datum(task.id, key) for key in {*look.keys} - {"spec"}},
            "output": {stream: await self._read(task.id, f"out:{stream}") for stream in look.streams},
        }

    async def _draw_datum(self, task: TaskId, key: str) -> object:
        body, size = await self._read(task, key)
        return self.ordinal_of(int(body)) if key in (SOURCE, SUCCESSOR) else (body, size)

    async def _read(self, task: TaskId, key: str) -> tuple[bytes, int]:
        value = await self.store.value(task, key)
        return value.body or b"", value.size

    async def _count(self) -> dict[int, Any]:
        counts, told = await self.store.counts()
        return {
            self.queues.index(each.queue): (
                {int(status): n for status, n in each.by_status.items() if n},
                each.total,
                {fact: n for fact, n in sorted(told[each.queue].items()) if is_of_tasks(fact) and n},
            )
            for each in counts
        }

    async def _tell(self) -> dict[int | None, list[Any]]:
        """What was told of each task, in order. How facts are cut into events is the store's own."""
        told: dict[int | None, list[Any]] = defaultdict(list)
        for event in await self._events():
            for entry in event.entries if is_of_tasks(event.fact) else ():
                line = (str(event.fact), int(entry.status), entry.fence, say(entry.reason))
                told[self.ordinal_of(entry.task)].append(line)
        return told

    async def _events(self) -> list[Event]:
        found: list[Event] = []
        while page := await self.store.events(found[-1].position if found else Position(0), 500):
            found += page
        return found

    def draw_claimed(self, claimed: Sequence[Claimed]) -> list[Any]:
        return [
            (
                self.ordinal_of(one.id),
                one.spec,
                one.fence,
                one.until,
                one.priority,
                one.attempts,
                one.crashes,
                int(one.status),
            )
            for one in claimed
        ]

    def draw_lapsed(self, lapsed: Sequence[Lapsed]) -> list[Any]:
        return sorted((self.ordinal_of(one.task), *one[1:5], one.crashes, one.kill, one.holder) for one in lapsed)


async def walk(store: Store) -> list[Task]:
    """Every task, in the order of positions."""
    found: list[Task] = []
    query = Query(most=500)
    while True:
        page = await store.find(query)
        found += page.tasks
        if page.next is None:
            return found
        query = query._replace(after=page.next)


def is_of_tasks(fact: str) -> bool:
    """Facts about tasks; whether an edge that came or went is told as an edit is the store's own."""
    return fact in _FACTS


_FACTS: Final = frozenset(map(str, Fact)) - {
    Fact.EDITED, Fact.QUEUE_CHANGED, Fact.QUEUE_REMOVED, Fact.NODE_JOINED, Fact.NODE_LEFT, Fact.NODE_LOST,
}  # fmt: skip


def say(reason: str | None) -> str | None:
    """A reason without its wording, where a store words it: which of several lost parents it names, how it counts."""
    if reason is None:
        return None
    if _PARENT.match(reason):
        return "parent"
    counted = _COUNT.search(reason)
    return f"count {counted[0]}" if counted else reason


def draw_attempt(attempt: Attempt) -> tuple[Any, ...]:
    return attempt.fence, attempt.holder, attempt.claimed, attempt.started, attempt.ended, attempt.code, attempt.outcome


def draw_node(node: Node) -> tuple[Any, ...]:
    return node.name, str(node.state), node.until, node.lease, node.slots, node.queues, node.kinds, node.labels


def differ(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where two pictures differ, a line for each place."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            yield from differ(expected.get(key), found.get(key), f"{where}/{key}")
    elif expected != found:
        yield f"{where}: the model has {expected!r}, the store {found!r}"
