"""Output that is too long to travel with a settle: it is stored before, piece by piece, and removed here after."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from ganger.core.clock import Entropy
from ganger.core.errors import GangerError, StoreUnavailable
from ganger.core.task import Claimed
from ganger.node.executor import Ended
from ganger.node.offers import HasSpool
from ganger.node.pausing import Pause
from ganger.node.source import WorkSource
from ganger.node.spool import Spool, SpoolKey
from ganger.runtime.telemetry import Telemetry

_TRIES: Final = 5


class Keeper:
    """Stores what lies in the spools of executors."""

    def __init__(self, source: WorkSource, entropy: Entropy, telemetry: Telemetry) -> None:
        self._source = source
        self._entropy = entropy
        self._telemetry = telemetry

    async def keep(self, executor: object, claimed: Claimed, ended: Ended) -> None:
        """Store the long streams of an attempt. What cannot be stored is told, and does not keep the result back."""
        if not isinstance(executor, HasSpool):
            return
        for stream in ended.streams:
            if stream not in ended.data:
                await self._keep(executor.spool, claimed, stream)

    async def _keep(self, spool: Spool, claimed: Claimed, stream: str) -> None:
        pause = Pause(self._entropy)
        for tries in range(1, _TRIES + 1):
            try:
                async with aclosing(_read(spool, SpoolKey(claimed.id, claimed.fence, stream))) as body:
                    await self._source.keep(claimed.lease, stream, body)
                return
            except GangerError as error:
                if tries == _TRIES or not isinstance(error, StoreUnavailable):
                    self._telemetry.event("output_not_kept", task=claimed.id, stream=stream, error=error.code)
                    return
            await pause.take()

    def remove(self, executor: object, claimed: Claimed, streams: Sequence[str]) -> None:
        """The attempt is settled: its spool is not needed any more."""
        if not isinstance(executor, HasSpool):
            return
        for stream in streams:
            try:
                executor.spool.remove(SpoolKey(claimed.id, claimed.fence, stream))
            except GangerError as error:
                self._telemetry.event("output_not_removed", task=claimed.id, stream=stream, error=error.code)


async def _read(spool: Spool, key: SpoolKey) -> AsyncGenerator[bytes, None]:
    async with aclosing(spool.read_ended(key).follow()) as pieces:
        async for piece in pieces:
            yield piece.body
