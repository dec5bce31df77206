"""When a server that is behind refuses."""

from ganger.faces.http.pressure import Pressure

LATE = 0.01


def test_what_begins_in_time_is_never_refused() -> None:
    pressure = Pressure(LATE)
    assert not any(pressure.refuses(now / 100, now / 100 + LATE / 2) for now in range(1_000))


def test_a_burst_is_taken_in_also_one_after_the_other() -> None:
    pressure = Pressure(LATE)
    for burst in (100.0, 200.0, 300.0):
        assert not any(pressure.refuses(burst, burst + step / 1000) for step in range(90))


def test_what_begins_late_for_longer_than_a_moment_is_refused() -> None:
    pressure = Pressure(LATE)
    told = [pressure.refuses(step / 1000, step / 1000 + 0.02) for step in range(300)]
    assert not any(told[:100])
    assert all(told[102:])


def test_a_server_that_was_behind_refuses_at_once_until_it_has_been_calm() -> None:
    pressure = Pressure(LATE)
    for step in range(300):
        pressure.refuses(step / 1000, step / 1000 + 0.02)
    assert not pressure.refuses(0.5, 0.5)
    assert pressure.refuses(0.6, 0.62)
    assert not pressure.refuses(3.0, 3.02)
