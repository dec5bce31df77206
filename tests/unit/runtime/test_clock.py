"""The machine's clocks: the one that leases live by, and the one that people read."""

import time
from pathlib import Path

import pytest

from ganger.core.clock import Clock
from ganger.runtime.clock import SystemClock

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def milliseconds(clock: int) -> int:
    return time.clock_gettime_ns(clock) // 1_000_000


def test_moments_are_of_the_clock_that_nobody_sets_and_that_counts_suspended_time() -> None:
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    before, now, after = milliseconds(boot), SystemClock().now(), milliseconds(boot)

    assert before <= now <= after


def test_the_wall_clock_is_the_one_that_people_read() -> None:
    before, wall, after = time.time_ns() // 1_000_000, SystemClock().wall(), time.time_ns() // 1_000_000

    assert before <= wall <= after


@pytest.mark.skipif(not BOOT_ID.exists(), reason="the system has no boot id")
def test_the_boot_has_the_name_that_the_kernel_gave_it() -> None:
    clock: Clock = SystemClock()

    assert clock.boot_id() == BOOT_ID.read_text().strip()
