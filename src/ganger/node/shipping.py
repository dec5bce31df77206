"""When output that is followed from afar goes to the store: often enough to be seen live, seldom enough to be cheap.

A piece is due when it is large enough, when the one before it is old enough, or when the stream has ended: so a line
that comes alone goes at once, and many small ones go together. Pieces carry their offset, which is all a store needs to
keep each byte once: who starts again begins where the store is, and a piece that is sent twice lands on itself.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ganger.core.clock import Clock, Moment
from ganger.node.spool import Extent, Piece, Signal


class Readable(Protocol):
    """A stream that can be read while it grows."""

    @property
    def signal(self) -> Signal: ...

    async def take(self, offset: int, end: int) -> bytes:
        """A piece of what was told to be there: one byte or more. StoreBroken: it is not there any more."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """At least `enough` bytes make a piece at once; fewer are sent `patience` milliseconds after the last piece."""

    enough: int = 64 * 1024
    patience: int = 250


STEADY: Final = Pace()


@dataclass(frozen=True, slots=True)
class Shipper:
    """Where the store is in a stream (`sent`), where the spool is (`length`), and when the last piece had gone."""

    pace: Pace = STEADY
    sent: int = 0
    length: int = 0
    ended: bool = False
    last: Moment | None = None

    def note(self, extent: Extent) -> "Shipper":
        """The stream reaches this far."""
        return replace(self, length=max(self.length, extent.length), ended=extent.ended)

    def ship(self, size: int, now: Moment) -> "Shipper":
        """So many more bytes have gone."""
        return replace(self, sent=self.sent + size, last=now)

    def wait(self, now: Moment) -> int | None:
        """Milliseconds until a piece is due, 0 if one is; None if there is nothing to send."""
        unsent = self.length - self.sent
        if unsent <= 0:
            return None
        if self.ended or unsent >= self.pace.enough or self.last is None:
            return 0
        return max(0, self.last + self.pace.patience - now)


async def ship(reader: Readable, clock: Clock, sent: int = 0, pace: Pace = STEADY) -> AsyncGenerator[Piece, None]:
    """The stream from `sent` on in pieces, each as soon as it is due, until it has ended.

    A piece counts as sent when the next one is asked for. Raises what reading the spool raises.
    """
    shipper = Shipper(pace, sent)
    while True:
        extent = reader.signal.extent()
        shipper = shipper.note(extent)
        wait = shipper.wait(clock.now())
        if wait == 0:
            body = await reader.take(shipper.sent, shipper.length)
            yield Piece(shipper.sent, body)
            shipper = shipper.ship(len(body), clock.now())
        elif extent.ended:
            return
        else:
            await _wait(reader.signal, extent, wait)


async def _wait(signal: Signal, seen: Extent, milliseconds: int | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(None if milliseconds is None else milliseconds / 1000):
            await signal.wait(seen)
