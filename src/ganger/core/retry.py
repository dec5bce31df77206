"""What follows a failure: policies as values that compose, decided without a clock and without luck of their own.

`Fixed`, `Exponential` and `Delays` say how long to wait before attempt n + 1. `ByCode` chooses another policy for some
codes. `Retry` joins one of them with the number of attempts. Jitter is drawn from a number that is handed in.
"""

import json
from functools import lru_cache
from typing import Any, Final, NamedTuple, assert_never

from ganger.core.errors import BadPolicy

FOREVER = 0
"""As `max_attempts` or `max_crashes`: no limit."""

LONGEST_DELAY: Final = 1 << 43
"""Milliseconds, some 278 years: a moment so far away still fits every store, and a float."""


class Fixed(NamedTuple):
    """The same delay each time."""

    delay: int
    kind: str = "fixed"


class Exponential(NamedTuple):
    """first, first * factor, first * factor^2 ... up to `most`; `jitter` is the share that luck may take away."""

    first: int = 1_000
    factor: float = 2.0
    most: int = 600_000
    jitter: float = 0.25
    kind: str = "exponential"


class Delays(NamedTuple):
    """The delays one after another; the last one repeats."""

    delays: tuple[int, ...]
    kind: str = "delays"


Backoff = Fixed | Exponential | Delays


class Retry(NamedTuple):
    """How often, how long apart, and for which codes otherwise.

    `by_code` pairs a failure's code with its own rule: attempts (0: no limit, 1: never again) and backoff.
    `sink` is added to the priority at each retry, so that a failing task does not clog the head of its queue.
    """

    max_attempts: int = 1
    backoff: Backoff = Exponential()
    by_code: tuple[tuple[int, int, Backoff], ...] = ()
    max_crashes: int = 3
    sink: int = 1
    hold_when_spent: bool = False


NEVER = Retry()


class Again(NamedTuple):
    delay: int


class Enough(NamedTuple):
    why: str


def decide(policy: Retry, attempts: int, code: int, luck: float) -> Again | Enough:
    """After `attempts` attempts, the last of which ended with `code`: again, or enough."""
    limit, backoff = _chosen(policy, code)
    if limit != FOREVER and attempts >= limit:
        return Enough(f"failed {attempts} of {limit} attempts, the last with code {code}")
    return Again(delay_before(backoff, attempts, luck))


def delay_before(backoff: Backoff, attempts: int, luck: float) -> int:
    """Milliseconds to wait after `attempts` attempts; `luck` in [0, 1) spreads what would come at once."""
    match backoff:
        case Fixed(delay):
            return delay
        case Delays(delays):
            return delays[min(attempts, len(delays)) - 1]
        case Exponential(first, factor, most, jitter):
            # The exponent is capped because a float overflows long before a patient task gives up.
            grown = min(float(most), first * factor ** min(attempts - 1, 64))
            return round(grown * (1 - jitter * luck))
        case _:
            assert_never(backoff)


@lru_cache(maxsize=1024)
def to_text(policy: Retry) -> str:
    """The policy as a store keeps it and a peer reads it."""
    return json.dumps(policy, separators=(",", ":"))


@lru_cache(maxsize=1024)
def from_text(text: str) -> Retry:
    attempts, backoff, by_code, crashes, sink, hold = json.loads(text)
    codes = tuple((code, limit, _backoff(raw)) for code, limit, raw in by_code)
    return Retry(attempts, _backoff(backoff), codes, crashes, sink, hold)


def _backoff(raw: list[Any]) -> Backoff:
    match raw:
        case [delay, "fixed"]:
            return Fixed(delay)
        case [delays, "delays"]:
            return Delays(tuple(delays))
        case [first, factor, most, jitter, "exponential"]:
            return Exponential(first, factor, most, jitter)
        case _:
            raise BadPolicy(f"{raw!r} is not a backoff that this version knows")


def crashed_enough(policy: Retry, crashes: int) -> bool:
    return policy.max_crashes != FOREVER and crashes >= policy.max_crashes


def _chosen(policy: Retry, code: int) -> tuple[int, Backoff]:
    for at, limit, backoff in policy.by_code:
        if at == code:
            return limit, backoff
    return policy.max_attempts, policy.backoff


def check(policy: Retry) -> Retry:
    """The policy, if it makes sense; else BadPolicy says what does not."""
    numbers = (policy.max_attempts, policy.max_crashes, policy.sink, *(limit for _, limit, _ in policy.by_code))
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise BadPolicy("attempts, crashes and sink of a retry policy are 0 or more (0 attempts means no limit)")
    for backoff in (policy.backoff, *(backoff for _, _, backoff in policy.by_code)):
        _check_backoff(backoff)
    return policy


def _check_backoff(backoff: Backoff) -> None:
    match backoff:
        case Fixed(delay):
            sound = _bounded(delay)
        case Delays(delays):
            sound = bool(delays) and all(map(_bounded, delays))
        case Exponential(first, factor, most, jitter):
            sound = _bounded(first) and _bounded(most - first) and 1 <= factor <= 1_000 and 0 <= jitter <= 1
        case _:
            assert_never(backoff)
    if not sound:
        raise BadPolicy(
            f"{backoff!r:.200} is no usable backoff: "
            f"delays are 0 to {LONGEST_DELAY} ms, factor 1 to 1000, jitter 0 to 1"
        )


def _bounded(delay: int) -> bool:
    return isinstance(delay, int) and 0 <= delay <= LONGEST_DELAY
