"""The owner looks after the bags of others: what lies in them and was not run is run.

A new owner reads every bag, since a process that is stopped cannot send its letters again. Later it reads the bags of
those whose connection ended, as soon as they are dead: the lock on the bag says so. A letter has been run if its slot
has a receipt of the same number or of a later one, because a slot is used again only after the answer. What was found
in the bag of a living process may still come from that process, which was between writing it and sending it; then its
receipt is looked for.

A bag is removed when every letter in it was run or refused for good. If the disk is full it stays, and is looked at
again. One that is damaged is never removed: when all that is whole in it was run it gets another name, which is told.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, StoreBroken
from ganger.databases.sqlite.bag import Letters, client_of, open_bag, read_opened
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.errors import PASSING
from ganger.databases.sqlite.file import OwnedFile
from ganger.databases.sqlite.unit import ClientId, Identity, Outcome, Post, Unit
from ganger.databases.sqlite.wire import Call

_PAUSE_MS: Final = 50
_LONGEST_PAUSE_MS: Final = 5_000
_TOLD: Final = 10
_EMPTY: Final = Letters([], [], b"")


class Found:
    """A bag whose letters are being run."""

    __slots__ = ("_left", "_opened", "_removal", "_stays")

    def __init__(self, opened: int, letters: int, removal: Callable[[], None], *, stays: bool) -> None:
        self._opened = opened
        self._left = letters
        self._removal = removal
        self._stays = stays

    def tell(self, outcome: Outcome, post: Post) -> None:
        """One of its letters was run, or was not."""
        self._stays = self._stays or isinstance(outcome.error, PASSING)
        self._left -= 1
        self.close_if_done()

    def close_if_done(self) -> None:
        if not self._left:
            if not self._stays:
                self._removal()
            os.close(self._opened)


class Collector:
    """Finds letters and makes units of them. Used on the owner's thread alone."""

    def __init__(self, desk: Desk, file: OwnedFile) -> None:
        self._desk = desk
        self._file = file
        self._watched: set[Path] = set()
        self._refused: set[Path] = set()
        self._seen: set[Identity | None] = set()
        self._pause = _PAUSE_MS
        self._due = Moment(0)

    def recognise(self, unit: Unit) -> Unit:
        """A letter that was found in the bag of a living process may come from that process as well."""
        return unit._replace(again=True) if unit.identity in self._seen else unit

    def look_for(self, client: ClientId) -> None:
        """A client's connection ended: if it left a bag, it is dead or about to die, or will connect again."""
        path = self._desk.place.bag(client)
        if path.exists():
            self._watched.add(path)
            self._pause, self._due = _PAUSE_MS, self._desk.clock.now()

    def next_deadline(self) -> Moment | None:
        return self._due if self._watched else None

    def collect_all(self) -> Iterator[Unit]:
        """The letters of every bag that were not run: of the dead, and of those who may be stopped."""
        self._watched.update(self._desk.place.bags())
        yield from self._collect(also_living=True)

    def collect_due(self) -> Iterator[Unit]:
        """The letters of the dead, if it is time to look."""
        if self._watched and self._desk.clock.now() >= self._due:
            yield from self._collect(also_living=False)

    def _collect(self, *, also_living: bool) -> Iterator[Unit]:
        for path in sorted(self._watched):
            # One that cannot be read, or not by this version, must not keep the others from their work.
            try:
                yield from self._open(path, also_living=also_living)
            except GangerError as error:
                self._tell_refused(path, error)
        self._watched = {path for path in self._watched if path.exists()}
        self._due = Moment(self._desk.clock.now() + self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_MS)

    def _tell_refused(self, path: Path, error: GangerError) -> None:
        """Once for each: it is looked at again and again."""
        if path not in self._refused:
            self._refused.add(path)
            self._desk.telemetry.event("bag_refused", path=str(path), error=error.message)

    def _open(self, path: Path, *, also_living: bool) -> Iterator[Unit]:
        client = client_of(path)
        try:
            bag = open_bag(path, self._desk.place.database)
        except FileNotFoundError:
            return
        try:
            is_dead = _lock(bag)
            read = read_opened(bag, client) if is_dead or also_living else _EMPTY
            letters = [self._make_unit(client, call) for call in read.calls]
            if not is_dead:
                self._seen.update(unit.identity for unit in letters)
            new = self._leave_out_run(client, letters)
        except BaseException:
            os.close(bag)
            raise
        waiter = Found(bag, len(new), partial(self._remove, path, read), stays=not is_dead)
        waiter.close_if_done()
        for unit in new:
            yield unit._replace(waiter=waiter)

    def _remove(self, path: Path, read: Letters) -> None:
        if not read.damage:
            path.unlink(missing_ok=True)
            return
        kept = self._desk.place.damaged(f"bag-{client_of(path).hex()}")
        with suppress(FileNotFoundError):
            path.rename(kept)
            self._desk.telemetry.event(
                "bag_damaged", kept=str(kept), letters_run=len(read.calls), damage="; ".join(read.damage[:_TOLD])
            )

    def _make_unit(self, client: ClientId, call: Call) -> Unit:
        identity = Identity(client, call.slot, call.seq)
        return Unit(call.operation, self._read(call), _NOBODY, identity, again=True, letter=True)

    def _leave_out_run(self, client: ClientId, letters: list[Unit]) -> list[Unit]:
        if not letters:
            return []
        run = dict(self._file.connection.execute(self._file.queries["units_of"], (client,)))
        return [
            unit for unit in letters if unit.identity is not None and run.get(unit.identity.slot, 0) < unit.identity.seq
        ]

    def _read(self, call: Call) -> object:
        try:
            return self._desk.catalogue.find(call.operation).requests.decode(call.body)
        except msgspec.MsgspecError as error:
            raise StoreBroken(f"a letter does not fit {call.operation!r}: {error}") from error


class _Nobody:
    def tell(self, outcome: Outcome, post: Post) -> None:
        """Nobody waits."""


_NOBODY: Final = _Nobody()


def _lock(bag: int) -> bool:
    try:
        fcntl.flock(bag, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
