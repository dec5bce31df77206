"""What a node has in its hands: every attempt from its claim to its settle, and what the node itself wants of it."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, assert_never

import msgspec

from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Killed, Outcome, Release
from ganger.core.task import Claimed
from ganger.node.executor import BatchExecutor, Ended, Executor, Run
from ganger.node.source import Finished
from ganger.node.spool import Spool

Key = tuple[TaskId, Fence]
KILLED_EARLY: Final = "killed before it began"
_MOST_RENOUNCED: Final = 1_000


class Wish(Enum):
    """What the node asked for: nothing, that it dies, that it goes back untried, or that nobody hears of it again."""

    NONE = "none"
    KILL = "kill"
    HAND_BACK = "hand back"
    DROP = "drop"


class Hand(msgspec.Struct, eq=False):
    """One attempt, an executor's or a batch executor's. `run` is there once an executor has begun it.

    `has_begun`: an executor's runs. `is_told`: the source was told so. `is_over`: it has ended, and nothing of it runs.
    """

    claimed: Claimed
    executor: Executor | None
    batch: BatchExecutor | None = None
    run: Run | None = None
    has_begun: bool = False
    is_told: bool = False
    is_over: bool = False
    wish: Wish = Wish.NONE

    @property
    def spool(self) -> Spool | None:
        performer = self.executor or self.batch
        return None if performer is None else performer.spool

    @property
    def key(self) -> Key:
        return self.claimed.id, self.claimed.fence

    def outcome_of(self, outcome: Outcome) -> Outcome:
        """The outcome in the light of what was asked for.

        Who was to be killed is killed, begun or not, or else it would run again. Who is handed back was stopped for the
        node's sake, and is not to be ended for that.
        """
        match self.wish:
            case Wish.KILL:
                return Killed(KILLED_EARLY) if isinstance(outcome, Release) else outcome
            case Wish.HAND_BACK:
                return Release() if isinstance(outcome, Killed) else outcome
            case Wish.NONE | Wish.DROP:
                return outcome
            case _:
                assert_never(self.wish)


class Remains(NamedTuple):
    """What an attempt that has ended leaves here until it is settled: its run, and streams in its executor's spool."""

    hand: Hand
    streams: Sequence[str]


class Hands:
    """All of them. `woken` is set when something is to be settled, `emptied` while nothing is held.

    `settled` is set when the last of them has been settled, until there are others. `doubted` is set while something
    may be leased to the node that is not here: see Strays.
    """

    def __init__(self) -> None:
        self.held: dict[Key, Hand] = {}
        self.woken = asyncio.Event()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.settled = asyncio.Event()
        self.doubted = asyncio.Event()
        self._ended: list[Finished] = []
        self._leaving: set[Key] = set()
        self._renounced: dict[Key, None] = {}
        self._remains: dict[Key, Remains] = {}

    @property
    def is_empty(self) -> bool:
        return not self.held and not self._ended

    def add(self, hands: Sequence[Hand]) -> None:
        self.held |= {(hand.claimed.id, hand.claimed.fence): hand for hand in hands}
        self.emptied.clear()
        self.settled.clear()
        self.doubted.set()

    def end(self, ends: Sequence[tuple[Hand, Ended]]) -> None:
        """These have ended, and nothing of them runs. Nobody hears of those that are to be dropped."""
        held, finished = self.held, self._ended
        for hand, (outcome, data, streams) in ends:
            claimed = hand.claimed
            held.pop((claimed.id, claimed.fence), None)
            hand.is_over = True
            if hand.wish is not Wish.DROP:
                kept = outcome if hand.wish is Wish.NONE else hand.outcome_of(outcome)
                finished.append(Finished(claimed, kept, data))
                # Most leave nothing: what costs a look is kept for the others alone.
                if hand.run is not None or streams:
                    self._remains[hand.key] = Remains(hand, streams)
        self.woken.set()
        if not held:
            self.emptied.set()

    def add_ended(self, claimed: Claimed, outcome: Outcome) -> None:
        """One that this node never had in its hands, and has to settle nevertheless."""
        self._ended.append(Finished(claimed, outcome))
        self.woken.set()

    def renounce(self, claimed: Claimed, outcome: Outcome) -> None:
        """The same of one that may yet come: it is not to be begun then."""
        self._renounced[claimed.id, claimed.fence] = None
        while len(self._renounced) > _MOST_RENOUNCED:
            del self._renounced[next(iter(self._renounced))]
        self.add_ended(claimed, outcome)

    def without_renounced(self, claimed: Sequence[Claimed]) -> Sequence[Claimed]:
        if not self._renounced:
            return claimed
        return [one for one in claimed if (one.id, one.fence) not in self._renounced]

    def take_ended(self) -> list[Finished]:
        """These are being settled, until `take_remains` or `put_back` says how that went."""
        ended, self._ended = self._ended, []
        self._leaving.update((one.claimed.id, one.claimed.fence) for one in ended)
        return ended

    def take_remains(self, settled: Sequence[Finished]) -> list[Remains]:
        """What these leave behind: they are settled, or nobody wants them any more."""
        if self.is_empty:
            self.settled.set()
        keys = [(one.claimed.id, one.claimed.fence) for one in settled]
        self._leaving.difference_update(keys)
        if not self._remains:
            return []
        return [self._remains.pop(key) for key in keys if key in self._remains]

    def put_back(self, ended: Sequence[Finished]) -> None:
        """They could not be settled now."""
        self._leaving.difference_update((one.claimed.id, one.claimed.fence) for one in ended)
        self._ended[:0] = ended

    def drop_ended(self) -> int:
        """Forget what could not be settled: its leases are lost."""
        dropped = self.take_ended()
        self.take_remains(dropped)
        return len(dropped)

    def known(self) -> frozenset[Key]:
        """Every attempt that is on its way through this node."""
        return frozenset(self.held) | self._leaving | {(one.claimed.id, one.claimed.fence) for one in self._ended}

    def of(self, task: TaskId) -> list[Hand]:
        return [hand for (number, _), hand in self.held.items() if number == task]
