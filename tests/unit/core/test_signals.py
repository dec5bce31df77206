"""Signals: what a task may raise, and what that makes of its attempt."""

from datetime import timedelta

import pytest

from ganger.core.errors import BadNumber
from ganger.core.outcome import Fail, Killed, Release
from ganger.core.signals import Cancel, Retry, Snooze, outcome_of


def test_each_signal_has_its_outcome() -> None:
    assert outcome_of(Retry()) == Fail(reason="it asked to be tried again")
    assert outcome_of(Retry(0.5, "busy")) == Fail(reason="busy", delay=500)
    assert outcome_of(Retry(timedelta(seconds=2))) == Fail(reason="it asked to be tried again", delay=2_000)
    assert outcome_of(Snooze("10s")) == Release(10_000)
    assert outcome_of(Cancel("no use")) == Killed("no use")


@pytest.mark.parametrize("make", [Retry, Snooze])
@pytest.mark.parametrize("delay", [-1, 1 << 60, float("nan"), float("inf"), "soon", True, timedelta(seconds=-1)])
def test_a_delay_that_is_none_is_refused_where_it_is_raised(make: type[Retry] | type[Snooze], delay: int) -> None:
    with pytest.raises(BadNumber):
        make(delay)
