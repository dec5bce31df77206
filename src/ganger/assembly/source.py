"""The work source of a node that has the engine in its own process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

from ganger.core.clock import Clock, Moment
from ganger.core.errors import BadInput, PayloadTooLarge
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lease import Lease, trusted_until
from ganger.core.node import DEFAULT_LEASE, PATIENT_LEASE, NodeState, Registration, Vitals
from ganger.core.outcome import Fail, Outcome, Succeed
from ganger.core.queue import Queue
from ganger.core.state import LEASED
from ganger.core.task import PLUGIN, Claimed, Eager, Task
from ganger.engine.blob import Blobs
from ganger.engine.engine import Engine
from ganger.engine.settle import Settled
from ganger.engine.store import (
    EVENTS_TOPIC,
    FOLLOWED_TOPIC,
    NODES_TOPIC,
    QUEUES_TOPIC,
    RESET_TOPIC,
    Capabilities,
    Chunk,
    Claim,
    Datum,
    Note,
    Query,
)
from ganger.node.source import Beaten, Finished, Joined, Taken

STREAMS: Final = frozenset({"stdout", "stderr", "mixedout", "log"})
"""Data of an attempt that is output: it is stored as such, by attempt, and ends with the retention of output."""

RESULT: Final = "result"
_NOBODY: Final = NodeId(0)


def choose_lease(store: Capabilities, asked: int | None = None, *, has_plugins: bool = False) -> int:
    """How long a node on such a store may be silent; whoever asks for a length gets that.

    A node that works beside strangers holds threads that they wait for: if it dies they must not wait long.
    """
    if asked is not None:
        return asked
    is_beside = store.foreign_writers and has_plugins
    return PATIENT_LEASE if store.distant and not is_beside else DEFAULT_LEASE


def has_no_plugins(name: str) -> bool:
    """A node without plugins ignores their queues."""
    return False


class EngineSource:
    """Gives a node the tasks of an engine. Used by one node.

    `has_plugin` says whether a plugin is here: queues with one that is not are ignored. Queues that come, go or change
    are noticed while the node waits.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        blobs: Blobs | None = None,
        ignore: Collection[str] = (),
        has_plugin: Callable[[str], bool] = has_no_plugins,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._blobs = blobs
        self._ignore = frozenset(ignore)
        self._has_plugin = has_plugin
        self._said = Registration("", "")
        self._kinds: frozenset[str] = frozenset()
        self._named: frozenset[str | None] | None = None
        self._unhear: Callable[[], None] | None = None
        self._waiting: asyncio.Timeout | None = None

    async def join(self, said: Registration) -> Joined:
        asked = self._clock.now()
        self._said = said
        await self._learn_kinds()
        node = await self._engine.nodes.register(self._registration())
        return Joined(node.id, node.lease, trusted_until(asked, node.lease))

    def _registration(self) -> Registration:
        kinds = None if self._said.kinds is None else tuple(sorted({*self._said.kinds, *self._kinds}))
        return self._said._replace(kinds=kinds)

    async def _learn_kinds(self) -> bool:
        """Find the plugins that queues name, if those are others than at the last look; True if more are here now."""
        named = frozenset(queue.policy.plugin for queue in await self._engine.queues.all()) - {None}
        if named == self._named:
            return False
        before, self._named = self._kinds, named
        self._kinds = frozenset(f"{PLUGIN}{name}" for name in named if name is not None and self._has_plugin(name))
        return self._kinds != before

    async def beat(self, node: NodeId, token: str, lease: int | None = None, vitals: Vitals | None = None) -> Beaten:
        asked = self._clock.now()
        beaten = await self._engine.nodes.beat(node, token, lease, vitals)
        length = beaten.node.lease if lease is None else lease
        draining = beaten.node.state == NodeState.DRAINING
        return Beaten(trusted_until(asked, length), beaten.kills, draining, beaten.followed)

    async def leave(self, node: NodeId, token: str) -> None:
        if self._unhear is not None:
            self._unhear()
            self._unhear = None
        await self._engine.nodes.leave(node, token)

    async def take(self, node: NodeId, most: int, *, start: bool, finished: Sequence[Finished] = ()) -> Taken:
        await self._write_data(finished)
        queues = await self._queues() if most else ()
        claim = self._claim(node, queues, most, start) if queues else None
        items = [(one.claimed, one.outcome) for one in finished]
        for index in self._find_large(items):
            items[index] = finished[index].claimed, await self._slim(finished[index])
        settled = await self._settle(items, claim)
        return Taken(settled.claimed, [index for index, _ in settled.refused])

    def _claim(self, node: NodeId, queues: tuple[QueueId, ...], most: int, start: bool) -> Claim:
        return Claim(node, queues, min(most, self._engine.limits.claim), start=start)

    async def _settle(self, items: Sequence[tuple[Claimed, Outcome]], claim: Claim | None) -> Settled:
        try:
            return await self._engine.settle(items, claim)
        except BadInput:
            return await self._settle_each(items)

    async def _settle_each(self, items: Sequence[tuple[Claimed, Outcome]]) -> Settled:
        """One of them cannot be stored as it is: the others must not suffer for it, and it fails for that reason."""
        refused: list[tuple[int, str]] = []
        for index, (claimed, outcome) in enumerate(items):
            try:
                settled = await self._engine.settle([(claimed, outcome)])
            except BadInput as error:
                settled = await self._engine.settle([(claimed, Fail(reason=str(error), again=False))])
            refused += [(index, verdict) for _, verdict in settled.refused]
        return Settled(refused, [])

    def _find_large(self, items: Sequence[tuple[Claimed, Outcome]]) -> list[int]:
        """Which have a result that is too large to lie in the store."""
        inline = self._engine.limits.inline
        return [
            index
            for index, (_, outcome) in enumerate(items)
            if isinstance(outcome, Succeed) and outcome.result and len(outcome.result) > inline
        ]

    async def _slim(self, one: Finished) -> Outcome:
        """The outcome without its result, which is kept as a blob before."""
        result = one.outcome.result if isinstance(one.outcome, Succeed) else None
        try:
            await self._engine.put_data(one.claimed.lease, RESULT, result or b"")
        except PayloadTooLarge as error:
            return Fail(reason=f"its result cannot be kept: {error}", again=False)
        return Succeed()

    async def _write_data(self, finished: Sequence[Finished]) -> None:
        """What is refused here is refused at the settle too, and told there."""
        notes = [note for one in finished if one.data for note in _notes(one)]
        if notes:
            await self._engine.write(notes)

    async def wait(self, node: NodeId, most: int, *, start: bool, eager: Eager | None = None) -> Sequence[Claimed]:
        if self._unhear is None:
            self._unhear = self._engine.store.listen((QUEUES_TOPIC, RESET_TOPIC), self._hear_queues)
        # Whatever changes from here on ends the wait.
        try:
            async with asyncio.timeout(None) as self._waiting:
                if await self._learn_kinds():
                    await self._engine.nodes.register(self._registration())
                queues = await self._queues()
                if queues:
                    return await self._engine.wait_claim(self._claim(node, queues, most, start), eager=eager)
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            pass
        finally:
            self._waiting = None
        return ()

    def _hear_queues(self, _: str) -> None:
        # A plugin may have come with whatever changed.
        self._named = None
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _queues(self) -> tuple[QueueId, ...]:
        return tuple(queue.id for queue in await self._engine.queues.all() if self._takes(queue))

    def _takes(self, queue: Queue) -> bool:
        said, plugin = self._said, queue.policy.plugin
        wanted = queue.name not in self._ignore if said.queues is None else queue.name in said.queues
        if not wanted:
            return False
        return queue.takes_node(said.name) and (plugin is None or f"{PLUGIN}{plugin}" in self._kinds)

    async def started(self, leases: Sequence[Lease]) -> Sequence[int]:
        return [index for index, _ in await self._engine.start(leases)]

    async def spec(self, task: TaskId) -> bytes:
        return (await self._engine.read_data(task, "spec", 0, self._engine.limits.payload)).body

    async def result(self, task: TaskId) -> bytes:
        """The result of a task that has ended; empty if it has none."""
        return (await self._engine.read_data(task, RESULT, 0, 1 << 30)).body

    async def progress(self, lease: Lease, percent: float | None, info: str | None) -> None:
        await self._engine.progress(lease, percent, info)

    async def ship(self, lease: Lease, stream: str, start: int, body: bytes) -> None:
        await self._engine.append_output(lease, stream, start, body)

    async def shipped(self, lease: Lease) -> Mapping[str, int]:
        streams = (await self._engine.look(lease.task, 1)).streams
        sizes = {one: (await self._engine.read_output(lease.task, one, 0, 1, lease.fence)).size for one in streams}
        return {stream: size for stream, size in sizes.items() if size}

    async def keep(self, lease: Lease, key: str, body: AsyncIterator[bytes], start: int = 0) -> None:
        if key not in STREAMS:
            await self._engine.put_data(lease, key, body)
        elif self._blobs is None or await self._is_shown_to_strangers(lease.task):
            await self._append(lease, key, body, start)
        else:
            ref = await self._blobs.put(body)
            chunk = Chunk(key, start, blob=ref.hash, size=ref.size)
            await self._engine.write([Note(lease.task, lease.fence, chunk=chunk)])

    async def _is_shown_to_strangers(self, task: TaskId) -> bool:
        """Output of plugins is read by strangers in the store itself, where they write too: there it must lie."""
        if not self._engine.store.capabilities.foreign_writers:
            return False
        (found,) = await self._engine.tasks([task])
        return found is not None and found.kind.startswith(PLUGIN)

    async def _append(self, lease: Lease, stream: str, body: AsyncIterator[bytes], start: int) -> None:
        async for piece in body:
            await self._engine.append_output(lease, stream, start, piece)
            start += len(piece)

    async def touch(self, leases: Sequence[Lease], length: int | None = None) -> Sequence[Moment | None]:
        refused = {index for index, _ in await self._engine.renew(leases, length)}
        tasks = await self._engine.tasks([lease.task for lease in leases])
        return [
            None if index in refused or task is None or task.fence != lease.fence else task.until
            for index, (lease, task) in enumerate(zip(leases, tasks, strict=True))
        ]

    def hear_followers(self, told: Callable[[], None]) -> Callable[[], None]:
        return self._engine.store.listen((FOLLOWED_TOPIC,), lambda _: told())

    async def held(self, node: NodeId) -> Sequence[Claimed]:
        query = Query(holder=node, statuses=tuple(sorted(int(one) for one in LEASED)), most=1_000)
        retries = {queue.id: queue.policy.retry for queue in await self._engine.queues.all()}
        return [_claimed(task, retries) async for task in self._engine.walk(query)]

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        return self._engine.store.listen((EVENTS_TOPIC,), lambda _: told())

    def hear_nodes(self, told: Callable[[], None]) -> Callable[[], None]:
        return self._engine.store.listen((NODES_TOPIC,), lambda _: told())


def _notes(one: Finished) -> list[Note]:
    lease = one.claimed.lease
    # The result of a success is stored by its own move.
    data = {key: body for key, body in one.data.items() if key != RESULT or not isinstance(one.outcome, Succeed)}
    return [_note(lease, key, body) for key, body in data.items()]


def _note(lease: Lease, key: str, body: bytes) -> Note:
    if key in STREAMS:
        return Note(lease.task, lease.fence, chunk=Chunk(key, 0, body, size=len(body)))
    return Note(lease.task, lease.fence, datum=Datum(key, body, size=len(body)))


def _claimed(task: Task, retries: Mapping[QueueId, str]) -> Claimed:
    return Claimed(
        task.id, task.queue, task.kind, None, task.fence, task.holder or _NOBODY, task.until, task.priority,
        task.attempts, task.crashes, task.retry or retries.get(task.queue, ""), task.timeout, task.status,
    )  # fmt: skip
