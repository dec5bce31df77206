"""What a node has in its hands: every attempt from its claim to its settle, and what the node itself wants of it."""

import asyncio
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, assert_never

from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Killed, Outcome, Release
from ganger.core.task import Claimed
from ganger.node.executor import BatchExecutor, Ended, Executor, Run
from ganger.node.source import Finished
from ganger.node.spool import Spool

Key = tuple[TaskId, Fence]
KILLED_EARLY: Final = "killed before it began"


class Wish(Enum):
    """What the node asked for: nothing, that it dies, that it goes back untried, or that nobody hears of it again."""

    NONE = "none"
    KILL = "kill"
    HAND_BACK = "hand back"
    DROP = "drop"


class Hand:
    """One attempt, an executor's or a batch executor's. `run` is there once an executor has begun it.

    `is_told`: the source was told that it runs. `is_over`: it has ended, and nothing of it runs.
    """

    __slots__ = ("batch", "claimed", "executor", "is_over", "is_told", "run", "wish")

    def __init__(
        self, claimed: Claimed, executor: Executor | None, batch: BatchExecutor | None = None, run: Run | None = None
    ) -> None:
        self.claimed = claimed
        self.executor = executor
        self.batch = batch
        self.run = run
        self.is_told = False
        self.is_over = False
        self.wish = Wish.NONE

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


class Settlement(NamedTuple):
    """An attempt that has ended and is to be settled. `streams` are in its executor's spool."""

    claimed: Claimed
    outcome: Outcome
    data: Mapping[str, bytes]
    streams: Sequence[str] = ()
    hand: Hand | None = None

    @property
    def finished(self) -> Finished:
        return Finished(self.claimed, self.outcome, self.data)


class Hands:
    """All of them. `woken` is set when something is to be settled, `emptied` while nothing is held."""

    def __init__(self) -> None:
        self.held: dict[Key, Hand] = {}
        self.woken = asyncio.Event()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self._ended: list[Settlement] = []

    @property
    def is_empty(self) -> bool:
        return not self.held and not self._ended

    def add(self, hands: Sequence[Hand]) -> None:
        self.held |= {hand.key: hand for hand in hands}
        self.emptied.clear()

    def end(self, hand: Hand, ended: Ended) -> bool:
        """It has ended, and nothing of it runs; False if nobody is to hear of it."""
        self.held.pop(hand.key, None)
        hand.is_over = True
        self.woken.set()
        if not self.held:
            self.emptied.set()
        if hand.wish is Wish.DROP:
            return False
        outcome = hand.outcome_of(ended.outcome)
        self._ended.append(Settlement(hand.claimed, outcome, ended.data, ended.streams, hand))
        return True

    def add_ended(self, claimed: Claimed, outcome: Outcome) -> None:
        """One that this node never had in its hands, and has to settle nevertheless."""
        self._ended.append(Settlement(claimed, outcome, {}))
        self.woken.set()

    def take_ended(self) -> list[Settlement]:
        ended, self._ended = self._ended, []
        return ended

    def put_back(self, ended: Sequence[Settlement]) -> None:
        """They could not be settled now."""
        self._ended[:0] = ended

    def drop_ended(self) -> int:
        """Forget what could not be settled: its leases are lost."""
        return len(self.take_ended())

    def known(self) -> frozenset[Key]:
        """Every attempt that is on its way through this node."""
        return frozenset(self.held) | {(one.claimed.id, one.claimed.fence) for one in self._ended}

    def of(self, task: TaskId) -> list[Hand]:
        return [hand for (number, _), hand in self.held.items() if number == task]
