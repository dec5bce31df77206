"""When a server that is behind refuses."""

from ganger.faces.http.pressure import FEW, Pressure

LATE = 0.01
SLOW = 0.25


def test_what_begins_in_time_is_never_refused() -> None:
    pressure = Pressure(LATE, SLOW)
    assert not any(pressure.is_late(now / 100, now / 100 + LATE / 2) for now in range(1_000))


def test_a_burst_is_taken_in_also_one_after_the_other() -> None:
    pressure = Pressure(LATE, SLOW)
    for burst in (100.0, 200.0, 300.0):
        assert not any(pressure.is_late(burst, burst + step / 1000) for step in range(90))


def test_what_begins_late_for_longer_than_a_moment_is_refused() -> None:
    pressure = Pressure(LATE, SLOW)
    told = [pressure.is_late(step / 1000, step / 1000 + 0.02) for step in range(300)]
    assert not any(told[:100])
    assert all(told[102:])


def test_a_server_that_was_behind_refuses_at_once_until_it_has_been_calm() -> None:
    pressure = Pressure(LATE, SLOW)
    for step in range(300):
        pressure.is_late(step / 1000, step / 1000 + 0.02)
    assert not pressure.is_late(0.5, 0.5)
    assert pressure.is_late(0.6, 0.62)
    assert not pressure.is_late(3.0, 3.02)


def slow_down(pressure: Pressure, start: float, seconds: float, each: float = 0.5) -> float:
    """A hundred a second are done, each of which took so long."""
    for step in range(int(seconds * 100)):
        pressure.note(start + step / 100 - each, start + step / 100)
    return start + seconds


def test_while_none_is_done_quickly_no_more_are_taken_in_than_are_done_in_such_a_time() -> None:
    pressure = Pressure(LATE, SLOW)
    now = slow_down(pressure, 10.0, 2.0)
    assert pressure.is_full(30, now)
    assert not pressure.is_full(20, now)


def test_only_some_begin_together_while_none_is_done_quickly() -> None:
    pressure = Pressure(LATE, SLOW)
    now = slow_down(pressure, 10.0, 2.0)
    told = [pressure.is_hasty(coming, now) for coming in range(20)]
    assert not any(told[:FEW])
    assert all(told[FEW:])
    now = slow_down(pressure, now, 2.0, each=0.01)
    assert not pressure.is_hasty(1_000, now)


def test_where_many_are_done_more_begin_together() -> None:
    pressure = Pressure(LATE, SLOW)
    for step in range(4_000):
        pressure.note(step / 2_000 - 0.5, step / 2_000)
    assert not pressure.is_hasty(2 * FEW, 2.0)
    assert pressure.is_hasty(4 * FEW, 2.0)


def test_a_moment_of_slowness_is_no_harm() -> None:
    pressure = Pressure(LATE, SLOW)
    assert not pressure.is_full(1_000, slow_down(pressure, 10.0, 0.05))


def test_it_ends_when_all_were_done_very_quickly_for_a_while() -> None:
    pressure = Pressure(LATE, SLOW)
    now = slow_down(pressure, 10.0, 2.0)
    now = slow_down(pressure, now, 2.0, each=0.1)
    assert pressure.is_full(1_000, now)
    now = slow_down(pressure, now, 0.5, each=0.01)
    assert pressure.is_full(1_000, now)
    now = slow_down(pressure, now, 0.6, each=0.01)
    assert not pressure.is_full(1_000, now)


def test_a_single_slow_one_says_nothing() -> None:
    pressure = Pressure(LATE, SLOW)
    now = slow_down(pressure, 10.0, 2.0, each=0.01)
    pressure.note(now - 20.0, now)
    assert not pressure.is_full(1_000, now + 0.05)
    pressure.note(now + 0.06, now + 0.07)
    assert not pressure.is_full(1_000, now + 0.5)


def test_what_was_slow_long_ago_is_forgotten() -> None:
    pressure = Pressure(LATE, SLOW)
    now = slow_down(pressure, 10.0, 2.0)
    assert not pressure.is_full(1_000, now + 2.0)
