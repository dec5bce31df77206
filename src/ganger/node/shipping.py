"""When output that is followed from afar goes to the store: often enough to be seen live, seldom enough to be cheap.

A piece is due when it is large enough, when its first byte has waited long enough, or when the stream has ended. Pieces
carry their offset, which is all a store needs to keep each byte once: who starts again begins where the store is, and a
piece that is sent twice lands on itself.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from ganger.core.clock import Clock, Moment
from ganger.node.spool import Extent, Piece, Signal, SpoolReader


@dataclass(frozen=True, slots=True)
class Pace:
    """At least `enough` bytes make a piece at once; fewer wait `patience` milliseconds for more."""

    enough: int = 64 * 1024
    patience: int = 250


STEADY: Final = Pace()


@dataclass(frozen=True, slots=True)
class Shipper:
    """Where the store is in a stream (`sent`), where the spool is (`length`), and since when it has been ahead."""

    pace: Pace = STEADY
    sent: int = 0
    length: int = 0
    ended: bool = False
    since: Moment | None = None

    def note(self, extent: Extent, now: Moment) -> "Shipper":
        """The stream reaches this far, seen now."""
        length = max(self.length, extent.length)
        since = now if self.since is None and length > self.sent else self.since
        return replace(self, length=length, ended=extent.ended, since=since)

    def ship(self, size: int) -> "Shipper":
        """So many more bytes are on their way. What is left keeps the time it was seen, so it is due no later."""
        sent = self.sent + size
        return replace(self, sent=sent, since=self.since if sent < self.length else None)

    def wait(self, now: Moment) -> int | None:
        """Milliseconds until a piece is due, 0 if one is; None if there is nothing to send."""
        unsent = self.length - self.sent
        if unsent <= 0 or self.since is None:
            return None
        if self.ended or unsent >= self.pace.enough:
            return 0
        return max(0, self.since + self.pace.patience - now)


async def ship(reader: SpoolReader, clock: Clock, sent: int = 0, pace: Pace = STEADY) -> AsyncGenerator[Piece, None]:
    """The stream from `sent` on in pieces, each as soon as it is due, until it has ended.

    A piece counts as sent when the next one is asked for. Raises what reading the spool raises.
    """
    shipper = Shipper(pace, sent)
    while True:
        extent = reader.signal.extent()
        shipper = shipper.note(extent, clock.now())
        wait = shipper.wait(clock.now())
        if wait == 0:
            body = await reader.take(shipper.sent, shipper.length)
            yield Piece(shipper.sent, body)
            shipper = shipper.ship(len(body))
        elif extent.ended:
            return
        else:
            await _wait(reader.signal, extent, wait)


async def _wait(signal: Signal, seen: Extent, milliseconds: int | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(None if milliseconds is None else milliseconds / 1000):
            await signal.wait(seen)
