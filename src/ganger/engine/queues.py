"""Queues: made, changed, paused, removed, and found by name.

Whoever asks for a queue by name is answered from memory; a wake-up of the store says when that memory is old. A name
that is not known is always looked for in the store before it is refused. Names need not be unique: a name with two
bearers is refused with both ids, never guessed.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ganger.core import names
from ganger.core.audit import Act
from ganger.core.clock import Clock, Wall
from ganger.core.errors import QueueAmbiguous, QueueInUse, QueueNotFound
from ganger.core.ids import QueueId
from ganger.core.queue import FOREVER, Policy, Queue, check_policy
from ganger.engine.audit import act
from ganger.engine.checks import check_delay, check_retry
from ganger.engine.emptying import empty, may_empty
from ganger.engine.limits import Limits
from ganger.engine.store import QUEUES_TOPIC, RESET_TOPIC, Configure, QueueChange, Store

PLAIN: Final = Policy()


class Queues:
    """The queues of one store. Each change names who made it (`by`) and is in the audit log in the same step."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._known: Mapping[QueueId, Queue] | None = None
        self._named: Mapping[str, Queue] = {}
        self._changes = 0
        self._unlisten = store.listen((QUEUES_TOPIC, RESET_TOPIC), self._forget)

    def _forget(self, _: str = "") -> None:
        self._known, self._named = None, {}
        self._changes += 1

    def close(self) -> None:
        self._unlisten()

    def peek(self, queue: QueueId) -> Queue | None:
        """The queue as it is remembered; None if it is not, or if the memory is old."""
        return None if self._known is None else self._known.get(queue)

    def peek_named(self, name: str) -> Queue | None:
        """The one queue of this name as it is remembered, asked from any thread; None if none or several are."""
        return self._named.get(name)

    async def all(self) -> list[Queue]:
        """Every queue, by id. Uses: directory."""
        return list((await self._load()).values())

    async def _load(self) -> Mapping[QueueId, Queue]:
        if self._known is not None:
            return self._known
        changes = self._changes
        found = {queue.id: queue for queue in (await self._store.directory()).queues}
        if changes == self._changes:
            self._known = found
            bearers = Counter(queue.name for queue in found.values())
            self._named = {queue.name: queue for queue in found.values() if bearers[queue.name] == 1}
        return found

    async def get(self, queue: QueueId) -> Queue:
        """The queue with this id, or QueueNotFound. Uses: directory."""
        found = (await self._load()).get(queue) or (await self._reload()).get(queue)
        if found is None:
            raise QueueNotFound(f"there is no queue {queue}; create it first", queue=queue)
        return found

    async def _reload(self) -> Mapping[QueueId, Queue]:
        self._forget()
        return await self._load()

    async def named(self, name: str) -> Queue:
        """The one queue of this name; QueueNotFound if none bears it, QueueAmbiguous if several do. Uses: directory."""
        found = self._bearers(await self._load(), name) or self._bearers(await self._reload(), name)
        if not found:
            raise QueueNotFound(f"no queue is called {name!r:.80}; create it first", name=name)
        if len(found) > 1:
            ids = [int(queue.id) for queue in found]
            bearers = ", ".join(map(str, ids))
            raise QueueAmbiguous(f"queues {bearers} are all called {name!r}: use an id, or rename one", ids=ids)
        return found[0]

    @staticmethod
    def _bearers(queues: Mapping[QueueId, Queue], name: str) -> list[Queue]:
        return [queue for queue in queues.values() if queue.name == name]

    async def create(self, name: str, policy: Policy = PLAIN, *, by: str) -> Queue:
        """Make a queue, even if another bears the name. Uses: directory, configure."""
        names.check("queue", name)
        await self._check(policy)
        done = act(by, "queue.create", name=name)
        return await self._configure(QueueChange(name=name, policy=policy), done)

    async def ensure(self, name: str, policy: Policy = PLAIN, *, by: str) -> Queue:
        """The queue of this name, made with this policy if there is none, also when many ask at once.

        Uses: directory, configure. Raises QueueAmbiguous if two bear the name.
        """
        try:
            return await self.named(name)
        except QueueNotFound:
            names.check("queue", name)
            await self._check(policy)
            change = QueueChange(name=name, policy=policy, if_absent=True)
            return await self._configure(change, act(by, "queue.create", name=name))

    async def change(self, queue: QueueId, policy: Policy, *, by: str) -> Queue:
        """Give the queue another policy. Uses: directory, configure."""
        await self._check(policy)
        done = act(by, "queue.change", queue=queue, policy=repr(policy))
        return await self._configure(QueueChange(queue, policy=policy), done)

    async def rename(self, queue: QueueId, name: str, *, by: str) -> Queue:
        """Give the queue another name. Uses: configure."""
        names.check("queue", name)
        return await self._configure(QueueChange(queue, name=name), act(by, "queue.rename", queue=queue, name=name))

    async def pause(self, queue: QueueId, milliseconds: int | None = None, *, by: str) -> Queue:
        """Hand out nothing of it for so long, or until it is resumed. Uses: configure."""
        until = FOREVER
        if milliseconds is not None:
            check_delay("the length of a pause", milliseconds, 1)
            until = Wall(self._clock.wall() + milliseconds)
        done = act(by, "queue.pause", queue=queue, until=until)
        return await self._configure(QueueChange(queue, paused_until=until), done)

    async def resume(self, queue: QueueId, *, by: str) -> Queue:
        """End a pause. Uses: configure."""
        done = act(by, "queue.resume", queue=queue)
        return await self._configure(QueueChange(queue, paused_until=Wall(0)), done)

    async def delete(self, queue: QueueId, *, by: str, drop: bool = False) -> None:
        """Remove it; with `drop` its waiting tasks are cancelled first. Uses: counts, directory, find, exchange, edit,
        configure.

        One that holds much is paused and emptied step by step; if that is cut off, delete it again.
        """
        paused = await self._lighten(queue, by, drop)
        request = Configure(queue=QueueChange(queue, delete=True, drop=drop), act=act(by, "queue.delete", queue=queue))
        try:
            await self._store.configure(request)
        except QueueInUse:
            # Somebody submitted to it meanwhile: it stays, and is handed out as before.
            if paused is not None:
                done = act(by, "queue.resume", queue=queue)
                await self._configure(QueueChange(queue, paused_until=paused), done)
            raise
        self._forget()

    async def _lighten(self, queue: QueueId, by: str, drop: bool) -> Wall | None:
        """Empty it if it holds much: until when it was paused before that, or None."""
        if not await may_empty(self._store, queue, self._limits.queue_at_once, drop=drop):
            return None
        before = (await self.get(queue)).paused_until
        await self.pause(queue, by=by)
        await empty(self._store, queue, self._clock)
        return before

    async def _configure(self, change: QueueChange, done: Act) -> Queue:
        reply = await self._store.configure(Configure(queue=change, act=done))
        self._forget()
        if reply.queue is None:
            raise QueueNotFound(f"queue {change.id} is gone", queue=change.id)
        return reply.queue

    async def _check(self, policy: Policy) -> None:
        check_policy(policy)
        check_retry(policy.retry)
        if policy.plugin is not None:
            names.check("plugin", policy.plugin)
        if policy.becomes is not None:
            await self.get(policy.becomes)
