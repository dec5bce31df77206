"""What one function says on one stream: in memory while that is little, from then on in the spool, up to its cap.

When somebody follows the function, all of it goes to the spool at once, where the node reads it. What comes after the
cap, or finds the disk full, is counted and dropped, and a mark beside the file says so: the function goes on.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ganger.core.errors import GangerError, StoreFull
from ganger.node.functions.context import Context
from ganger.node.functions.messages import SMALL
from ganger.node.masking import Masker
from ganger.node.spool import Bell, Spool, SpoolKey, SpoolWriter
from ganger.wire.cuts import FULL


class Printed(NamedTuple):
    """Streams by name: those that are small, how much of each was cut off, those that are in the spool, and why one was
    cut off before its cap.
    """

    said: dict[str, bytes]
    cut: dict[str, int]
    spooled: list[str]
    faults: dict[str, str]


class Place(NamedTuple):
    """Where large streams go."""

    spool: str
    cap: int

    def write(self, key: SpoolKey) -> SpoolWriter:
        return Spool(Path(self.spool), self.cap).write(key, Bell())


class Capture(Protocol):
    """Who has what functions print."""

    place: Place

    def collect(self, context: Context) -> Printed | None:
        """What an attempt that has ended said; None for nothing."""
        ...

    def trim(self) -> None:
        """Cut off what has been printed beyond the cap."""
        ...


class Track:
    """One stream of one attempt. Several threads may write: a function has those that it makes."""

    __slots__ = ("_fault", "_head", "_key", "_lock", "_lost", "_masker", "_pieces", "_place", "_size", "_writer")

    def __init__(self, place: Place, key: SpoolKey, masks: Sequence[bytes] = ()) -> None:
        self._place = place
        self._key = key
        self._masker = Masker(masks) if masks else None
        self._lock = threading.Lock()
        self._pieces: list[bytes] = []
        self._size = 0
        self._lost = 0
        self._fault = ""
        self._head = b""
        self._writer: SpoolWriter | None = None

    def write(self, text: str) -> None:
        body = text.encode("utf-8", "backslashreplace")
        with self._lock:
            self._add(body if self._masker is None else self._masker.feed(body))

    def _add(self, body: bytes) -> None:
        self._pieces.append(body)
        self._size += len(body)
        if self._writer is not None or self._size > SMALL:
            self._spill()

    def follow(self) -> None:
        """Somebody reads it while it grows."""
        with self._lock:
            self._spill()

    def collect(self, printed: Printed) -> None:
        """It has ended: say where it is. What is small is given whole, also where the spool has it."""
        with self._lock:
            if self._masker is not None:
                self._add(self._masker.finish())
            self._close(printed)

    def _close(self, printed: Printed) -> None:
        name, small = self._key.stream, b"".join(self._pieces)
        if self._writer is not None:
            extent = self._writer.close()
            printed.spooled.append(name)
            if cut := extent.dropped + self._lost - len(self._head):
                printed.cut[name] = cut
            if self._fault:
                printed.faults[name] = self._fault
            small = self._writer.path.read_bytes() if 0 < extent.length <= SMALL else self._head
        if small:
            printed.said[name] = small

    def _spill(self) -> None:
        pieces, self._pieces = b"".join(self._pieces), []
        try:
            if self._writer is None:
                self._writer = self._place.write(self._key)
            self._writer.write(pieces)
        except GangerError as error:
            if not self._fault and not self._has_spooled():
                # It goes into the store with the end.
                self._head = pieces[:SMALL]
            self._fault = say_fault(error)
            self._lost += len(pieces)

    def _has_spooled(self) -> bool:
        return self._writer is not None and self._writer.extent.length > 0


def say_fault(error: GangerError) -> str:
    """Why the disk did not take output."""
    return FULL if isinstance(error, StoreFull) else error.message
