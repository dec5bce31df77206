"""Schedules that a program declares: kept as it says them, changed when it says them otherwise, never lost in silence.

A program says all of its schedules whenever it comes up, and several processes of it may do so at once. What is stored
under its name is compared with what it says: a new one is added, one that differs is changed in place (so that it goes
on after its last tick, and a pause stays a pause), one that is the same is left alone. One that it says no more is
reported and left at work, because an old process that comes up once more, or a module that was not imported, must not
delete anything. It is removed when that is asked for in so many words.

A name that somebody else has, an operator or another program, is refused before anything is written.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ganger.core import names
from ganger.core.errors import BadInput, DuplicateKey
from ganger.core.schedule import Schedule
from ganger.engine.schedules import Planned, Schedules, Work
from ganger.engine.ticks import check


class Declared(NamedTuple):
    """A schedule as a program says it, and what each tick submits. A start of 0 leaves it where it is."""

    schedule: Schedule
    work: Work


class Synced(NamedTuple):
    """The names of what was added, was changed, was the same, is said no more and still at work, and was removed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


async def sync(schedules: Schedules, declared: Sequence[Declared], owner: str, *, remove: bool = False) -> Synced:
    """Make what is stored for `owner` what it declares. Idempotent; not atomic, and repeated safely.

    Raises BadInput before anything is written: one of them makes no sense, or two have one name; DuplicateKey: a name
    is somebody else's.
    """
    names.check("owner", owner)
    wanted = {one.schedule.name: Declared(check(one.schedule), one.work) for one in declared}
    if len(wanted) != len(declared):
        raise BadInput("two schedules of one program have the same name")
    stored = {planned.schedule.name: planned async for planned in schedules.all(skip_bad=True)}
    _refuse_strangers(wanted, stored, owner)
    verdicts = {name: await _keep(schedules, one, stored.get(name), owner) for name, one in wanted.items()}
    gone = [name for name, planned in stored.items() if planned.owner == owner and name not in wanted]
    for name in gone if remove else ():
        await schedules.remove(name, by=owner)
    told = [tuple(name for name, said in verdicts.items() if said == verdict) for verdict in _VERDICTS]
    return Synced(*told, *(((), tuple(gone)) if remove else (tuple(gone), ())))


_VERDICTS: Final = ("added", "changed", "same")


def _refuse_strangers(wanted: Mapping[str, Declared], stored: Mapping[str, Planned], owner: str) -> None:
    for name, planned in stored.items():
        if name in wanted and planned.owner != owner:
            raise _taken(planned, owner)


def _taken(planned: Planned, owner: str) -> DuplicateKey:
    name, other = planned.schedule.name, planned.owner or "an operator"
    return DuplicateKey(
        f"the schedule {name!r:.80} is there already, made by {other!r:.80} and not by {owner!r:.80}: "
        "remove that one, or give this one another name",
        task=int(planned.task), name=name,
    )  # fmt: skip


async def _keep(schedules: Schedules, one: Declared, planned: Planned | None, owner: str) -> str:
    if planned is None:
        try:
            await schedules.add(*one, by=owner, owner=owner)
        except DuplicateKey:
            # Another process of the same program came up at the same moment.
            planned = await schedules.get(one.schedule.name)
            if planned.owner != owner:
                raise _taken(planned, owner) from None
        else:
            return "added"
    if _is_same(one, planned):
        return "same"
    await schedules.change(planned, *one, by=owner)
    return "changed"


def _is_same(one: Declared, planned: Planned) -> bool:
    start = one.schedule.start or planned.schedule.start
    return one.work == planned.work and one.schedule._replace(start=start) == planned.schedule
