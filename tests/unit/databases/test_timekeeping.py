"""The server's clock ends a lease only if it was seen to go evenly for as long."""

from ganger.core.clock import Moment, Wall
from ganger.databases.timekeeping import TOLERANCE, HandedTime, ServerTime
from ganger.testing.clock import FakeClock

SERVER = 1_700_000_000_000


def test_a_clock_that_goes_evenly_is_steady_since_it_was_first_seen() -> None:
    clock = FakeClock(now=5_000)
    keeper = ServerTime(clock)
    assert keeper.read(SERVER) == (Moment(SERVER), Wall(SERVER), 0)
    clock.advance(30_000)
    assert keeper.read(SERVER + 30_000).steady == 30_000


def test_a_jump_either_way_begins_the_watch_anew() -> None:
    for jump in (3_600_000, -3_600_000):
        clock = FakeClock()
        keeper = ServerTime(clock)
        keeper.read(SERVER)
        clock.advance(30_000)
        assert keeper.read(SERVER + 30_000 + jump).steady == 0
        clock.advance(10_000)
        assert keeper.read(SERVER + 40_000 + jump).steady == 10_000


def test_a_slow_way_to_the_server_is_no_jump_and_neither_is_drift() -> None:
    clock = FakeClock()
    keeper = ServerTime(clock)
    keeper.read(SERVER)
    clock.advance(10_000)
    assert keeper.read(SERVER + 10_000 - TOLERANCE).steady == 10_000
    clock.advance(10_000_000)
    assert keeper.read(SERVER + 10_010_000 + 5_000).steady == 10_010_000


def test_moments_of_the_server_become_moments_of_this_machine() -> None:
    clock = FakeClock(now=5_000)
    keeper = ServerTime(clock)
    keeper.read(SERVER)
    assert SERVER + 1_000 + keeper.offset == 6_000


def test_a_clock_that_is_handed_in_is_the_servers() -> None:
    clock = FakeClock()
    keeper = HandedTime(clock)
    clock.advance(7)
    assert keeper.read(SERVER) == (clock.now(), clock.wall(), 7)
    assert keeper.boot == clock.boot_id()


def test_times_of_day_of_the_server_become_those_of_this_machine_if_the_clocks_differ() -> None:
    clock = FakeClock()
    keeper = ServerTime(clock)
    for apart in (-120_000, 120_000):
        keeper.read(clock.wall() + apart)
        assert keeper.wall_offset == -apart
    keeper.read(clock.wall() + TOLERANCE)
    assert keeper.wall_offset == 0
    assert HandedTime(clock).wall_offset == 0
