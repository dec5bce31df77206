"""The only place where time is read."""

import time
from functools import cache
from pathlib import Path

from ganger.core.clock import Moment, Wall

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The machine's clocks. The boot clock counts suspended time: a laptop that slept does not trust an old lease."""

    def now(self) -> Moment:
        return Moment(time.clock_gettime_ns(_boot_clock()) // 1_000_000)

    def wall(self) -> Wall:
        return Wall(time.time_ns() // 1_000_000)

    def boot_id(self) -> str:
        return _read_boot_id()


@cache
def _boot_clock() -> int:
    return getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@cache
def _read_boot_id() -> str:
    if _BOOT_ID.exists():
        return _BOOT_ID.read_text().strip()
    # macOS has no boot id: the second in which the machine started serves as one.
    return f"boot-{round(time.time() - time.monotonic())}"
