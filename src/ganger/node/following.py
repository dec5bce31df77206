"""Live output: while somebody follows a task, what its attempt writes goes to the source as it comes.

What can go wrong, and why this is right:

- *Nobody follows.* Then nothing of this runs and nothing is sent: output goes with the settle, once.
- *Whoever follows is slow, or reads nothing at all.* The attempt writes to its spool and knows nothing of readers; what
  is sent is read from there, at the pace of the source.
- *The node dies.* The next one asks the source how far it has each stream of an attempt, and goes on from there.
- *An answer is lost, or the attempt ends while a piece is on its way.* What was not acknowledged is sent again from the
  same offset, and maybe more of it. The source keeps each byte once, so that leaves neither a gap nor a double.
- *Somebody begins to follow late.* The stream is sent from its beginning: it is one stream by offset for every reader.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from typing import Final, Protocol, runtime_checkable

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import GangerError, StoreBroken, StoreUnavailable
from ganger.core.ids import Fence, TaskId
from ganger.node.hands import Hand, Key
from ganger.node.pausing import Pause
from ganger.node.shipping import Readable, ship
from ganger.node.source import WorkSource
from ganger.node.spool import Piece, Signal, SpoolKey
from ganger.runtime.telemetry import Telemetry

STREAMS: Final = ("stdout", "stderr", "mixedout")
"""What a run may write."""


@runtime_checkable
class Signals(Protocol):
    """A run that tells how far its streams reach while it goes on."""

    def signal(self, stream: str) -> Signal: ...


@runtime_checkable
class Watches(Protocol):
    """A batch executor that can show what an attempt writes while it goes on."""

    def watch(self, task: TaskId, fence: Fence) -> Mapping[str, Readable]: ...


class Following:
    """Who is followed, and what of their output the source has."""

    def __init__(self, source: WorkSource, clock: Clock, entropy: Entropy, telemetry: Telemetry) -> None:
        self._source, self._clock, self._entropy, self._telemetry = source, clock, entropy, telemetry
        self._followed: frozenset[TaskId] = frozenset()
        self._shipments: dict[Key, _Shipment] = {}
        self._inherited: set[Key] = set()
        self._closed: set[Key] = set()

    def heed(self, followed: Collection[TaskId], held: Mapping[Key, Hand]) -> None:
        """These are followed now, and no others."""
        if not followed and not self._followed:
            return
        self._followed = frozenset(followed)
        for key, shipment in self._shipments.items():
            if key[0] not in self._followed:
                shipment.cancel()
        self.attend([hand for (task, _), hand in held.items() if task in self._followed])

    def attend(self, hands: Iterable[Hand]) -> None:
        """These have begun: ship what is followed of them."""
        if not self._followed:
            return
        for hand in hands:
            is_followed = hand.claimed.id in self._followed and not hand.is_over
            if is_followed and hand.key not in self._closed and (readers := _open(hand)):
                self._shipments.setdefault(hand.key, _Shipment(hand, self)).begin(readers)

    def inherit(self, key: Key) -> None:
        """A former node began this one: the source may have some of its output already."""
        self._inherited.add(key)

    @property
    def is_busy(self) -> bool:
        """Is anything known of anybody?"""
        return bool(self._shipments or self._inherited or self._closed)

    def concerns(self, key: Key) -> bool:
        """May the source have some of its output?"""
        return key in self._shipments or key in self._inherited

    async def close(self, hand: Hand) -> Mapping[str, int]:
        """It has ended: ship no more of it. How far the source has its streams, at least."""
        self._closed.add(hand.key)
        if not self.concerns(hand.key):
            return {}
        shipment = self._shipments.setdefault(hand.key, _Shipment(hand, self))
        await shipment.stop()
        return await shipment.know()

    async def stop(self) -> None:
        """Send nothing more; what has arrived stays known to the source alone."""
        jobs = [shipment.stop() for shipment in self._shipments.values()]
        await asyncio.gather(*jobs)

    def forget(self, key: Key) -> None:
        """It is put down."""
        self._inherited.discard(key)
        self._closed.discard(key)
        if (shipment := self._shipments.pop(key, None)) is not None:
            shipment.cancel()

    async def ask(self, hand: Hand) -> Mapping[str, int]:
        """How far the source has the streams of an attempt."""
        return await self._source.shipped(hand.claimed.lease)

    async def send(self, hand: Hand, stream: str, piece: Piece) -> None:
        """Send a piece, and again until there is an answer."""
        pause = Pause(self._entropy)
        while True:
            try:
                return await self._source.ship(hand.claimed.lease, stream, piece.offset, piece.body)
            except StoreUnavailable:
                await pause.take()

    async def pump(self, hand: Hand, stream: str, reader: Readable, sent: dict[str, int]) -> None:
        """Send a stream piece by piece, and count what has arrived."""
        try:
            async with aclosing(ship(reader, self._clock, sent.get(stream, 0))) as pieces:
                async for piece in pieces:
                    await self.send(hand, stream, piece)
                    sent[stream] = piece.offset + len(piece.body)
        except StoreBroken:
            # It ended at this moment, and what it wrote has gone where the end looks for it.
            return
        except GangerError as error:
            self.tell_failure(hand, error)

    def tell_failure(self, hand: Hand, error: GangerError) -> None:
        self._telemetry.event("output_not_shipped", task=hand.claimed.id, error=error.code)


class _Shipment:
    """The output of one attempt on its way. `_sent` is None until the source was asked what it has."""

    def __init__(self, hand: Hand, following: Following) -> None:
        self._hand = hand
        self._following = following
        self._sent: dict[str, int] | None = None
        self._job: asyncio.Task[None] | None = None

    def begin(self, readers: Mapping[str, Readable]) -> None:
        if self._job is None or self._job.done():
            self._job = asyncio.create_task(self._run(readers), name=f"ship the output of {self._hand.claimed.id}")

    async def _run(self, readers: Mapping[str, Readable]) -> None:
        try:
            self._sent = sent = dict(await self._following.ask(self._hand))
        except GangerError as error:
            self._following.tell_failure(self._hand, error)
            return
        pump = self._following.pump
        async with asyncio.TaskGroup() as pumps:
            for stream, reader in readers.items():
                pumps.create_task(pump(self._hand, stream, reader, sent))

    def cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()

    async def stop(self) -> None:
        self.cancel()
        if self._job is not None:
            await asyncio.wait([self._job])

    async def know(self) -> Mapping[str, int]:
        """What has arrived; asked for if it is not known, and nothing if nobody answers: then all is sent."""
        if self._sent is not None:
            return self._sent
        try:
            return await self._following.ask(self._hand)
        except GangerError as error:
            self._following.tell_failure(self._hand, error)
            return {}


def _open(hand: Hand) -> Mapping[str, Readable]:
    """The streams of an attempt as they grow; none if it has not begun or cannot be read before its end."""
    batch: object = hand.batch
    run: object = hand.run
    if isinstance(batch, Watches):
        return batch.watch(hand.claimed.id, hand.claimed.fence)
    spool = hand.spool
    if not isinstance(run, Signals) or spool is None:
        return {}
    return {name: spool.read(SpoolKey(*hand.key, name), run.signal(name)) for name in STREAMS}
