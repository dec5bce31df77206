"""When a lock may be taken, how long its holder may trust it, and why both are safe.

A lock is a document `{"holder": <token>, "expire": <milliseconds since 1970>}`. It is free when it is absent or its
`expire` is 0; else its holder has to renew it before `expire`. Machines have clocks that differ and jump, processes are
stopped and machines sleep, so two rules that mirror each other are needed:

- **The holder** trusts the lock until *the moment at which it sent the write* + ttl - margin, on its own boot clock,
  which counts the time that the machine slept and that no wall clock moves. When that has come it does nothing under
  the lock, whatever it has not heard.
- **A contender** takes it only if the store's wall clock is past `expire` + margin *and* it has itself seen this very
  version, unchanged, for at least a ttl on its own boot clock. Versions are never given twice, so two sights of one
  version mean that nobody wrote in between; and it saw the version after the holder had sent it. So when a ttl has
  passed for the contender, more than the holder's trusted time has passed for the holder. No wall clock takes part in
  this: the first half of the rule keeps a foreign program's longer lease, and could be dropped without harm.

What remains is a holder that acted while it trusted the lock and whose act arrives after somebody else took it: a
request that was on its way, a thread that was stopped between its look at the clock and its write. No lock over a
network can prevent this. The *epoch* does: the version that the acquisition gave, which is higher for every later
holder. Whoever keeps the protected data keeps the highest epoch that it has seen, in the same transaction as the data,
and refuses lower ones (`coordination/fence.py`).

All contenders of a lock should have the same ttl. Where they differ, a contender takes the longer of its own and of
what the document says was left when it was first seen.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from ganger.coordination.backend import Document, Reading, Version, bad_document
from ganger.core.clock import Moment, Wall
from ganger.core.errors import BadNumber

DEFAULT_TTL: Final = 10_000
SHORTEST_TTL: Final = 100
LONGEST_TTL: Final = 24 * 60 * 60 * 1_000
_SIGHTS: Final = 20_000


class Terms(NamedTuple):
    """How long a lock is held for without a word, in milliseconds, and what follows from it."""

    ttl: int = DEFAULT_TTL

    @property
    def margin(self) -> int:
        """What clocks may drift apart in a ttl, and a little for scheduling."""
        return self.ttl // 10

    @property
    def renewal(self) -> int:
        return self.ttl // 3

    @property
    def look(self) -> int:
        """How often somebody looks who was asked to wait."""
        return self.ttl // 5


def check_terms(ttl: int) -> Terms:
    if not SHORTEST_TTL <= ttl <= LONGEST_TTL:
        raise BadNumber(f"a lock is held for 100 ms to a day without a word, not for {ttl} ms", field="ttl", value=ttl)
    return Terms(ttl)


class Lease(NamedTuple):
    """Who holds a document, and until when by the store's clock; 0 means that nobody does."""

    holder: str
    expire: int


FREE: Final = Lease("", 0)


def read_lease(name: str, document: Document | None) -> Lease:
    """What a lock document says. A holder may be missing where nobody holds it. Raises BadDocument."""
    if document is None:
        return FREE
    holder, expire = document.get("holder"), document.get("expire", 0)
    if not isinstance(holder, str | None):
        raise bad_document(name, f"its holder is {holder!r:.80}, and not a text")
    if isinstance(expire, bool) or not isinstance(expire, int) or expire < 0:
        raise bad_document(name, f"its expire is {expire!r:.80}, and not milliseconds since 1970")
    return Lease(holder or "", expire if holder else 0)


class Sight(NamedTuple):
    """Since when this process has seen a version, and how long that was to be left alone at first sight."""

    version: Version
    since: Moment
    left: int


class Sights:
    """What this process has seen of locks that others hold; the oldest are forgotten."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, Sight] = OrderedDict()

    def see(self, name: str, version: Version, lease: Lease, at: Wall, now: Moment) -> Sight:
        """Note that the document has this version now."""
        known = self._seen.get(name)
        if known is None or known.version != version:
            known = Sight(version, now, max(0, lease.expire - at))
        self._seen[name] = known
        self._seen.move_to_end(name)
        if len(self._seen) > _SIGHTS:
            self._seen.popitem(last=False)
        return known


def find_wait(name: str, reading: Reading, terms: Terms, sights: Sights, now: Moment) -> int:
    """Milliseconds after which the lock may be free; 0 if it may be taken now. Raises BadDocument."""
    lease = read_lease(name, reading.document)
    if reading.version is None or lease.expire == 0:
        return 0
    sight = sights.see(name, reading.version, lease, reading.at, now)
    expired = lease.expire + terms.margin - reading.at
    unseen = max(terms.ttl, min(sight.left, LONGEST_TTL)) - (now - sight.since)
    return max(0, expired + 1, unseen)
