"""Output that does not travel with a settle, because it is long or followed: stored before, removed here after."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from ganger.core.clock import Entropy
from ganger.core.errors import GangerError, StoreUnavailable
from ganger.core.task import Claimed
from ganger.node.executor import Ended
from ganger.node.following import Following
from ganger.node.hands import Hand
from ganger.node.pausing import Pause
from ganger.node.source import WorkSource
from ganger.node.spool import LARGEST, Spool, SpoolKey
from ganger.runtime.disk import run_whole
from ganger.runtime.telemetry import Telemetry

_TRIES: Final = 5


class Keeper:
    """Stores what lies in the spools of executors. `following` has sent some of it already, maybe."""

    def __init__(self, source: WorkSource, entropy: Entropy, telemetry: Telemetry, following: Following) -> None:
        self.following = following
        self._source = source
        self._entropy = entropy
        self._telemetry = telemetry
        self._removing: set[asyncio.Future[None]] = set()

    async def keep(self, hand: Hand, ended: Ended) -> Ended:
        """Store the long streams of an attempt, and the rest of those that were followed; what is left to the settle.

        What cannot be stored is told, and does not keep the result back.
        """
        sent = await self.following.close(hand)
        for stream in ended.streams:
            if hand.spool is not None and stream not in ended.data:
                await self._keep(hand.spool, hand.claimed, stream, sent.get(stream, 0))
        followed = [stream for stream in sent if stream in ended.data]
        kept = {stream for stream in followed if await self._keep_rest(hand, ended.data, stream, sent[stream])}
        if not kept:
            return ended
        return ended._replace(data={key: body for key, body in ended.data.items() if key not in kept})

    async def _keep(self, spool: Spool, claimed: Claimed, stream: str, start: int) -> None:
        async def send() -> None:
            async with aclosing(_read(spool, SpoolKey(claimed.id, claimed.fence, stream), start)) as body:
                await self._source.keep(claimed.lease, stream, body, start)

        await self._try(claimed, stream, send)

    async def _keep_rest(self, hand: Hand, data: Mapping[str, bytes], stream: str, start: int) -> bool:
        """False: it is not stored, and must go whole with the settle."""
        claimed, rest = hand.claimed, data[stream][start:]

        async def send() -> None:
            await self._source.ship(claimed.lease, stream, start, rest)

        return not rest or await self._try(claimed, stream, send)

    async def _try(self, claimed: Claimed, stream: str, send: Callable[[], Awaitable[None]]) -> bool:
        pause = Pause(self._entropy)
        for tries in range(1, _TRIES + 1):
            try:
                await send()
                return True
            except GangerError as error:
                if tries == _TRIES or not isinstance(error, StoreUnavailable):
                    self._telemetry.event("output_not_kept", task=claimed.id, stream=stream, error=error.code)
                    return False
            await pause.take()
        return False

    def remove(self, spool: Spool, claimed: Claimed, streams: Sequence[str]) -> None:
        """The attempt is settled: what it said is not needed here any more, and is gone now or soon."""
        for stream in streams:
            key = SpoolKey(claimed.id, claimed.fence, stream)
            if spool.measure(key) <= LARGEST:
                self._remove(spool, key)
            else:
                self._remove_aside(spool, key)

    def _remove_aside(self, spool: Spool, key: SpoolKey) -> None:
        """To remove a gigabyte takes the system half a second: nobody else is to wait for it."""
        removing = asyncio.ensure_future(run_whole(self._remove, spool, key))
        self._removing.add(removing)
        removing.add_done_callback(self._removing.discard)

    def _remove(self, spool: Spool, key: SpoolKey) -> None:
        try:
            spool.remove(key)
        except GangerError as error:
            self._telemetry.event("output_not_removed", task=key.task, stream=key.stream, error=error.code)


async def _read(spool: Spool, key: SpoolKey, start: int) -> AsyncGenerator[bytes, None]:
    async with aclosing(spool.read_ended(key).follow(start)) as pieces:
        async for piece in pieces:
            yield piece.body
