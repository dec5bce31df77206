"""Tells the facts about tasks to the telemetry, one event for each task, so that a log has what happened to which."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from ganger.core.errors import QueueNotFound
from ganger.core.event import Event
from ganger.core.ids import Position, QueueId
from ganger.core.state import status_of
from ganger.engine.engine import Engine
from ganger.runtime.service import Service
from ganger.runtime.telemetry import Telemetry

TASK: Final = "task_{}"
"""What an event is called, by its fact."""


def all_of_them(event: Event) -> bool:
    return True


class Telling(Service):
    """Follows the facts from its start on, those that are `wanted`. After trouble it goes on where it was."""

    def __init__(self, engine: Engine, telemetry: Telemetry, wanted: Callable[[Event], bool] = all_of_them) -> None:
        super().__init__("telling", telemetry=telemetry)
        self._engine = engine
        self._wanted = wanted
        self._after: Position | None = None

    async def run(self) -> None:
        async with aclosing(self._engine.subscribe(self._after)) as events:
            async for event in events:
                if event.entries and self._wanted(event):
                    await self._tell(event)
                self._after = event.position

    async def _tell(self, event: Event) -> None:
        queue, name = await self._name(event.queue), TASK.format(event.fact.value)
        for entry in event.entries:
            status = status_of(entry.status)
            said: dict[str, object] = {
                "task": entry.task,
                "queue": queue,
                "status": entry.status if status is None else status.name.lower(),
                "fence": entry.fence or None,
                "holder": event.holder or None,
                "reason": entry.reason,
                "position": event.position,
            }
            self._telemetry.event(name, **{field: value for field, value in said.items() if value is not None})

    async def _name(self, queue: QueueId) -> str:
        try:
            return (await self._engine.queues.get(queue)).name
        except QueueNotFound:
            return str(queue)
