"""A bell: rung by the store's wake-ups, waited for with a time limit, and never missed between two waits."""

import asyncio
from collections.abc import Iterable
from types import TracebackType

from ganger.engine.store import RESET_TOPIC, Store


class Bell:
    """Listens from its making until its exit. `rung` stays set until it is cleared: clear it, look, and then wait."""

    def __init__(self, store: Store, topics: Iterable[str], rung: asyncio.Event | None = None) -> None:
        self.rung = asyncio.Event() if rung is None else rung
        self._unlisten = store.listen((*topics, RESET_TOPIC), self._ring)

    def _ring(self, _: str) -> None:
        self.rung.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for a ring; False if the time was up first."""
        try:
            async with asyncio.timeout(seconds):
                await self.rung.wait()
        except TimeoutError:
            return False
        return True

    def __enter__(self) -> "Bell":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._unlisten()
