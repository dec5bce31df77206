"""A schedule: when its ticks are, by a clock that people change twice a year, and which of the missed ones are made.

Local time is not time. In spring an hour does not exist, in autumn one comes twice, and whoever adds a day to a local
time gets both wrong. The rule here: **a tick is a moment**, computed once from the local time that the cron text names,
and each tick happens exactly once.

- A local time that does not exist happens at the next minute that does (02:30 at 03:00, when the clock went from 02:00
  to 03:00). Several that fall on the same moment are one tick.
- A local time that comes twice happens the first time only.
- A cron text that names no hour (`*/5 * * * *`: every hour is as good as any other) counts elapsed time, and so does an
  interval: it goes on evenly through a change of the clock, without a hole of an hour and without a repetition.

A tick is late when nobody was there to make it, or when the one before has not ended and may not be overlapped.
`missed` says what becomes of late ticks: none, the newest, or all of them up to a bound.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice, takewhile
from typing import Final, NamedTuple

from ganger.core import names
from ganger.core.errors import BadInput, BadName, BadNumber

QUEUE: Final = "schedules"
"""Where schedules are kept."""

LONGEST_NAME: Final = 150
SHORTEST_EVERY: Final = 1_000
LONGEST_EVERY: Final = 400 * 24 * 3_600_000
MOST_MISSED: Final = 1_000
PUNCTUAL: Final = 60_000
"""A tick that is made within so many milliseconds is not late."""

_MINUTE: Final = timedelta(minutes=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Missed(StrEnum):
    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Schedule(NamedTuple):
    """Ticks by a cron text in a time zone, or every so many milliseconds since `start` (wall).

    `overlap`: a tick is made even while the task of the one before has not ended. `most`: of `all` missed ticks no
    more than the newest so many.
    """

    name: str
    cron: str | None = None
    every: int | None = None
    zone: str = "UTC"
    start: int = 0
    missed: str = Missed.ONCE
    overlap: bool = False
    most: int = 100


def check(schedule: Schedule) -> Schedule:
    """The schedule, if it makes sense as far as can be said without a calendar."""
    names.check("schedule", schedule.name)
    if len(schedule.name) > LONGEST_NAME:
        raise BadName(f"the schedule's name has more than {LONGEST_NAME} characters", what="schedule")
    if (schedule.cron is None) == (schedule.every is None):
        raise BadInput("a schedule has either a cron text or an interval", field="cron")
    if schedule.every is not None and not SHORTEST_EVERY <= schedule.every <= LONGEST_EVERY:
        raise BadNumber(f"every is {schedule.every} ms; give {SHORTEST_EVERY} to {LONGEST_EVERY}", field="every")
    if schedule.missed not in set(Missed):
        raise BadInput(f"missed is {schedule.missed!r:.40}; use skip, once or all", field="missed")
    if not 1 <= schedule.most <= MOST_MISSED:
        raise BadNumber(f"most is {schedule.most}; give 1 to {MOST_MISSED}", field="most")
    return schedule


def interval_after(every: int, start: int, after: int) -> Iterator[int]:
    """The ticks of an interval behind a wall time, for ever; the first of all is at `start`."""
    tick = max(start, start + ((after - start) // every + 1) * every)
    while True:
        yield tick
        tick += every


def interval_until(every: int, start: int, until: int) -> Iterator[int]:
    """The ticks of an interval up to a wall time, the newest first."""
    tick = start + (until - start) // every * every
    while tick >= start:
        yield tick
        tick -= every


def to_wall(local: datetime, zone: tzinfo) -> int:
    """The moment of a local time: the first of two, or the next minute that exists."""
    while (moment := local.replace(tzinfo=zone, fold=0).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != local:
        local = local.replace(second=0, microsecond=0) + _MINUTE
    return (moment - _EPOCH) // _MILLISECOND


def to_local(wall: int, zone: tzinfo) -> datetime:
    """What a clock on the wall of that zone shows."""
    return (_EPOCH + wall * _MILLISECOND).astimezone(zone).replace(tzinfo=None)


def highest_local(wall: int, zone: tzinfo) -> datetime:
    """The latest local time that may have come up to now: in a repeated hour that is the end of its first pass."""
    hours = 3
    before = to_local(wall - hours * 3_600_000, zone) + timedelta(hours=hours)
    return max(to_local(wall, zone), before)


def rising(ticks: Iterable[int], after: int) -> Iterator[int]:
    """Ticks behind a wall time, each once."""
    for tick in ticks:
        if tick > after:
            yield tick
            after = tick


def falling(ticks: Iterable[int], until: int) -> Iterator[int]:
    """Ticks up to a wall time from the newest down, each once."""
    limit = until + 1
    for tick in ticks:
        if tick < limit:
            yield tick
            limit = tick


def due(newest_first: Iterable[int], after: int, most: int) -> list[int]:
    """At most so many of the newest ticks behind `after`, the oldest of them first."""
    return list(takewhile(lambda tick: tick > after, islice(newest_first, most)))[::-1]


def choose(schedule: Schedule, ticks: Sequence[int], now: int) -> list[int]:
    """Which of the ticks that are due (oldest first) are made now. Without overlap one at a time."""
    if schedule.missed == Missed.ALL:
        return list(ticks if schedule.overlap else ticks[:1])
    if schedule.missed == Missed.ONCE:
        return list(ticks[-1:])
    return [tick for tick in ticks[-1:] if now - tick < PUNCTUAL]
