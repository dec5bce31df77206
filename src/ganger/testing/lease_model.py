"""What a lease promises, as a sequential model of one task.

One holder at a time; each grant has a larger fence than all before; a write is accepted exactly if it names the fence
of the lease that is valid at that instant; after the settling write nothing is accepted any more.

The end of a lease is an operation too. If the history knows when upkeep ended it, record `Expire` with its result. If
nobody saw it, add one unknown `Expire` for each grant, called at the first instant at which that lease may end: the
checker then finds leases that ended earlier than allowed as well.

The unfenced variant accepts a write while the task is held by anybody. It describes a lock that forgets to check, and
serves to show that it is the fence, and nothing else, that such a history breaks.
"""

import enum
from dataclasses import dataclass, replace
from typing import assert_never

from ganger.testing.linearizability import UNKNOWN, Unknown


@dataclass(frozen=True, slots=True)
class Acquire:
    holder: str


@dataclass(frozen=True, slots=True)
class Renew:
    fence: int


@dataclass(frozen=True, slots=True)
class Release:
    fence: int


@dataclass(frozen=True, slots=True)
class Settle:
    fence: int


@dataclass(frozen=True, slots=True)
class Expire:
    pass


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease was given, or ended by upkeep, and the task's fence is now this."""

    fence: int


class Answer(enum.Enum):
    ACCEPTED = "accepted"
    REFUSED = "refused"


LeaseOp = Acquire | Renew | Release | Settle | Expire
LeaseResult = Granted | Answer


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The fence is a lower bound where a grant's own is unknown: its holder cannot name it either."""

    fence: int = 0
    held: bool = False
    settled: bool = False


@dataclass(frozen=True, slots=True)
class LeaseModel:
    fenced: bool = True

    def start(self) -> LeaseState:
        return LeaseState()

    def step(self, state: LeaseState, op: LeaseOp, result: LeaseResult | Unknown) -> LeaseState | None:
        after = self._allowed(state, op)
        if after is None:
            return state if result in (Answer.REFUSED, UNKNOWN) else None
        if isinstance(result, Granted):
            grants = isinstance(op, Acquire | Expire) and result.fence > state.fence
            return replace(after, fence=result.fence) if grants else None
        # An accepted claim must say its fence; an unknown one may have happened all the same.
        accepted = result is UNKNOWN or (result is Answer.ACCEPTED and not isinstance(op, Acquire))
        return after if accepted else None

    def _allowed(self, state: LeaseState, op: LeaseOp) -> LeaseState | None:
        """The state after the operation if the model accepts it now, whatever it was answered."""
        match op:
            case Acquire():
                free = not state.held and not state.settled
                return replace(state, fence=state.fence + 1, held=True) if free else None
            case Expire():
                return replace(state, held=False) if state.held else None
            case Renew(fence):
                return state if self._holds(state, fence) else None
            case Release(fence):
                return replace(state, held=False) if self._holds(state, fence) else None
            case Settle(fence):
                return replace(state, held=False, settled=True) if self._holds(state, fence) else None
            case _:
                assert_never(op)

    def _holds(self, state: LeaseState, fence: int) -> bool:
        return state.held and (fence == state.fence or not self.fenced)
