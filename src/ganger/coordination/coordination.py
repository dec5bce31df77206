"""The door: everything that is coordinated over one backend, by name."""

import asyncio
from collections.abc import Sequence
from typing import Final

from ganger.coordination.backend import Backend, Document, Version
from ganger.coordination.election import Candidate, Duty, Reign, find_leader
from ganger.coordination.lease import DEFAULT_TTL, check_terms
from ganger.coordination.lock import Lock
from ganger.coordination.membership import Member, Members, Presence
from ganger.coordination.partitions import Partitions
from ganger.coordination.room import Room, make_holder
from ganger.coordination.semaphore import Semaphore
from ganger.core import names
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import StaleVersion

DEFAULT_CLUSTER: Final = "default"
_TRIES: Final = 200


class Coordination:
    """Locks, semaphores, leaders and clusters of the store that the backend is. Times are milliseconds."""

    def __init__(self, backend: Backend, clock: Clock, entropy: Entropy) -> None:
        self.backend = backend
        self._room = Room.of(backend, clock, entropy)

    def lock(self, name: str, *, ttl: int = DEFAULT_TTL) -> Lock:
        return Lock(self._room, f"lock/{names.check('lock', name)}", check_terms(ttl))

    def semaphore(self, name: str, slots: int, *, ttl: int = DEFAULT_TTL) -> Semaphore:
        return Semaphore(self._room, f"semaphore/{names.check('semaphore', name)}", slots, check_terms(ttl))

    def leader(self, name: str, *, ttl: int = DEFAULT_TTL) -> Lock:
        """The lock whose holder leads: wait for it with `acquire(None, eager=False)`, or stand by `candidate`."""
        return Lock(self._room, f"leader/{names.check('leader', name)}", check_terms(ttl))

    def candidate(self, name: str, duty: Duty, *, ttl: int = DEFAULT_TTL) -> Candidate:
        return Candidate(self.leader(name, ttl=ttl), duty)

    async def find_leader(self, name: str) -> Reign:
        return await find_leader(self.leader(name))

    def cluster(self, name: str = DEFAULT_CLUSTER, *, ttl: int = DEFAULT_TTL) -> "Cluster":
        return Cluster(self._room, names.check("cluster", name), ttl)

    async def release_all(self) -> None:
        """Give back whatever this process still holds: at the end, so that nobody waits for a ttl."""
        await asyncio.gather(*(hold.release() for hold in list(self._room.holds)))

    async def list_leaders(self) -> Sequence[tuple[str, Reign]]:
        """All leaders that there are or were, by name."""
        listing = await self.backend.list("leader/", ["holder", "expire"])
        found = [entry.name.removeprefix("leader/") for entry in listing.entries]
        return [(name, await self.find_leader(name)) for name in found]


class Cluster:
    """Nodes that share work: who they are, what is to be done, and how they are configured.

    All of it lies in the store: a cluster of which everything went down comes up again from there.
    """

    def __init__(self, room: Room, name: str, ttl: int = DEFAULT_TTL) -> None:
        self.name = name
        self.terms = check_terms(ttl)
        self.members = Members(room, name, self.terms)
        self.partitions = Partitions(room, name, self.terms)
        self._room = room
        self._configuration = f"configuration/{name}"

    def join(self, workers: int, id: str | None = None) -> Presence:
        """A service that keeps a member with so many workers in the list."""
        return Presence(self.members, Member(id or make_holder(self._room.entropy), workers), self.terms)

    async def tidy(self) -> Sequence[str]:
        """For the leader: remove members that have timed out, and partitions that are done."""
        gone = await self.members.tidy(await self.partitions.look())
        await self.partitions.remove_done()
        return gone

    async def read_configuration(self) -> Document:
        return (await self._room.backend.read(self._configuration)).document or {}

    async def configure(self, changes: Document) -> Version:
        """Change these fields of the configuration, whatever else others change at the same time."""
        for _ in range(_TRIES):
            reading = await self._room.backend.read(self._configuration)
            try:
                document = {**(reading.document or {}), **changes}
                return (await self._room.backend.write(self._configuration, document, reading.version)).version
            except StaleVersion:
                continue
        raise StaleVersion(f"{self._configuration!r} changes all the time: try again", name=self._configuration)
