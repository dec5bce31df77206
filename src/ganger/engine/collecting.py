"""Large data that no row names is removed, once it is old enough that nobody can be about to name it."""

from collections.abc import Sequence
from typing import Final

from ganger.core.clock import Clock
from ganger.engine.blob import GRACE, BlobHash, Blobs, collect
from ganger.engine.store import Store, Tend
from ganger.engine.upkeep import ALONE, Chore, LeaderGate, Stepped
from ganger.runtime.telemetry import SILENT, Telemetry

EVERY: Final = 60 * 60 * 1000


class Collector(Chore):
    """Removes blobs that nobody refers to. What is younger than a day, or open, is spared."""

    quiet = EVERY

    def __init__(
        self,
        store: Store,
        clock: Clock,
        blobs: Blobs,
        *,
        grace: int = GRACE,
        gate: LeaderGate = ALONE,
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__(store, clock, gate=gate, telemetry=telemetry)
        self._blobs = blobs
        self._grace = grace

    async def step(self) -> Stepped:
        """Uses: tend."""
        collected = await collect(self._blobs, self._referenced, self._grace)
        return Stepped(collected.removed, next_at=self._clock.wall() + EVERY)

    async def _referenced(self, page: Sequence[BlobHash]) -> set[BlobHash]:
        unnamed = (await self._store.tend(Tend(blobs=tuple(page)))).blobs
        return {name for name in page if name not in unnamed}
