"""What clients of `/v1` send and are told about schedules."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ganger.core.errors import BadInput
from ganger.core.schedule import Missed, Schedule
from ganger.core.task import DEFAULT_PRIORITY
from ganger.wire.v1.requests import DEFAULT_QUEUE, Draft, MetadataIn, NodeIn, read_node
from ganger.wire.v1.specs import change_spec, list_spec_keys

_TIMES: Final = ("cron", "every")
_PLAIN: Final = ("zone", "missed", "overlap", "most")

PARAMETERS: Final[dict[str, str]] = {
    "after": "Ticks behind this moment, in milliseconds since 1970; now unless given.",
    "limit": "So many ticks, 1 to 1000; 5 unless given.",
    "{name}": "The name of the schedule.",
}
"""What each parameter means."""


class TickMetadataIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is said about the task that each tick adds; the fields are those of a new task."""

    type: str
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    description: str | None = None
    retries: int | None = None
    timeout: int | None = None
    limit_key: str | None = None
    requires: list[str] = []


class ScheduleIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new schedule: when its ticks are, by `cron` in a `zone` or `every` so many milliseconds, and what they add."""

    name: str
    metadata: TickMetadataIn
    data: dict[str, Any] = {}
    cron: str | None = None
    every: int | None = None
    zone: str = "UTC"
    missed: str = Missed.ONCE.value
    overlap: bool = False
    most: int = 100


class TickChangesIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may be changed about the tasks that ticks add."""

    queue: str | None = None
    priority: int | None = None
    description: str | None = None
    retries: int | None = None
    timeout: int | None = None


class ScheduleChangeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of a schedule; what is not given stays. A `cron` takes the place of `every`, and the other way round."""

    cron: str | None = None
    every: int | None = None
    zone: str | None = None
    missed: str | None = None
    overlap: bool | None = None
    most: int | None = None
    paused: bool | None = None
    metadata: TickChangesIn = TickChangesIn()
    data: dict[str, Any] = {}


class ScheduleTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schedule. `id` is the task that it is kept as; `next` is its next tick, `last` the newest task that it made.

    `owner` is the program that declares it, if one does. Times are milliseconds since 1970.
    """

    name: str
    id: str
    cron: str | None
    every: int | None
    zone: str
    start: int
    missed: str
    overlap: bool
    most: int
    paused: bool
    next: int | None
    last: str | None
    owner: str | None
    metadata: dict[str, Any]
    data: dict[str, Any]


class TicksTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the next ticks are, in milliseconds since 1970."""

    ticks: list[int]


def read_schedule(said: ScheduleIn) -> tuple[Schedule, Draft]:
    """The schedule, and the task that each tick adds."""
    fields = {field: getattr(said, field) for field in ("name", *_TIMES, *_PLAIN)}
    metadata = MetadataIn(**{field: getattr(said.metadata, field) for field in said.metadata.__struct_fields__})
    draft = read_node(NodeIn(metadata, said.data))
    if draft.data:
        raise _strange(draft.data[0][0], list_spec_keys(draft.task.kind))
    return Schedule(**fields), draft


def change_schedule(schedule: Schedule, said: ScheduleChangeIn) -> Schedule:
    given = {field: value for field in _PLAIN if (value := getattr(said, field)) is not None}
    times = {field: getattr(said, field) for field in _TIMES}
    return schedule._replace(**given, **(times if any(value is not None for value in times.values()) else {}))


def change_tick_spec(kind: str, spec: bytes, data: Mapping[str, Any]) -> bytes:
    """The spec of what ticks add with some of its keys changed; None takes one away."""
    keys = list_spec_keys(kind)
    for key in sorted(set(data) - keys):
        raise _strange(key, keys)
    return change_spec(kind, spec, data) if data else spec


def _strange(key: str, keys: frozenset[str]) -> BadInput:
    known = ", ".join(sorted(keys)) or "none"
    return BadInput(f"{key!r:.80} is not what is run: a tick has these data: {known}", field=f"data.{key[:200]}")
