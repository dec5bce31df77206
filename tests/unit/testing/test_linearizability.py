"""The checker accepts what one thread could have answered, and nothing else."""

import random
import time
from dataclasses import dataclass
from itertools import permutations

import pytest

from ganger.testing.lease_model import (
    Acquire,
    Answer,
    Expire,
    Granted,
    LeaseModel,
    LeaseOp,
    LeaseResult,
    Release,
    Renew,
    Settle,
)
from ganger.testing.linearizability import UNKNOWN, Operation, Unknown, describe, linearize

YES, NO = Answer.ACCEPTED, Answer.REFUSED
LeaseHistory = list[Operation[LeaseOp, LeaseResult]]


@dataclass(frozen=True)
class Write:
    value: int


@dataclass(frozen=True)
class Read:
    pass


class Register:
    """One cell: a write answers the value written, a read the value there."""

    def start(self) -> int:
        return 0

    def step(self, state: int, op: Write | Read, result: int | Unknown) -> int | None:
        if isinstance(op, Write):
            return op.value
        return state if result in (state, UNKNOWN) else None


CellHistory = list[Operation[Write | Read, int]]


def wrote(value: int, called: int, returned: int | None) -> Operation[Write | Read, int]:
    return Operation(Write(value), called, returned, UNKNOWN if returned is None else value)


def read(value: int, called: int, returned: int) -> Operation[Write | Read, int]:
    return Operation(Read(), called, returned, value)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [wrote(1, 0, 1), read(1, 2, 3)],
        [wrote(1, 0, 10), read(0, 1, 2), read(1, 3, 4)],
        [wrote(1, 0, 10), wrote(2, 0, 10), read(2, 11, 12), read(2, 13, 14)],
        [wrote(1, 0, None), read(0, 5, 6), read(1, 90, 91)],
        [wrote(1, 0, None), read(0, 90, 91)],
        [wrote(1, 0, 1), read(0, 1, 2)],
    ],
    ids=["empty", "plain", "overlap", "either-order", "unknown-late", "unknown-never", "touching-is-concurrent"],
)
def test_a_good_history_is_accepted(history: CellHistory) -> None:
    assert linearize(Register(), history)


@pytest.mark.parametrize(
    "history",
    [
        [wrote(1, 0, 1), read(0, 2, 3)],
        [wrote(1, 0, 10), read(1, 1, 2), read(0, 3, 4)],
        [wrote(1, 0, 1), wrote(2, 2, 3), read(1, 4, 5)],
        [wrote(1, 5, None), read(1, 1, 2)],
        [wrote(1, 0, None), read(1, 1, 2), read(0, 3, 4)],
        [read(7, 0, 1)],
    ],
    ids=["stale", "goes-back", "overwritten", "unknown-before-its-call", "unknown-undone", "invented"],
)
def test_a_bad_history_is_refused(history: CellHistory) -> None:
    assert not linearize(Register(), history)


def by_brute_force(history: CellHistory) -> bool:
    known = [operation for operation in history if operation.returned is not None]
    return any(
        in_order(order)
        for size in range(len(known), len(history) + 1)
        for order in permutations(history, size)
        if all(operation in order for operation in known)
    )


def in_order(order: tuple[Operation[Write | Read, int], ...]) -> bool:
    """Whether this order respects time and explains all answers."""
    state: int | None = 0
    for place, operation in enumerate(order):
        if any(later.returned is not None and later.returned < operation.called for later in order[place:]):
            return False
        state = Register().step(state or 0, operation.op, operation.result)
        if state is None:
            return False
    return True


def draw_history(rng: random.Random) -> CellHistory:
    history: CellHistory = []
    for _ in range(rng.randint(1, 5)):
        called = rng.randrange(10)
        returned = called + rng.randrange(6)
        if rng.random() < 0.5:
            history.append(wrote(rng.randrange(3), called, None if rng.random() < 0.3 else returned))
        else:
            history.append(read(rng.randrange(3), called, returned))
    return history


def test_the_search_agrees_with_trying_every_order() -> None:
    rng = random.Random(5)
    verdicts = []
    for _ in range(400):
        history = draw_history(rng)
        tried = by_brute_force(history)
        assert bool(linearize(Register(), history)) == tried, history
        verdicts.append(tried)
    assert 50 < sum(verdicts) < 350


def test_a_witness_explains_the_history() -> None:
    history = [read(1, 0, 10), wrote(1, 0, 10), read(0, 0, 10)]
    assert linearize(Register(), history).order == (history[2], history[1], history[0])


def test_a_refusal_shows_how_far_it_came_and_what_could_not_follow() -> None:
    verdict = linearize(Register(), [wrote(1, 0, 1), read(1, 2, 3), read(0, 4, 5)])
    assert describe(verdict) == "\n".join(
        ["  [0, 1] Write(value=1) -> 1", "  [2, 3] Read() -> 1", "? [4, 5] Read() -> 0"],
    )


def sequence(*steps: tuple[LeaseOp, LeaseResult]) -> LeaseHistory:
    return [Operation(op, 2 * place, 2 * place + 1, result) for place, (op, result) in enumerate(steps)]


A, B = Acquire("a"), Acquire("b")


@pytest.mark.parametrize(
    "history",
    [
        sequence((A, Granted(1)), (B, NO), (Renew(1), YES), (Settle(1), YES), (B, NO), (Settle(1), NO)),
        sequence((A, Granted(1)), (Expire(), Granted(2)), (Settle(1), NO), (B, Granted(3)), (Settle(3), YES)),
        sequence((A, Granted(4)), (Expire(), YES), (B, Granted(9)), (Renew(4), NO), (Release(4), NO), (Renew(9), YES)),
        sequence((A, Granted(1)), (Release(1), YES), (Renew(1), NO), (Expire(), NO), (A, Granted(2))),
    ],
)
def test_a_lease_that_keeps_its_word_is_accepted(history: LeaseHistory) -> None:
    verdict = linearize(LeaseModel(), history)
    assert verdict, describe(verdict)


@pytest.mark.parametrize(
    "history",
    [
        sequence((A, Granted(1)), (B, Granted(2))),
        sequence((A, Granted(2)), (Release(2), YES), (B, Granted(2))),
        sequence((A, Granted(1)), (Expire(), Granted(1))),
        sequence((A, Granted(1)), (Expire(), YES), (Renew(1), YES)),
        sequence((A, Granted(1)), (Expire(), YES), (B, Granted(2)), (Settle(1), YES)),
        sequence((A, Granted(1)), (Expire(), YES), (B, Granted(2)), (Release(1), YES)),
        sequence((A, Granted(1)), (Settle(1), NO)),
        sequence((A, Granted(1)), (Settle(1), YES), (B, Granted(2))),
        sequence((A, Granted(1)), (Settle(1), YES), (Settle(1), YES)),
        sequence((A, YES)),
        sequence((A, NO)),
    ],
)
def test_a_lease_that_breaks_its_word_is_refused(history: LeaseHistory) -> None:
    assert not linearize(LeaseModel(), history)


def test_an_expiry_that_nobody_saw_explains_a_second_grant_only_after_it_may_happen() -> None:
    grants = [
        Operation[LeaseOp, LeaseResult](A, 0, 1, Granted(1)),
        Operation[LeaseOp, LeaseResult](B, 50, 51, Granted(2)),
    ]
    in_time = Operation[LeaseOp, LeaseResult](Expire(), 40)
    too_late = Operation[LeaseOp, LeaseResult](Expire(), 60)
    assert not linearize(LeaseModel(), grants)
    assert linearize(LeaseModel(), [*grants, in_time])
    assert not linearize(LeaseModel(), [*grants, too_late])


def test_an_unknown_claim_may_hold_the_task_or_not() -> None:
    unknown = Operation[LeaseOp, LeaseResult](A, 0)
    refused = Operation[LeaseOp, LeaseResult](B, 10, 11, NO)
    granted = Operation[LeaseOp, LeaseResult](B, 10, 11, Granted(1))
    assert linearize(LeaseModel(), [unknown, refused])
    assert linearize(LeaseModel(), [unknown, granted])


class SimulatedLock:
    """A lease on one task that does, or forgets to, compare fences."""

    def __init__(self, *, fenced: bool) -> None:
        self.fenced = fenced
        self.fence = 0
        self.until = 0
        self.settled = False

    def answer(self, now: int, op: LeaseOp) -> LeaseResult:
        match op:
            case Acquire():
                return self.grant(now)
            case Expire():
                return self.expire(now)
            case Renew(fence) | Release(fence) | Settle(fence):
                return self.write(now, op, fence)

    def grant(self, now: int) -> LeaseResult:
        if self.until or self.settled:
            return NO
        self.fence += 1
        self.until = now + 60
        return Granted(self.fence)

    def expire(self, now: int) -> LeaseResult:
        if not self.until or now < self.until:
            return NO
        self.until = 0
        self.fence += 1
        return Granted(self.fence)

    def write(self, now: int, op: LeaseOp, fence: int) -> LeaseResult:
        if not self.until or (self.fenced and fence != self.fence):
            return NO
        self.until = now + 60 if isinstance(op, Renew) else 0
        self.settled = isinstance(op, Settle)
        return YES


def simulate(seed: int, *, fenced: bool, operations: int = 70, unknown: float = 0.05) -> LeaseHistory:
    """Three holders that sometimes sleep past their lease, and an upkeep that ends what is over."""
    rng, lock = random.Random(seed), SimulatedLock(fenced=fenced)
    fences: dict[str, int] = {}
    free_at = dict.fromkeys(("a", "b", "c", "upkeep"), 0)
    history: LeaseHistory = []
    last = 0
    while len(history) < operations:
        client = min(free_at, key=lambda name: (free_at[name], name))
        op = choose(client, fences, rng)
        called = free_at[client]
        instant = max(last, called) + rng.randrange(1, 4)
        last = instant
        lost = rng.random() < unknown
        happens = not lost or rng.random() < 0.5
        result = lock.answer(instant, op) if happens else NO
        if isinstance(op, Expire) and result is NO:
            free_at[client] = instant + rng.randrange(5, 30)
            continue
        returned = instant + rng.randrange(1, 12)
        history.append(Operation(op, called) if lost else Operation(op, called, returned, result))
        remember(client, op, None if lost else result, fences)
        free_at[client] = returned + rng.choice((1, 3, 10, 80))
    return history


def choose(client: str, fences: dict[str, int], rng: random.Random) -> LeaseOp:
    if client == "upkeep":
        return Expire()
    if client not in fences:
        return Acquire(client)
    kinds = (Renew, Renew, Renew, Release, Release, Settle) if rng.random() < 0.1 else (Renew, Release)
    return rng.choice(kinds)(fences[client])


def remember(client: str, op: LeaseOp, result: LeaseResult | None, fences: dict[str, int]) -> None:
    if isinstance(op, Acquire) and isinstance(result, Granted):
        fences[client] = result.fence
    elif result is NO or isinstance(op, Release | Settle):
        fences.pop(client, None)


def test_a_lock_with_fencing_is_never_accused() -> None:
    for seed in range(100):
        verdict = linearize(LeaseModel(), simulate(seed, fenced=True))
        assert verdict, f"seed {seed}\n{describe(verdict)}"


def test_a_lock_without_fencing_is_found_out() -> None:
    histories = [simulate(seed, fenced=False) for seed in range(100)]
    accused = [history for history in histories if not linearize(LeaseModel(), history)]
    assert len(accused) > 20
    assert all(linearize(LeaseModel(fenced=False), history) for history in accused), "something else than fencing broke"


def test_seventy_operations_with_unknown_ones_take_milliseconds() -> None:
    histories = [simulate(seed, fenced=True) for seed in range(50)]
    assert any(operation.returned is None for history in histories for operation in history)
    # Time of this process, not of the machine: others may be at work there.
    begun = time.process_time()
    for history in histories:
        linearize(LeaseModel(), history)
    assert (time.process_time() - begun) / len(histories) < 0.05
