"""Those who wait for the same: what one of them learns about the store is true for all."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from ganger.core.clock import Wall
from ganger.core.ids import NodeId
from ganger.core.task import Claimed, Eager
from ganger.engine.store import Claim, Exchanged

WIDEST: Final = 64
"""So many of a party ask at once at most."""

SPEAK_FOR_ALL: Final = 2


class Waiter:
    """One who waits. `late`: its time was up while it asked, so it takes what it gets."""

    __slots__ = ("answer", "asking", "claim", "eager", "late", "party", "ticket")

    def __init__(self, ticket: int, claim: Claim, eager: Eager | None = None) -> None:
        self.ticket = ticket
        self.party: Party | None = None
        self.claim = claim
        self.eager = eager
        self.answer: asyncio.Future[list[Claimed]] = asyncio.get_running_loop().create_future()
        self.asking = False
        self.late = False

    def expire(self) -> None:
        if self.asking:
            self.late = True
        elif not self.answer.done():
            self.answer.set_result([])

    def keeps(self, claimed: list[Claimed]) -> bool:
        """An answer that came too late is taken after all if it was begun."""
        return self.eager is not None and self.eager.keep(claimed)


class Question(NamedTuple):
    """What a waiter left with the store, and what takes it back."""

    number: int
    waiter: Waiter
    take_back: Callable[[], bool]


class Party:
    """Waiters to whom the same tasks are open, in the order in which they came.

    `barren` are the holders that got nothing since the last wake-up, with whether a limit was the cause. `personal`:
    some limit is counted per node, so the limit of one says nothing about another. `streaming`: a wake-up came while
    the last question was out. `question` was left with the store by one of them.
    """

    __slots__ = (
        "barren",
        "due",
        "key",
        "looking",
        "personal",
        "question",
        "streaming",
        "topics",
        "waiters",
        "wakes",
        "width",
    )

    def __init__(self, key: Hashable, topics: tuple[str, ...], personal: bool) -> None:
        self.key = key
        self.topics = topics
        self.personal = personal
        self.waiters: OrderedDict[int, Waiter] = OrderedDict()
        self.barren: dict[NodeId, bool] = {}
        self.wakes = 0
        self.width = 1
        self.due: Wall | None = None
        self.looking = False
        self.streaming = False
        self.question: Question | None = None

    @property
    def limited(self) -> bool:
        return any(self.barren.values())

    def wake(self) -> None:
        """Something may have come: whatever was learnt before counts no more."""
        self.wakes += 1
        self.barren.clear()
        self.due = None
        self.looking = bool(self.waiters)

    def enter(self, waiter: Waiter, wall: Wall) -> None:
        idle_at_limit = self.limited and not self.waiters
        self.waiters[waiter.ticket] = waiter
        waiter.party = self
        if idle_at_limit or (self.due is not None and self.due <= wall):
            self.wake()
        if not self._spoken_for() and waiter.claim.holder not in self.barren:
            self.looking = True

    def leave(self, waiter: Waiter) -> None:
        self.waiters.pop(waiter.ticket, None)

    def eldest(self) -> Waiter | None:
        """Who would be served first."""
        return next((waiter for waiter in self.waiters.values() if not waiter.answer.done()), None)

    def take_back(self, waiter: Waiter | None = None) -> None:
        """Take back the question that was left, or only if that waiter left it. If it is too late the answer comes."""
        if (question := self.question) is not None and waiter in (None, question.waiter):
            self.question = None
            question.take_back()

    def askers(self) -> list[Waiter]:
        """Who asks next; when there is nobody the party looks no more."""
        found = list(islice(self._eligible(), self.width)) if self.looking else []
        self.looking = bool(found)
        return found

    def _eligible(self) -> Iterator[Waiter]:
        barren = self.barren
        return (
            waiter for waiter in self.waiters.values() if waiter.claim.holder not in barren and not waiter.answer.done()
        )

    def served(self) -> None:
        self.width = min(self.width * 2, WIDEST)

    def got_nothing(self, holder: NodeId, reply: Exchanged, wakes: int) -> None:
        """`wakes` is the count at the time of asking: an answer from before the last one counts for nothing."""
        self.width = 1
        self.got_the_rest(holder, reply, wakes)

    def got_the_rest(self, holder: NodeId, reply: Exchanged, wakes: int) -> None:
        """It got less than it asked for, so nothing is left for it: it need not ask to find that out."""
        if wakes != self.wakes:
            return
        self.barren[holder] = reply.waiting
        # What opens to one of them at some time may open to another later, or never.
        self.due = min((due for due in (self.due, reply.next_due) if due is not None), default=None)
        if self._spoken_for():
            self.looking = False

    def _spoken_for(self) -> bool:
        voices = sum(not (limited and self.personal) for limited in self.barren.values())
        return voices >= SPEAK_FOR_ALL
