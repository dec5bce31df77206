"""Output that does not travel with a settle, because it is long or followed: stored before, removed here after.

What cannot be stored does not keep the result back. On a full disk the beginning of it is kept, which the reserve of
the store can hold; and what is lost is said in the data `cut`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from ganger.core.clock import Entropy
from ganger.core.errors import GangerError, StaleLease, StoreFull, StoreUnavailable
from ganger.core.task import Claimed
from ganger.node.executor import Ended
from ganger.node.following import Following
from ganger.node.hands import Hand
from ganger.node.pausing import Pause
from ganger.node.source import WorkSource
from ganger.node.spool import LARGEST, Spool, SpoolKey
from ganger.runtime.telemetry import Telemetry
from ganger.runtime.threads import run_whole
from ganger.wire.cuts import FULL, add_cut

_TRIES: Final = 5
HEAD: Final = 1 << 16
"""So much of a stream goes into the store itself where there is no room for it elsewhere."""


class Lost(NamedTuple):
    """What could not be stored of streams, why, and of which attempt that was."""

    streams: Mapping[str, int]
    why: str
    attempt: int


class Keeper:
    """Stores what lies in the spools of executors. `following` has sent some of it already, maybe."""

    def __init__(self, source: WorkSource, entropy: Entropy, telemetry: Telemetry, following: Following) -> None:
        self.following = following
        self._source = source
        self._entropy = entropy
        self._telemetry = telemetry
        self._removing: set[asyncio.Future[None]] = set()

    async def keep(self, hand: Hand, ended: Ended) -> Ended:
        """Store long streams of an attempt, and the rest of those that were followed; what is left to the settle."""
        sent = await self.following.close(hand)
        for stream in ended.streams:
            if hand.spool is not None and stream not in ended.data:
                lost = await self._keep(hand.spool, hand.claimed, stream, sent.get(stream, 0))
                ended = ended._replace(data=add_cut(ended.data, *lost)) if lost else ended
        followed = [stream for stream in sent if stream in ended.data]
        kept = {stream for stream in followed if await self._keep_rest(hand, ended.data, stream, sent[stream])}
        if not kept:
            return ended
        return ended._replace(data={key: body for key, body in ended.data.items() if key not in kept})

    async def _keep(self, spool: Spool, claimed: Claimed, stream: str, start: int) -> Lost | None:
        key = SpoolKey(claimed.id, claimed.fence, stream)

        async def send() -> None:
            async with aclosing(_read(spool, key, start)) as body:
                await self._source.keep(claimed.lease, stream, body, start)

        error = await self._try(claimed, stream, send)
        if error is None or isinstance(error, StaleLease):
            return None
        kept = await self._keep_head(spool, key, claimed, start) if isinstance(error, StoreFull) else 0
        missing = spool.measure(key) - start - kept
        why = FULL if isinstance(error, StoreFull) else f"it could not be stored: {error.message}"
        return Lost({stream: missing}, why, claimed.fence) if missing > 0 else None

    async def _keep_head(self, spool: Spool, key: SpoolKey, claimed: Claimed, start: int) -> int:
        """Store as much as goes into the store itself; how many bytes."""
        try:
            head = await spool.read_ended(key).read(start, HEAD)
            await self._source.ship(claimed.lease, key.stream, start, head)
        except GangerError:
            return 0
        return len(head)

    async def _keep_rest(self, hand: Hand, data: Mapping[str, bytes], stream: str, start: int) -> bool:
        """False: it is not stored, and must go whole with the settle."""
        claimed, rest = hand.claimed, data[stream][start:]

        async def send() -> None:
            await self._source.ship(claimed.lease, stream, start, rest)

        return not rest or await self._try(claimed, stream, send) is None

    async def _try(self, claimed: Claimed, stream: str, send: Callable[[], Awaitable[None]]) -> GangerError | None:
        """What keeps it from being stored; None: it is."""
        pause = Pause(self._entropy)
        for tries in range(1, _TRIES + 1):
            try:
                await send()
                return None
            except GangerError as error:
                failed = error
                if tries == _TRIES or not isinstance(error, StoreUnavailable):
                    break
            await pause.take()
        self._telemetry.event("output_not_kept", task=claimed.id, stream=stream, error=failed.code)
        return failed

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
