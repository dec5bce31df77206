"""Units of this process that were sent to the owner and have no answer yet.

Each has a slot and a number. They outlive the connection, and the owner: whoever answers next, another owner or this
process itself, gets them again under the same identity, so that none is done twice.
"""

from typing import NamedTuple

from ganger.core.clock import Moment
from ganger.databases.sqlite.unit import ClientId, Identity, Unit


class Sent(NamedTuple):
    """A unit on its way, as it was first sent; of a letter `body` is nothing, its unit has the whole call."""

    unit: Unit
    slot: int
    seq: int
    body: bytes
    at: Moment


class Outstanding:
    """`len` counts those that somebody waits for: a letter is safe without an answer, and holds nobody up."""

    __slots__ = ("_client", "_free", "_letters", "_sent", "_seq")

    def __init__(self, client: ClientId, slots: int) -> None:
        self._client = client
        self._free = list(range(slots))
        self._seq = 0
        self._sent: dict[int, Sent] = {}
        self._letters: dict[int, Sent] = {}

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def room(self) -> int:
        return len(self._free)

    def add(self, unit: Unit, body: bytes, now: Moment) -> Sent:
        """Give the unit an identity. There must be room."""
        self._seq += 1
        sent = Sent(unit, self._free.pop(), self._seq, body, now)
        self._sent[sent.slot] = sent
        return sent

    def add_letter(self, unit: Unit, identity: Identity, now: Moment) -> Sent:
        """A letter has its own slot and number, which its bag knows too."""
        sent = Sent(unit, identity.slot, identity.seq, b"", now)
        self._letters[sent.slot] = sent
        return sent

    def settle(self, slot: int, seq: int) -> Unit | None:
        """The unit that this answer is for; None if nobody waits for it any more."""
        sent = self._sent.get(slot) or self._letters.get(slot)
        if sent is None or sent.seq != seq:
            return None
        return self._remove(sent)

    def _remove(self, sent: Sent) -> Unit:
        if self._letters.pop(sent.slot, None) is None:
            del self._sent[sent.slot]
            self._free.append(sent.slot)
        return sent.unit

    def in_order(self) -> list[Sent]:
        """All of them: letters, which may be many, behind what somebody waits for."""
        return [*_by_number(self._sent), *_by_number(self._letters)]

    def oldest(self) -> Moment | None:
        """When the first of those without an answer was sent."""
        return min((sent.at for sent in self._sent.values()), default=None)

    def give_up(self, before: Moment) -> list[Unit]:
        """The units sent before a moment; they are not waited for any more."""
        return [self._remove(sent) for sent in _by_number(self._sent) if sent.at < before]

    def drain(self) -> list[Unit]:
        """All of them, under their identities, for an owner in this very process."""
        units = [
            sent.unit._replace(identity=Identity(self._client, sent.slot, sent.seq), again=True)
            for sent in self.in_order()
        ]
        for sent in self.in_order():
            self._remove(sent)
        return units


def _by_number(sent: dict[int, Sent]) -> list[Sent]:
    return sorted(sent.values(), key=lambda each: each.seq)
