"""The laws of schedules that need no calendar: intervals, clocks that are changed, and missed ticks."""

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.core.schedule import (
    PUNCTUAL,
    Missed,
    Schedule,
    check,
    choose,
    due,
    falling,
    highest_local,
    interval_after,
    interval_until,
    rising,
    to_local,
    to_wall,
)

BERLIN = ZoneInfo("Europe/Berlin")


def utc(*fields: int) -> int:
    return round(datetime(*fields, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type, misc]


def local(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


def test_a_local_time_is_one_moment() -> None:
    assert to_wall(local(2026, 1, 10, 12), BERLIN) == utc(2026, 1, 10, 11)
    assert to_wall(local(2026, 7, 10, 12), BERLIN) == utc(2026, 7, 10, 10)


def test_a_local_time_that_does_not_exist_is_the_next_minute_that_does() -> None:
    three_o_clock = utc(2026, 3, 29, 1)
    for minute in (0, 1, 30, 59):
        assert to_wall(local(2026, 3, 29, 2, minute), BERLIN) == three_o_clock
    assert to_wall(local(2026, 3, 29, 3), BERLIN) == three_o_clock


def test_a_local_time_that_comes_twice_is_the_first() -> None:
    assert to_wall(local(2026, 10, 25, 2, 30), BERLIN) == utc(2026, 10, 25, 0, 30)


def test_in_the_second_pass_of_an_hour_the_end_of_the_first_has_come() -> None:
    second_pass = utc(2026, 10, 25, 1, 10)
    assert to_local(second_pass, BERLIN) == local(2026, 10, 25, 2, 10)
    assert highest_local(second_pass, BERLIN) >= local(2026, 10, 25, 2, 59)
    assert highest_local(utc(2026, 6, 1), BERLIN) == local(2026, 6, 1, 2)


@given(st.integers(1, 10**6), st.integers(0, 10**9), st.integers(0, 10**9))
def test_an_interval_forwards_and_backwards_is_the_same(every: int, start: int, now: int) -> None:
    after = list(islice(interval_after(every, start, now), 3))
    assert all(tick > now and tick >= start and (tick - start) % every == 0 for tick in after)
    assert after[0] - every <= now or after[0] == start
    before = list(islice(interval_until(every, start, after[-1]), 3))
    assert before == after[::-1]
    assert all(start <= tick <= now for tick in islice(interval_until(every, start, now), 5))


def test_each_moment_is_one_tick() -> None:
    assert list(rising([1, 2, 2, 3, 3, 5], 1)) == [2, 3, 5]
    assert list(falling([9, 7, 7, 5, 5, 3], 7)) == [7, 5, 3]


def test_due_are_the_newest_ticks_behind_the_last_one_in_order() -> None:
    assert due(iter([9, 7, 5, 3]), 4, 10) == [5, 7, 9]
    assert due(iter([9, 7, 5, 3]), 0, 2) == [7, 9]
    assert due(iter([9]), 9, 10) == []


@pytest.mark.parametrize(
    ("missed", "overlap", "late", "made"),
    [
        (Missed.SKIP, False, 0, [30]),
        (Missed.SKIP, False, PUNCTUAL, []),
        (Missed.ONCE, False, PUNCTUAL, [30]),
        (Missed.ALL, False, PUNCTUAL, [10]),
        (Missed.ALL, True, PUNCTUAL, [10, 20, 30]),
    ],
)
def test_the_policy_says_which_late_ticks_are_made(missed: str, overlap: bool, late: int, made: list[int]) -> None:
    schedule = Schedule("s", every=1_000, missed=missed, overlap=overlap)
    assert choose(schedule, [10, 20, 30], 30 + late) == made
    assert choose(schedule, [], 99) == []


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule("s"),
        Schedule("s", cron="* * * * *", every=1_000),
        Schedule("s", every=999),
        Schedule("s", every=1 << 50),
        Schedule("s", every=1_000, missed="maybe"),
        Schedule("s", every=1_000, most=0),
        Schedule("", every=1_000),
        Schedule("s" * 151, every=1_000),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(schedule: Schedule) -> None:
    with pytest.raises(BadInput):
        check(schedule)
