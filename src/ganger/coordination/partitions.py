"""Work in portions that nodes take by locking them: made by the leader, held, done, and removed by the leader.

A partition is a lock document that also has what is to be done: `{"holder", "expire", "task": <base64>, "state":
"outstanding" | "done"}`. A holder makes it "in progress". Followers look at the `expire` of all partitions with one
request, and take what is free as far as they have spare workers: each begins at another place, by its position in the
list of members, and pauses at random between two, so that portions spread evenly without a word between the nodes. A
follower that is gone loses its partitions when their leases end.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from ganger.coordination.backend import Document, Listed, Listing, bad_document
from ganger.coordination.hold import Hold
from ganger.coordination.lease import Lease, Terms, read_lease
from ganger.coordination.lock import Busy, Lock
from ganger.coordination.room import Room
from ganger.core import names
from ganger.core.clock import Wall
from ganger.core.errors import BadDocument, StaleVersion

FIELDS: Final = ("holder", "expire", "state")
_PAUSE: Final = 0.02


class State(StrEnum):
    OUTSTANDING = "outstanding"
    DONE = "done"


class Partition(NamedTuple):
    """A partition as a list shows it."""

    name: str
    lease: Lease
    state: State

    def is_free(self, at: Wall) -> bool:
        """May it be taken, by the store's clock? A hint."""
        return self.state == State.OUTSTANDING and self.lease.expire <= at


class Work(NamedTuple):
    """A partition that this process holds: what is to be done, and the hold that protects it."""

    name: str
    task: bytes
    hold: Hold

    async def done(self) -> bool:
        """Say that it is done. False: it was lost before, and may be done again by another."""
        return await self.hold.finish({**self.hold.document, "holder": "", "expire": 0, "state": State.DONE})

    async def release(self) -> None:
        """Give it back undone."""
        await self.hold.finish({**self.hold.document, "holder": "", "expire": 0})


def read_state(name: str, document: Document) -> State:
    """BadDocument if it is in no state that there is."""
    try:
        return State(document["state"])
    except (KeyError, ValueError):
        raise bad_document(name, f"its state is {document.get('state')!r:.80}, neither outstanding nor done") from None


def read_task(name: str, document: Document) -> bytes:
    task = document.get("task")
    try:
        if isinstance(task, str):
            return base64.b64decode(task, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise bad_document(name, "its task is not base64")


class Partitions:
    """The partitions of one cluster."""

    def __init__(self, room: Room, cluster: str, terms: Terms) -> None:
        self.prefix = f"partition/{cluster}/"
        self._room = room
        self._terms = terms

    async def create(self, name: str, task: bytes) -> bool:
        """For the leader: make a partition; False if there is one of this name, whatever is in it."""
        names.check("partition", name)
        document = {"holder": "", "expire": 0, "task": base64.b64encode(task).decode(), "state": State.OUTSTANDING}
        try:
            await self._room.backend.write(f"{self.prefix}{name}", document, None)
        except StaleVersion:
            return False
        return True

    async def look(self) -> Listing:
        """Who holds what, in one request."""
        return await self._room.backend.list(self.prefix, FIELDS)

    def read(self, listing: Listing) -> Sequence[Partition]:
        """What a look has shown; a document that is no partition is left out."""
        found = []
        for entry in listing.entries:
            try:
                found.append(self._read(entry))
            except BadDocument:
                continue
        return found

    def _read(self, entry: Listed) -> Partition:
        lease = read_lease(entry.name, entry.fields)
        return Partition(entry.name.removeprefix(self.prefix), lease, read_state(entry.name, entry.fields))

    async def remove_done(self) -> Sequence[str]:
        """For the leader: take away what is done; the names of those that were."""
        removed = []
        for entry in (await self.look()).entries:
            if entry.fields.get("state") == State.DONE:
                try:
                    await self._room.backend.delete(entry.name, entry.version)
                except StaleVersion:
                    continue
                removed.append(entry.name.removeprefix(self.prefix))
        return removed

    async def take(self, holder: str, spare: int, position: int, members: int) -> list[Work]:
        """For a follower: take as many free partitions as it has spare workers, beginning at its own place."""
        listing = await self.look()
        self._note(listing)
        free = [partition for partition in self.read(listing) if partition.is_free(listing.at)]
        start = position * len(free) // max(1, members)
        taken: list[Work] = []
        for partition in (*free[start:], *free[:start]):
            if len(taken) >= spare:
                break
            if (work := await self._try(partition.name, holder)) is not None:
                taken.append(work)
                await asyncio.sleep(_PAUSE * self._room.entropy.uniform())
        return taken

    def _note(self, listing: Listing) -> None:
        """Remember what was seen: who takes a late partition must have seen it unchanged for a ttl."""
        now = self._room.clock.now()
        for entry in listing.entries:
            try:
                lease = read_lease(entry.name, entry.fields)
            except BadDocument:
                continue
            self._room.sights.see(entry.name, entry.version, lease, listing.at, now)

    async def _try(self, name: str, holder: str) -> Work | None:
        lock = Lock(self._room, f"{self.prefix}{name}", self._terms, holder)
        reading = await lock.look()
        if reading.document is None or read_state(lock.name, reading.document) != State.OUTSTANDING:
            return None
        found = await lock.attempt()
        if isinstance(found, Busy):
            return None
        try:
            if read_state(lock.name, found.document) == State.OUTSTANDING:
                return Work(name, read_task(lock.name, found.document), found)
        except BadDocument:
            await found.release()
            raise
        await found.finish({**found.document, "holder": "", "expire": 0})
        return None
