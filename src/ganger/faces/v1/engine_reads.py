"""What the engine knows, in its own words: for Ganger's own clients, which then need no words of their own.

A question is a JSON text in the parameter `ask`. With `wait` an answer is held back until there is something to tell,
at most for so many seconds; whoever still wants to know asks again, and so a restart of the server is only a pause.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final, TypeVar

import msgspec

from ganger.core.errors import BadInput, NotAllowed
from ganger.core.ids import Fence, Position, TaskId
from ganger.core.lease import Lease
from ganger.core.task import Task
from ganger.engine.store import Query, Store
from ganger.faces.http.grants import Grant
from ganger.faces.http.reply import BYTES, Answer, Reply, Streamed, answer_json
from ganger.faces.http.request import Request
from ganger.faces.http.sse import keep_alive, write_event
from ganger.faces.v1.backend import Backend
from ganger.wire.unreadable import UNREADABLE
from ganger.wire.v1 import remote
from ganger.wire.v1.requests import decode

T = TypeVar("T")
PLAIN: Final[frozenset[str]] = frozenset()
ASKED: Final = frozenset({"ask"})
WAITED: Final = frozenset({"ask", "wait"})
OUTPUT: Final = "out:"
_RELATIVES: Final = 10_000


def read_ask(request: Request, kind: type[T]) -> T:
    """The question of a request; BadInput says what is wrong in it."""
    if "ask" not in request.query:
        raise BadInput("give the question as JSON in the parameter ask", field="ask")
    try:
        return msgspec.json.decode(request.query["ask"], type=kind)
    except UNREADABLE as error:
        raise BadInput(f"ask is not the question that belongs here: {error}", field="ask") from None


def read_wait(request: Request) -> float:
    """For how many seconds the client wants to wait."""
    text = request.query.get("wait", "0")
    if not (text.replace(".", "", 1).isdecimal() and text.isascii() and len(text) < 10):
        raise BadInput(f"wait is {text!r:.80}; give seconds", field="wait")
    return min(float(text), remote.LONGEST_WAIT)


class Bells:
    """How often each topic of the store has rung since the first one asked.

    It is counted from a number that no other server begins with: a client that was answered by one before would else
    find, when as much has happened since, that nothing has.
    """

    def __init__(self, store: Store, start: int) -> None:
        self._store = store
        self.counts = dict.fromkeys(remote.TOPICS, start)
        self._rung = asyncio.Event()
        self._unlisten: Callable[[], None] | None = None

    def _ring(self, topic: str) -> None:
        for one in remote.TOPICS if topic not in self.counts else (topic,):
            self.counts[one] += 1
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def hear(self, seen: dict[str, int], seconds: float) -> dict[str, int]:
        """The counts, as soon as one of them is another than the client has seen, or when the time is up."""
        self._unlisten = self._unlisten or self._store.listen((*remote.TOPICS, "reset"), self._ring)
        if all(seen.get(topic) == count for topic, count in self.counts.items()):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._rung.wait()
        return dict(self.counts)


class EngineReads:
    """The endpoints under `/v1/engine` that change nothing."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._bells = Bells(backend.engine.store, int.from_bytes(backend.entropy.token(6)))

    async def tasks(self, request: Request) -> Answer:
        """An attempt is told of its family alone."""
        ids, lease = read_ask(request, remote.TasksAsk).ids, request.grant.lease
        if lease is not None and (strange := set(ids) - {task.id for task in await self._list_family(lease)}):
            raise NotAllowed(f"task {min(strange)} is neither parent nor child of task {lease.task}", task=min(strange))
        return answer_json(await self._engine.tasks([TaskId(one) for one in ids]))

    async def _list_family(self, lease: Lease) -> list[Task]:
        family = await self._engine.family(lease, self._engine.limits.page)
        return [family.itself, *(one.task for one in (*family.parents, *family.children))]

    async def family(self, request: Request) -> Answer:
        """The parents and children of the attempt that asks, and itself."""
        lease = need_lease(request.grant)
        return answer_json(await self._engine.family(lease, min(read_ask(request, remote.LookAsk).most, _RELATIVES)))

    async def find(self, request: Request) -> Answer:
        query = read_ask(request, Query)
        return answer_json(await self._engine.find(query._replace(most=min(query.most, self._backend.limits.page))))

    async def look(self, request: Request) -> Answer:
        asked = read_ask(request, remote.LookAsk)
        return answer_json(await self._engine.look(TaskId(asked.task), min(asked.most, self._engine.limits.page)))

    async def value(self, request: Request) -> Answer:
        """Bytes as they are."""
        asked = read_ask(request, remote.ValueAsk)
        task, most, fence = TaskId(asked.task), min(asked.most, remote.LARGEST_PIECE), _fence(asked.fence)
        if asked.key.startswith(OUTPUT):
            part = await self._engine.read_output(task, asked.key.removeprefix(OUTPUT), asked.start, most, fence)
        else:
            part = await self._engine.read_data(task, asked.key, asked.start, most)
        told = ((remote.SIZE_HEADER.encode(), b"%d" % part.size), (remote.ENDED_HEADER.encode(), b"%d" % part.ended))
        return Reply(200, part.body, BYTES, told)

    async def counts(self, request: Request) -> Answer:
        return answer_json(await self._engine.counts())

    async def directory(self, request: Request) -> Answer:
        """Queues and nodes; an attempt is told of the queues of its family alone."""
        found, lease = await self._engine.store.directory(), request.grant.lease
        if lease is not None:
            known = {task.queue for task in await self._list_family(lease)}
            found = found._replace(queues=[queue for queue in found.queues if queue.id in known], nodes=[])
        return answer_json(found)

    async def readiness(self, request: Request) -> Answer:
        return answer_json(await self._engine.readiness(read_ask(request, remote.ReadyAsk).node))

    async def events(self, request: Request) -> Answer:
        """Those behind a position; with `wait` as soon as there are some."""
        asked = read_ask(request, remote.EventsAsk)
        after = Position(asked.after)
        if seconds := read_wait(request):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._backend.news.wait(after)
        return answer_json(await self._engine.events(after, min(asked.most, self._backend.limits.page)))

    async def wait(self, request: Request) -> Answer:
        asked = read_ask(request, remote.WaitAsk)
        ids = [TaskId(one) for one in asked.ids]
        return answer_json(await self._engine.wait(ids, read_wait(request), until_held=asked.until_held))

    async def bell(self, request: Request) -> Answer:
        return answer_json(await self._bells.hear(read_ask(request, remote.BellAsk).seen, read_wait(request)))

    async def output(self, request: Request) -> Answer:
        """Output as it comes, until the task has ended."""
        asked = read_ask(request, remote.OutputAsk)
        await self._backend.find_task(TaskId(asked.task))
        return Streamed(keep_alive(self._follow(asked), self._backend.limits.beat))

    async def _follow(self, asked: remote.OutputAsk) -> AsyncGenerator[bytes, None]:
        following = self._engine.follow_output(TaskId(asked.task), asked.streams, asked.start, _fence(asked.fence))
        async with aclosing(following) as pieces:
            async for heard in pieces:
                yield write_event("heard", msgspec.json.encode(heard))
        yield write_event("end", b"{}")


def need_lease(grant: Grant) -> Lease:
    """The lease of the attempt that speaks."""
    if grant.lease is None:
        raise BadInput("this is for an attempt, which speaks with the token that its node gave it", field="token")
    return grant.lease


def _fence(number: int | None) -> Fence | None:
    return None if number is None else Fence(number)


async def read_body(request: Request, kind: type[T]) -> T:
    """The body as what it must be; BadInput says where it is not."""
    return decode(await request.body(), kind)
