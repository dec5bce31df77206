"""Progress on its way to the source: the newest word of each attempt, a few times a second at most."""

import asyncio
from typing import Final

from ganger.core.errors import GangerError
from ganger.core.lease import Lease
from ganger.node.source import WorkSource
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

QUIET: Final = 0.2


class Reporting(Service):
    """What is noted is told soon; a word that comes too late for its lease is told to nobody."""

    def __init__(self, source: WorkSource, telemetry: Telemetry = SILENT) -> None:
        super().__init__("reporting", telemetry=telemetry)
        self._source = source
        self._fresh: dict[Lease, tuple[float | None, str | None]] = {}
        self._woken = asyncio.Event()

    def note(self, lease: Lease, percent: float | None, info: str | None) -> None:
        self._fresh[lease] = percent, info
        self._woken.set()

    async def drain(self) -> None:
        self.draining.set()
        self._woken.set()
        await super().drain()

    async def run(self) -> None:
        while not self.draining.is_set():
            await self._woken.wait()
            self._woken.clear()
            fresh, self._fresh = self._fresh, {}
            await asyncio.gather(*(self._tell(lease, *said) for lease, said in fresh.items()))
            await asyncio.sleep(QUIET)

    async def _tell(self, lease: Lease, percent: float | None, info: str | None) -> None:
        try:
            await self._source.progress(lease, percent, info)
        except GangerError as error:
            self._telemetry.event("progress_not_told", task=lease.task, fence=lease.fence, error=error.code)
