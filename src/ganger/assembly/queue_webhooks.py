"""Webhooks of queues: of each task that ends in a queue that names some, a task for each address tells.

What can go wrong, and why this is right: the task has ended, whoever ended it, and nobody but a server makes the
deliveries. So a server follows the events, and keeps in a file beside the store how far it has come, behind what it
has made. One that dies makes some of them again when it is back; a delivery has a key that follows from the task and
the address, so the second one is the first. The same holds for several servers on one store. A server that never was
here begins with what ends from now on, and one that was away for longer than events are kept has missed those.

While no queue names a webhook nothing is followed.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

import msgspec

from ganger.assembly.location import locate_own
from ganger.assembly.settings import Settings
from ganger.core.errors import QueueNotFound
from ganger.core.event import Event, Fact
from ganger.core.ids import Position, TaskId
from ganger.core.state import is_final
from ganger.engine.bell import Bell
from ganger.engine.engine import Engine
from ganger.engine.store import QUEUES_TOPIC
from ganger.runtime.faults import name_fault
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.runtime.threads import run_whole
from ganger.wire.v1.webhooks import QUEUE, make_queue_hook

VERSION: Final = 1
_EVERY: Final = 1.0
_LOOK: Final = 60.0
_CHUNK: Final = 1_000
_RECENT: Final = 1_000
_BY: Final = "ganger server"
_OF_QUEUES: Final = frozenset({Fact.QUEUE_CHANGED, Fact.QUEUE_REMOVED})


class _Written(msgspec.Struct, frozen=True):
    after: int
    version: int = VERSION


def find_place(settings: Settings) -> Path | None:
    """The file that says how far it has come; None if the store ends with the process."""
    found = locate_own(settings)
    return None if found is None else found.database.absolute().with_name(f"{found.database.name}-webhooks")


class QueueWebhooks(Service):
    """Makes the deliveries."""

    def __init__(self, path: Path | None, engine: Engine, *, telemetry: Telemetry = SILENT) -> None:
        super().__init__("queue webhooks", telemetry=telemetry)
        self._path = path
        self._engine = engine
        self._after: Position | None = None
        self._saved: Position | None = None

    async def run(self) -> None:
        if self._after is None:
            self._after = self._saved = await self._load()
        saving = asyncio.create_task(self._save_often())
        try:
            while True:
                await self._wait_until_wanted()
                await self._follow()
        finally:
            saving.cancel()
            await asyncio.wait([saving])
            await self._save()

    async def _is_wanted(self) -> bool:
        return any(queue.policy.webhooks for queue in await self._engine.queues.all())

    async def _wait_until_wanted(self) -> None:
        with Bell(self._engine.store, (QUEUES_TOPIC,)) as bell:
            while not await self._is_wanted():
                await self._forget()
                await bell.wait(_LOOK)
                bell.rung.clear()
        end = (await self._engine.store.directory()).last_event
        # A store that was put back from a copy may be behind what was seen of it.
        self._after = await self._find_start(end) if self._after is None else min(self._after, end)

    async def _find_start(self, end: Position) -> Position:
        """Where the first webhook was named, if that was just now: something may have ended since."""
        wanted = {queue.id for queue in await self._engine.queues.all() if queue.policy.webhooks}
        recent = await self._engine.events(Position(max(0, end - _RECENT)), _RECENT)
        changed = [event.position for event in recent if event.fact in _OF_QUEUES and event.queue in wanted]
        return max(changed, default=end)

    async def _follow(self) -> None:
        async with aclosing(self._engine.subscribe(self._after)) as events:
            async for event in events:
                await self._tell(event)
                self._after = event.position
                if event.fact in _OF_QUEUES and not await self._is_wanted():
                    return

    async def _tell(self, event: Event) -> None:
        ended = [entry.task for entry in event.entries if is_final(entry.status)]
        if not ended:
            return
        with suppress(QueueNotFound):
            # A queue that is gone has no policy any more.
            queue = await self._engine.queues.get(event.queue)
            if queue.policy.webhooks and queue.name != QUEUE:
                await self._submit(ended, queue.policy.webhooks)

    async def _submit(self, ended: list[TaskId], addresses: tuple[str, ...]) -> None:
        queue = (await self._engine.queues.ensure(QUEUE, by=_BY)).id
        for some in _divide(ended):
            await self._engine.submit([make_queue_hook(task, url, queue) for task in some for url in addresses])

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._save()

    async def _save(self) -> None:
        """Without the file some are made again, and found to be there."""
        if self._path is None or self._after == self._saved or self._after is None:
            return
        after = self._after
        try:
            await run_whole(_replace, self._path, msgspec.json.encode(_Written(after)))
        except OSError as error:
            self._telemetry.event("webhooks_place_not_written", path=str(self._path), error=name_fault(error))
        else:
            self._saved = after

    async def _forget(self) -> None:
        """What ends while nobody wants to know is told to nobody, later either."""
        self._after = self._saved = None
        if self._path is not None:
            with suppress(OSError):
                # One that stays does no harm, unless the server is started again before it is replaced.
                await run_whole(self._path.unlink, missing_ok=True)

    async def _load(self) -> Position | None:
        if self._path is None:
            return None
        try:
            found = msgspec.json.decode(await run_whole(self._path.read_bytes), type=_Written)
            return Position(found.after) if found.version == VERSION else None
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            self._telemetry.event("webhooks_place_not_read", path=str(self._path), error=name_fault(error))
            return None


def _divide(tasks: list[TaskId]) -> Iterator[list[TaskId]]:
    for start in range(0, len(tasks), _CHUNK):
        yield tasks[start : start + _CHUNK]


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f"{path.name}-draft")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    draft.rename(path)
