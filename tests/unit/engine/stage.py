"""A stage for tests of the engine: a memory store, a clock in the test's hands, a queue and a node."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from ganger.core.clock import Clock
from ganger.core.ids import QueueId, TaskId
from ganger.core.node import Node, Registration
from ganger.core.queue import Policy, Queue
from ganger.core.task import Claimed, Kind, NewTask, Task
from ganger.engine.engine import Engine
from ganger.engine.store import Claim, Store, Submission, Submitted
from ganger.engine.stores.memory import MemoryStore
from ganger.testing.clock import FakeClock, SeededEntropy

DEADLINE = 10.0


class Recording:
    """A store that counts what it is asked, and can be told to fail, to wait, or to wake nobody.

    A door keeps a question from being asked, a gate keeps the answer back.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()
        self.asking: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.doors: dict[str, asyncio.Event] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.entered = asyncio.Event()
        self.faults: dict[str, Exception] = {}
        self.deaf = False
        self.listening: Counter[str] = Counter()
        self._told: dict[Callable[[str], None], set[str]] = {}

    def submit_now(self, request: Submission) -> Submitted:
        self.asked["submit"] += 1
        return asyncio.run(self._store.submit(request))

    def post_now(self, request: Submission) -> Callable[[], Submitted]:
        return partial(self.submit_now, request)

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        wanted = set(topics)
        self._told.setdefault(told, set()).update(wanted)
        self.listening.update(wanted)
        unlisten = self._store.listen(wanted, lambda topic: None if self.deaf else told(topic))

        def stop() -> None:
            self.listening.subtract(wanted)
            unlisten()

        return stop

    def reset(self) -> None:
        """What a store tells when wake-ups may have been lost."""
        self.deaf = False
        for told in [told for told, topics in self._told.items() if "reset" in topics]:
            told("reset")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        async def ask(*arguments: Any, **named: Any) -> Any:
            self.asked[name] += 1
            self.asking[name] += 1
            self.most_at_once[name] = max(self.most_at_once[name], self.asking[name])
            try:
                return await self._ask(name, found, *arguments, **named)
            finally:
                self.asking[name] -= 1

        return ask

    async def _ask(self, name: str, found: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        # A real store makes its caller wait; a memory store alone would hide what happens meanwhile.
        await asyncio.sleep(0)
        if name in self.doors:
            self.entered.set()
            await self.doors[name].wait()
        if name in self.faults:
            raise self.faults[name]
        reply = await found(*arguments, **named)
        if name in self.gates:
            self.entered.set()
            await self.gates[name].wait()
        return reply


class Stage:
    """An engine over a memory store, with what nearly every test needs."""

    def __init__(self, clock: Clock | None = None, store: Store | None = None, **options: Any) -> None:
        self.fake = FakeClock()
        self.clock: Clock = clock or self.fake
        self.memory = store or MemoryStore(self.clock, SeededEntropy(1))
        self.store = Recording(self.memory)
        self.engine = Engine(self.store, self.clock, SeededEntropy(2), **options)
        self.queue: Queue
        self.node: Node

    async def __aenter__(self) -> "Stage":
        self.queue = await self.engine.queues.create("mail", by="test")
        self.node = await self.join("ada")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.close()

    async def join(self, name: str, **said: Any) -> Node:
        return await self.engine.nodes.register(Registration(name, f"token of {name}", **said))

    async def set_policy(self, **fields: Any) -> None:
        self.queue = await self.engine.queues.change(self.queue.id, Policy(**fields), by="test")

    def task(self, kind: str = Kind.FUNCTION, **fields: Any) -> NewTask:
        return NewTask(fields.pop("queue", self.queue.id), kind, **fields)

    async def submit(self, *tasks: NewTask) -> list[TaskId]:
        return (await self.engine.submit(tasks)).ids

    async def submit_many(self, count: int, **fields: Any) -> list[TaskId]:
        return await self.submit(*(self.task(**fields) for _ in range(count)))

    def ask(self, most: int = 1, node: Node | None = None, **fields: Any) -> Claim:
        return Claim((node or self.node).id, fields.pop("queues", (self.queue.id,)), most, **fields)

    async def take(self, most: int = 1, node: Node | None = None, **fields: Any) -> list[Claimed]:
        return await self.engine.claim(self.ask(most, node, **fields))

    async def take_one(self, node: Node | None = None, **fields: Any) -> Claimed:
        (claimed,) = await self.take(1, node, **fields)
        return claimed

    async def get(self, task: TaskId) -> Task:
        (found,) = await self.engine.tasks([task])
        assert found is not None
        return found

    async def status(self, task: TaskId) -> int:
        return (await self.get(task)).status

    async def audit_actions(self) -> list[str]:
        return [line.action for line in await self.memory.audit(0)]  # type: ignore[arg-type]


def play(scenario: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    """Run a scenario on a fresh stage, within a deadline."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE), Stage(**options) as stage:
            await scenario(stage)

    asyncio.run(run())


async def settle_down(turns: int = 50) -> None:
    """Let everything that can go on go on."""
    for _ in range(turns):
        await asyncio.sleep(0)


OTHER_QUEUE = QueueId(999)
