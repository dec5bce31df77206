"""The ticks of a schedule, forwards and backwards: the calendar is cronsim's, the rule about clocks is `core.schedule`.

cronsim walks over local times without a zone, and each is turned into its moment afterwards; only a cron text that
names no hour is walked in the zone itself, where it counts elapsed time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ganger.core import schedule as law
from ganger.core.errors import BadInput
from ganger.core.schedule import Schedule, falling, rising, to_local, to_wall

_SHORT: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_SECOND: Final = timedelta(seconds=1)
_LONGEST_CRON: Final = 500
_START: Final = datetime(2000, 1, 1, tzinfo=UTC)


def check(schedule: Schedule) -> Schedule:
    """The schedule, if it makes sense and has a tick at all; BadInput says what is wrong."""
    law.check(schedule)
    _zone(schedule)
    if schedule.cron is not None and next(_walk(schedule.cron, _START), None) is None:
        raise BadInput(f"the cron text {schedule.cron!r:.80} names a day that never comes", field="cron")
    return schedule


def ticks(schedule: Schedule, after: int, until: int) -> list[int]:
    """All ticks behind `after` up to `until`, wall times in order."""
    return list(takewhile(lambda tick: tick <= until, ticks_after(schedule, after)))


def next_ticks(schedule: Schedule, count: int, after: int) -> list[int]:
    """The next so many ticks: a dry run, also across a change of the clock."""
    return list(islice(ticks_after(schedule, after), count))


def ticks_after(schedule: Schedule, after: int) -> Iterator[int]:
    """The ticks behind a wall time, for ever or until the calendar has no more."""
    if schedule.every is not None:
        return law.interval_after(schedule.every, schedule.start, after)
    cron, zone = schedule.cron or "", _zone(schedule)
    if _counts_elapsed(cron):
        return rising(map(_moment, _walk(cron, _aware(after, zone))), after)
    return rising((to_wall(local, zone) for local in _walk(cron, to_local(after, zone))), after)


def ticks_until(schedule: Schedule, until: int) -> Iterator[int]:
    """The ticks up to a wall time, the newest first."""
    if schedule.every is not None:
        return law.interval_until(schedule.every, schedule.start, until)
    cron, zone = schedule.cron or "", _zone(schedule)
    if _counts_elapsed(cron):
        return falling(map(_moment, _walk(cron, _aware(until + 1000, zone), back=True)), until)
    last = law.highest_local(until, zone) + _SECOND
    return falling((to_wall(local, zone) for local in _walk(cron, last, back=True)), until)


def _zone(schedule: Schedule) -> ZoneInfo:
    try:
        return ZoneInfo(schedule.zone)
    except (OSError, ValueError, KeyError):
        raise BadInput(
            f"there is no time zone {schedule.zone!r:.80}; use one like Europe/Berlin", field="zone"
        ) from None


def _fields(cron: str) -> list[str]:
    return _SHORT.get(cron.strip().lower(), cron).split()


def _counts_elapsed(cron: str) -> bool:
    """Does it name no hour? The hour is the fourth field from the end."""
    return _fields(cron)[-4:-3] == ["*"]


def _walk(cron: str, start: datetime, back: bool = False) -> Iterator[datetime]:
    if len(cron) > _LONGEST_CRON:
        raise BadInput(f"the cron text has {len(cron)} characters; use at most {_LONGEST_CRON}", field="cron")
    try:
        return CronSim(" ".join(_fields(cron)), start.replace(microsecond=0), reverse=back)
    except (CronSimError, ValueError) as error:
        raise BadInput(
            f"{cron!r:.80} is no cron text: {error}; write minute, hour, day, month, weekday", field="cron"
        ) from None


def _aware(wall: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(wall // 1000, UTC).astimezone(zone)


def _moment(local: datetime) -> int:
    return round(local.timestamp()) * 1000
