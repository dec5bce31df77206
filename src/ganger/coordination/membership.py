"""Who is there: a list of nodes in one document, which each node puts itself into and a leader tidies.

The list is `{"nodes": [{"token": ..., "workers": ...}]}`: no node needs to know more about another. It is a hint, and
nothing depends on it but which partition is tried first: a node that is missing puts itself back, and one that is
there and dead costs an attempt. So the leader may remove conservatively, and a mistake heals by itself.

A node is removed when it is known to have timed out: it holds partitions and none of them in time, or it has a document
of its own (`{"holder", "expire"}`, which our nodes renew so that those without partitions are known too) and that has
ended; and the leader has seen so, unchanged, for a ttl. A foreign node without either is left alone.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganger.coordination.backend import Document, Listing, Reading, Version, bad_document
from ganger.coordination.hold import Hold
from ganger.coordination.lease import Terms, read_lease
from ganger.coordination.lock import Lock
from ganger.coordination.room import Room
from ganger.core.clock import Moment
from ganger.core.errors import BadDocument, BadNumber, GangerError, LockLost, StaleVersion
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

MOST_WORKERS: Final = 1 << 20
_TRIES: Final = 200


class Member(NamedTuple):
    """A node: by which token it is known, which is no secret, and how many tasks it works on at once."""

    id: str
    workers: int


def read_members(name: str, document: Document | None) -> list[Member]:
    """The nodes of a list, in its order. Raises BadDocument."""
    nodes = [] if document is None else document.get("nodes")
    if not isinstance(nodes, list):
        raise bad_document(name, "it has no list of nodes")
    return [_read_member(name, node) for node in nodes]


def _read_member(name: str, node: Any) -> Member:
    if isinstance(node, Mapping):
        token, workers = node.get("token"), node.get("workers")
        if isinstance(token, str) and token and type(workers) is int and 0 <= workers <= MOST_WORKERS:
            return Member(token, workers)
    raise bad_document(name, f"{node!r:.80} is no node: it needs a token and a number of workers")


class Members:
    """The list of one cluster, and the documents of those who are in it."""

    def __init__(self, room: Room, cluster: str, terms: Terms) -> None:
        self.name = f"members/{cluster}"
        self.prefix = f"member/{cluster}/"
        self._room = room
        self._terms = terms
        self._doubts: dict[str, tuple[object, Moment]] = {}

    async def list(self) -> Sequence[Member]:
        return read_members(self.name, (await self._room.backend.read(self.name)).document)

    async def ensure(self, member: Member) -> int:
        """See that the member is in the list; its position there."""
        if not 0 <= member.workers <= MOST_WORKERS:
            raise BadNumber(f"a member has 0 to {MOST_WORKERS} workers, not {member.workers}", field="workers")
        for _ in range(_TRIES):
            reading = await self._room.backend.read(self.name)
            members = read_members(self.name, reading.document)
            if member in members:
                return members.index(member)
            await self._put([*(one for one in members if one.id != member.id), member], reading)
        raise StaleVersion(f"the list {self.name!r} changes all the time: try again", name=self.name)

    async def remove(self, ids: Sequence[str]) -> None:
        """See that none of these is in the list."""
        for _ in range(_TRIES):
            reading = await self._room.backend.read(self.name)
            members = read_members(self.name, reading.document)
            kept = [member for member in members if member.id not in ids]
            if len(kept) == len(members):
                return
            await self._put(kept, reading)

    async def _put(self, members: Sequence[Member], reading: Reading) -> None:
        """Write the list, if it is as it was read; else let others have theirs."""
        nodes = [{"token": member.id, "workers": member.workers} for member in members]
        try:
            await self._room.backend.write(self.name, {**(reading.document or {}), "nodes": nodes}, reading.version)
        except StaleVersion:
            await asyncio.sleep(0.02 * self._room.entropy.uniform())

    def own(self, id: str) -> Lock:
        """The document of a member of ours, as a lock that it holds."""
        return Lock(self._room, f"{self.prefix}{id}", self._terms, id)

    async def tidy(self, partitions: Listing) -> Sequence[str]:
        """For the leader: remove those that have timed out, given the `holder` and `expire` of all partitions."""
        own = await self._room.backend.list(self.prefix, ["holder", "expire"])
        late, there = _judge_holders(own), _judge_holders(partitions)
        gone = []
        for member in await self.list():
            seen = [judged[member.id] for judged in (late, there) if member.id in judged]
            # One sign of life is enough to be left alone.
            if seen and all(sign.late for sign in seen) and self._is_sure(member.id, seen):
                gone.append(member.id)
        await self.remove(gone)
        await self._forget(own, gone)
        return gone

    def _is_sure(self, id: str, mark: object) -> bool:
        """Has the very same been seen for a ttl?"""
        now = self._room.clock.now()
        known, since = self._doubts.get(id, (None, now))
        if known != mark:
            since = now
        self._doubts[id] = (mark, since)
        return now - since >= self._terms.ttl

    async def _forget(self, own: Listing, ids: Sequence[str]) -> None:
        for entry in own.entries:
            id = entry.name.removeprefix(self.prefix)
            if id in ids:
                self._doubts.pop(id, None)
                # Whoever has come back meanwhile has written it.
                try:
                    await self._room.backend.delete(entry.name, entry.version)
                except StaleVersion:
                    continue


class _Sign(NamedTuple):
    """What a member holds: is all of it late, and by which versions is that known?"""

    late: bool = True
    marks: tuple[tuple[str, Version], ...] = ()


def _judge_holders(listing: Listing) -> dict[str, _Sign]:
    judged: dict[str, _Sign] = {}
    for entry in listing.entries:
        try:
            lease = read_lease(entry.name, entry.fields)
        except BadDocument:
            continue
        if lease.holder and lease.expire:
            known = judged.get(lease.holder, _Sign())
            late = known.late and lease.expire < listing.at
            judged[lease.holder] = _Sign(late, (*known.marks, (entry.name, entry.version)))
    return judged


class Presence(Service):
    """Keeps a member in the list as long as it lives, and leaves well when it is drained or stopped."""

    def __init__(self, members: Members, member: Member, terms: Terms, telemetry: Telemetry = SILENT) -> None:
        super().__init__(f"presence {member.id}", telemetry=telemetry)
        self.position = 0
        self.ready = asyncio.Event()
        self._members = members
        self._member = member
        self._terms = terms
        self._hold: Hold | None = None

    async def run(self) -> None:
        lock = self._members.own(self._member.id)
        try:
            while not self.draining.is_set():
                if self._hold is None or not self._hold.is_trusted:
                    self._hold = await lock.acquire(None)
                self.position = await self._members.ensure(self._member)
                self.ready.set()
                await self._pause()
        finally:
            await self._leave()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._terms.renewal / 1_000):
                await self.draining.wait()
        except TimeoutError:
            return

    async def _leave(self) -> None:
        """Say goodbye; a store that does not hear it has the leader tidy up."""
        if self._hold is not None:
            await self._hold.release()
            with contextlib.suppress(GangerError):
                await self._members.remove([self._member.id])

    def check(self) -> None:
        """Raise LockLost if others may think that this member is gone."""
        if self._hold is None:
            raise LockLost("the member has not joined yet", lock=self._members.name)
        self._hold.check()
