"""The ticks of cron texts: across changes of the clock, forwards and backwards alike."""

from datetime import UTC, datetime
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.core.schedule import Schedule
from ganger.engine.ticks import check, next_ticks, ticks, ticks_until

HOUR = 3_600_000
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo"]
CRONS = [
    "30 2 * * *", "*/15 1-3 * * *", "0 */2 * * *", "*/20 * * * *", "@daily", "0 0 1 * *", "0 0 * * SUN", "15 0 * * *",
    "0 30 2 * * *", "59 23 L * *",
]  # fmt: skip


def utc(*fields: int) -> int:
    return round(datetime(*fields, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type, misc]


def berlin(cron: str, after: int, until: int) -> list[str]:
    found = ticks(Schedule("s", cron, zone="Europe/Berlin"), after, until)
    return [datetime.fromtimestamp(tick / 1000, UTC).strftime("%d %H:%M") for tick in found]


SPRING = utc(2026, 3, 28, 12), utc(2026, 3, 30, 12)
AUTUMN = utc(2026, 10, 24, 12), utc(2026, 10, 26, 12)


def test_in_spring_a_time_that_does_not_exist_is_run_when_time_goes_on() -> None:
    assert berlin("30 2 * * *", *SPRING) == ["29 01:00", "30 00:30"]
    assert berlin("*/15 2 * * *", *SPRING) == ["29 01:00", "30 00:00", "30 00:15", "30 00:30", "30 00:45"]


def test_in_autumn_a_repeated_time_is_run_once() -> None:
    assert berlin("30 2 * * *", *AUTUMN) == ["25 00:30", "26 01:30"]
    assert berlin("0 */2 25 * *", *AUTUMN)[:4] == ["24 22:00", "25 00:00", "25 03:00", "25 05:00"]


@pytest.mark.parametrize("days", [SPRING, AUTUMN])
def test_what_names_no_hour_goes_on_evenly_through_the_change(days: tuple[int, int]) -> None:
    for cron, minutes in (("*/20 * * * *", 20), ("7 * * * *", 60), ("@hourly", 60)):
        found = ticks(Schedule("s", cron, zone="Europe/Berlin"), *days)
        assert {b - a for a, b in pairwise(found)} == {minutes * 60_000}


def test_an_interval_knows_no_zone() -> None:
    schedule = Schedule("s", every=90_000, start=1_000)
    assert next_ticks(schedule, 3, 0) == [1_000, 91_000, 181_000]
    assert list(islice(ticks_until(schedule, 181_000), 5)) == [181_000, 91_000, 1_000]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CRONS), st.sampled_from(ZONES), st.integers(utc(2026, 1, 1), utc(2027, 1, 1)))
def test_forwards_and_backwards_are_the_same_ticks(cron: str, zone: str, moment: int) -> None:
    schedule = Schedule("s", cron, zone=zone)
    found = next_ticks(schedule, 12, moment)
    assert sorted(set(found)) == found
    assert list(islice(ticks_until(schedule, found[-1]), 12)) == found[::-1]
    assert next(ticks_until(schedule, found[0] - 1), 0) <= moment


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["*/15 1-3 * * *", "30 2 * * *", "*/20 * * * *"])
def test_at_every_minute_around_every_change_both_directions_agree(zone: str, cron: str) -> None:
    schedule = Schedule("s", cron, zone=zone)
    for day in (
        utc(2026, 3, 8),
        utc(2026, 3, 29),
        utc(2026, 4, 4, 12),
        utc(2026, 10, 3, 12),
        utc(2026, 10, 25),
        utc(2026, 11, 1),
    ):
        every = ticks(schedule, day - 24 * HOUR, day + 24 * HOUR)
        for moment in range(day, day + 10 * HOUR, 30 * 60_000 - 17_000):
            newest = max((tick for tick in every if tick <= moment), default=None)
            assert newest is None or next(ticks_until(schedule, moment)) == newest
            assert (
                next_ticks(schedule, 1, moment) == [min(tick for tick in every if tick > moment)]
                if every[-1] > moment
                else True
            )


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "61 * * * *", "0 0 30 2 *", "a b c d e", "* " * 400, "* * * * * * *", "@never"]
)
def test_what_is_no_cron_text_is_refused(cron: str) -> None:
    with pytest.raises(BadInput):
        check(Schedule("s", cron))


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "/etc/passwd", "a\0b"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadInput):
        check(Schedule("s", "@daily", zone=zone))
