"""What follows from the answer of a condition."""

import pytest

from ganger.core.condition import Answer, AskAgain, Choose, Elder, Fail, Terms, free_since, rule
from ganger.core.graph import Join, On
from ganger.core.state import Status

NO, YES = Answer(False), Answer(True)


def test_an_if_is_asked_once() -> None:
    once = Terms(wait=False)
    assert rule(once, YES, 10) == Choose(True)
    assert rule(once, NO, 10) == Choose(False)


def test_a_wait_is_asked_again_until_it_is_true() -> None:
    assert rule(Terms(every=500), NO, 1_000) == AskAgain(1_500)
    assert rule(Terms(every=500), YES, 1_500) == Choose(True)


def test_nothing_is_asked_more_often_than_ten_times_a_second() -> None:
    assert rule(Terms(every=0), NO, 1_000) == AskAgain(1_100)


def test_a_known_time_is_waited_for_in_one_piece() -> None:
    assert rule(Terms(), Answer(False, 9_000), 1_000) == AskAgain(9_000)


@pytest.mark.parametrize("otherwise", [False, True])
def test_at_its_deadline_a_wait_fails_or_goes_the_other_way(otherwise: bool) -> None:
    terms = Terms(every=500, deadline=1_200, otherwise=otherwise)
    assert rule(terms, NO, 1_000) == AskAgain(1_200)
    end = rule(terms, NO, 1_200)
    assert end == Choose(False) if otherwise else isinstance(end, Fail)


def test_a_time_behind_the_deadline_is_too_late_even_if_nobody_looked_in_between() -> None:
    assert isinstance(rule(Terms(deadline=1_000), Answer(True, 2_000), 5_000), Fail)
    assert rule(Terms(deadline=1_000), Answer(True, 900), 5_000) == Choose(True)


def test_what_can_never_become_true_is_not_waited_for() -> None:
    assert isinstance(rule(Terms(), Answer(False, fixed=True), 0), Fail)
    assert rule(Terms(otherwise=True), Answer(False, fixed=True), 0) == Choose(False)


def test_a_delay_counts_from_the_end_of_the_last_parent_or_of_the_first_for_any() -> None:
    elders = [
        Elder(On.SUCCESS, Status.SUCCEEDED, True, 50),
        Elder(On.FINISHED, Status.FAILED, True, 70),
        Elder(On.SUCCESS, Status.FAILED, True, 30),
        Elder(On.SUCCESS, Status.RUNNING, True, None),
    ]
    assert free_since(10, Join.ALL, elders) == 70
    assert free_since(10, Join.ANY, elders) == 50
    assert free_since(60, Join.ANY, elders) == 60
    assert free_since(10, Join.ALL, []) == 10
