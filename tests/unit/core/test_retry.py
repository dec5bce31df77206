"""Retry policies: how long, how often, and the text in which they travel."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadPolicy
from ganger.core.retry import (
    FOREVER,
    LONGEST_DELAY,
    NEVER,
    Again,
    Backoff,
    Delays,
    Enough,
    Exponential,
    Fixed,
    Retry,
    check,
    crashed_enough,
    decide,
    delay_before,
    from_text,
    to_text,
)

lucks = st.floats(0, 1, exclude_max=True)
delays = st.integers(0, LONGEST_DELAY)
exponentials = st.builds(
    lambda first, more, factor, jitter: Exponential(first, factor, first + more, jitter),
    st.integers(0, LONGEST_DELAY // 2),
    st.integers(0, LONGEST_DELAY // 2),
    st.floats(1, 1_000),
    st.floats(0, 1),
)
backoffs: st.SearchStrategy[Backoff] = st.one_of(
    delays.map(Fixed),
    st.lists(delays, min_size=1, max_size=6).map(lambda found: Delays(tuple(found))),
    exponentials,
)
by_code = st.lists(st.tuples(st.integers(2, 200), st.integers(0, 50), backoffs), max_size=3).map(tuple)
policies = st.builds(
    Retry, st.integers(0, 50), backoffs, by_code, st.integers(0, 9), st.integers(0, 1 << 32), st.booleans()
)


@given(delays, st.integers(1, 1_000), lucks)
def test_a_fixed_delay_is_the_same_each_time(delay: int, attempts: int, luck: float) -> None:
    assert delay_before(Fixed(delay), attempts, luck) == delay


def test_a_list_of_delays_is_followed_and_its_last_one_repeats() -> None:
    backoff = Delays((10, 20, 30))

    assert [delay_before(backoff, n, 0.5) for n in range(1, 6)] == [10, 20, 30, 30, 30]


def test_an_exponential_delay_grows_up_to_its_most() -> None:
    backoff = Exponential(first=100, factor=3, most=2_000, jitter=0)

    assert [delay_before(backoff, n, 0.9) for n in range(1, 6)] == [100, 300, 900, 2_000, 2_000]


@given(exponentials, st.integers(1, 10_000), lucks)
def test_jitter_takes_away_no_more_than_its_share(backoff: Exponential, attempts: int, luck: float) -> None:
    full = delay_before(backoff._replace(jitter=0), attempts, luck)
    spread = delay_before(backoff, attempts, luck)

    assert full <= backoff.most
    assert math.floor(full * (1 - backoff.jitter)) - 1 <= spread <= full


@given(exponentials, lucks)
def test_no_number_of_attempts_overflows(backoff: Exponential, luck: float) -> None:
    assert 0 <= delay_before(backoff, 10**9, luck) <= backoff.most


@given(exponentials, st.integers(1, 200))
def test_a_later_attempt_never_waits_less(backoff: Exponential, attempts: int) -> None:
    assert delay_before(backoff, attempts, 0) <= delay_before(backoff, attempts + 1, 0)


def test_attempts_are_made_until_there_were_enough() -> None:
    policy = Retry(max_attempts=3, backoff=Fixed(5))

    assert [decide(policy, n, 2, 0) for n in (1, 2)] == [Again(5), Again(5)]
    assert isinstance(decide(policy, 3, 2, 0), Enough)
    assert isinstance(decide(policy, 4, 2, 0), Enough)


def test_the_default_is_to_try_once() -> None:
    assert decide(NEVER, 1, 2, 0) == Enough("failed 1 of 1 attempts, the last with code 2")


@given(st.integers(1, 10**6))
def test_a_policy_without_a_limit_never_has_enough(attempts: int) -> None:
    assert decide(Retry(FOREVER, Fixed(1)), attempts, 2, 0) == Again(1)


def test_a_code_may_have_a_rule_of_its_own() -> None:
    policy = Retry(5, Fixed(10), by_code=((75, FOREVER, Fixed(99)), (64, 1, Fixed(0))))

    assert decide(policy, 100, 75, 0) == Again(99)
    assert isinstance(decide(policy, 1, 64, 0), Enough)
    assert decide(policy, 4, 2, 0) == Again(10)


def test_crashes_are_counted_against_their_own_limit() -> None:
    assert [crashed_enough(Retry(max_crashes=2), n) for n in (0, 1, 2, 3)] == [False, False, True, True]
    assert not crashed_enough(Retry(max_crashes=FOREVER), 10**6)


@given(policies)
def test_a_policy_comes_back_from_its_text(policy: Retry) -> None:
    assert check(from_text(to_text(policy))) == policy
    assert type(from_text(to_text(policy)).backoff) is type(policy.backoff)


def test_the_text_of_a_policy_is_json() -> None:
    assert json.loads(to_text(Retry(3, Fixed(7)))) == [3, [7, "fixed"], [], 3, 1, False]


@pytest.mark.parametrize("text", ['[1,[5,"sometimes"],[],3,1,false]', '[1,["fixed"],[],3,1,false]'])
def test_a_backoff_that_nobody_knows_is_refused(text: str) -> None:
    with pytest.raises(BadPolicy):
        from_text(text)


@given(policies)
def test_a_sound_policy_is_given_back(policy: Retry) -> None:
    assert check(policy) is policy


@pytest.mark.parametrize(
    "policy",
    [
        Retry(max_attempts=-1),
        Retry(max_crashes=-1),
        Retry(sink=-1),
        Retry(max_attempts=1.5),  # type: ignore[arg-type]
        Retry(by_code=((2, -1, Fixed(1)),)),
        Retry(by_code=((2, 1, Fixed(-1)),)),
        Retry(backoff=Fixed(-1)),
        Retry(backoff=Fixed(LONGEST_DELAY + 1)),
        Retry(backoff=Fixed(math.inf)),  # type: ignore[arg-type]
        Retry(backoff=Delays(())),
        Retry(backoff=Delays((1, -1))),
        Retry(backoff=Exponential(first=-1)),
        Retry(backoff=Exponential(first=10, most=9)),
        Retry(backoff=Exponential(most=10**400)),
        Retry(backoff=Exponential(factor=0.5)),
        Retry(backoff=Exponential(factor=math.nan)),
        Retry(backoff=Exponential(factor=math.inf)),
        Retry(backoff=Exponential(jitter=1.1)),
        Retry(backoff=Exponential(jitter=math.nan)),
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(policy: Retry) -> None:
    with pytest.raises(BadPolicy):
        check(policy)
