"""`ganger schedule`: tasks that are made again and again."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.overview import Brief
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.sync import sync
from ganger.cli.words import read_duration, say_length, say_second
from ganger.cli.work import PLAIN, check_work, take_each_running, take_priority, take_script
from ganger.core.schedule import Missed, Schedule

if TYPE_CHECKING:
    from ganger.cli.views import Names
    from ganger.core.task import NewTask
    from ganger.engine.engine import Engine
    from ganger.engine.operate import Moved
    from ganger.engine.schedules import Planned, Schedules, Work

_MISSED: Final = tuple(policy.value for policy in Missed)
_DATES: Final = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")

take_name = click.argument("name", metavar="SCHEDULE")
take_cron = click.option("--cron", metavar="TEXT", help="Minute, hour, day, month, weekday: '30 2 * * 1-5'; or @daily.")
take_every = click.option("--every", type=read_duration, metavar="DURATION", help="Again after so long: 90s, 5m, 2h.")
take_zone = click.option(
    "--tz", "zone", default="UTC", show_default=True, metavar="ZONE", help="Whose clock: Europe/Berlin."
)


@click.group(cls=Brief)
def schedule() -> None:
    """Make tasks at times or in intervals. The nodes make the ticks, each once, whichever of them are there."""


schedule.add_command(sync)


@schedule.command()
@take_store
@take_json
@take_cron
@take_every
@take_zone
@click.option("--overlap", is_flag=True, help="Make a tick even while the task of the one before has not ended.")
@click.option(
    "--missed", type=click.Choice(_MISSED), default=Missed.ONCE.value, show_default=True,
    help="What becomes of late ticks: none is made, the newest, or all.",
)  # fmt: skip
@click.option("--most", type=int, default=100, show_default=True, metavar="N", help="Of all missed, the newest N.")
@click.option("--queue", default="default", metavar="QUEUE", show_default=True, help="The queue of its tasks.")
@take_script
@take_priority
@click.option("--description", help="What people see in lists (default: the command).")
@take_each_running
@click.option("--label", "labels", multiple=True, help="Only on nodes with this label.")
@take_name
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def add(store: str | None, as_json: bool, name: str, **given: Any) -> None:
    """Keep a schedule: ganger schedule add nightly --cron '30 2 * * *' -- COMMAND ARGUMENTS. Prints its name."""
    from ganger.engine.ticks import check

    check_work(given)
    wanted = check(_schedule(name, given))
    planned = run_engine(store, lambda engine: _add(engine, wanted, given), makes=True)
    _print(planned, as_json)
    if (tick := _next_tick(planned)) is not None:
        tell(f"the first tick is at {_say_tick(tick, wanted.zone)}")


def _schedule(name: str, given: dict[str, Any]) -> Schedule:
    wanted = Schedule(name, given["cron"], given["every"], given["zone"])
    return wanted._replace(**{field: given[field] for field in ("missed", "overlap", "most") if field in given})


async def _add(engine: "Engine", wanted: Schedule, given: dict[str, Any]) -> "Planned":
    from ganger.cli.submit import make_command
    from ganger.cli.tasks import find_queue

    queue = await find_queue(engine, given["queue"])
    kept = _open(engine)
    await kept.add(wanted, _work(make_command({**PLAIN, **given}, int(queue.id))), by=name_operator())
    return await kept.get(wanted.name)


def _open(engine: "Engine") -> "Schedules":
    from ganger.engine.schedules import Schedules
    from ganger.runtime.clock import SystemClock

    return Schedules(engine, SystemClock())


def _work(task: "NewTask") -> "Work":
    """What each tick submits: those fields of the task that a schedule keeps."""
    from ganger.engine.schedules import Work

    return Work(**{field: getattr(task, field) for field in Work.__struct_fields__})


@schedule.command()
@take_store
@take_json
def ls(store: str | None, as_json: bool) -> None:
    """List the schedules."""

    async def read(engine: "Engine") -> "tuple[list[Planned], Names]":
        from ganger.cli.views import name_queues

        return [planned async for planned in _open(engine).all()], await name_queues(engine)

    found, names = run_engine(store, read)
    if as_json:
        for planned in found:
            print_json(_view(planned))
    elif found:
        columns = ("SCHEDULE", "NEXT", "WHEN", "LAST", "QUEUE", "TASK")
        print_table(columns, [_row(planned, names) for planned in found])
    else:
        tell("no schedules yet: see `ganger schedule add --help`")


def _row(planned: "Planned", names: "Names") -> tuple[str, ...]:
    from ganger.cli.titles import say_spec
    from ganger.core.ids import QueueId

    work, tick = planned.work, _next_tick(planned)
    return (
        planned.schedule.name,
        "paused" if planned.paused else "never" if tick is None else _say_next(tick, planned.schedule),
        _say_when(planned.schedule),
        "-" if planned.last.task is None else str(planned.last.task),
        names.get(QueueId(work.queue), str(work.queue)),
        work.description or say_spec(work.kind, work.spec),
    )


def _say_next(tick: int, wanted: Schedule) -> str:
    """By the clock of the schedule, which stands beside it; an interval has none but ours."""
    if wanted.every is not None:
        return say_second(tick)
    return _say_tick(tick, wanted.zone)[: len("2026-01-01 00:00:00")]


def _say_when(wanted: Schedule) -> str:
    return f"every {say_length(wanted.every)}" if wanted.every is not None else f"{wanted.cron} {wanted.zone}"


def _view(planned: "Planned") -> dict[str, Any]:
    work = planned.work
    fields = {"task": planned.task, **planned.schedule._asdict(), "paused": planned.paused}
    fields |= {"queue_id": work.queue, "kind": work.kind, "description": work.description}
    return {**fields, "next": _next_tick(planned), "last_task": planned.last.task}


def _next_tick(planned: "Planned") -> int | None:
    from ganger.engine.ticks import next_ticks
    from ganger.runtime.clock import SystemClock

    return next(iter(next_ticks(planned.schedule, 1, max(planned.last.until, SystemClock().wall()))), None)


def _print(planned: "Planned", as_json: bool) -> None:
    if as_json:
        print_json(_view(planned))
    else:
        click.echo(planned.schedule.name)


@schedule.command()
@take_store
@take_json
@take_name
def rm(store: str | None, as_json: bool, name: str) -> None:
    """Remove a schedule; the tasks that it made stay."""

    async def act(engine: "Engine") -> "Planned":
        planned = await _open(engine).get(name)
        await _open(engine).remove(name, by=name_operator())
        return planned

    _print(run_engine(store, act), as_json)


@schedule.command()
@take_store
@take_json
@take_name
def pause(store: str | None, as_json: bool, name: str) -> None:
    """Make no ticks of a schedule until it is resumed; what runs goes on."""
    _print(run_engine(store, lambda engine: _turn(engine, name, "is paused already", engine.hold)), as_json)


@schedule.command()
@take_store
@take_json
@take_name
def resume(store: str | None, as_json: bool, name: str) -> None:
    """End a pause; its ticks that came meanwhile are missed ones."""
    _print(run_engine(store, lambda engine: _turn(engine, name, "is not paused", engine.kick)), as_json)


async def _turn(engine: "Engine", name: str, otherwise: str, turn: "Callable[..., Awaitable[Moved]]") -> "Planned":
    from ganger.core.errors import WrongStatus

    planned = await _open(engine).get(name)
    if (await turn([planned.task], by=name_operator())).refused:
        raise WrongStatus(f"the schedule {name!r:.80} {otherwise}", task=planned.task)
    return await _open(engine).get(name)


@schedule.command("next")
@take_store
@take_json
@take_cron
@take_every
@take_zone
@click.option("-n", "--most", "count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="So many.")
@click.option("--from", "start", type=click.DateTime(_DATES), help="From this local time on (default: now).")
@click.argument("name", required=False, metavar="[SCHEDULE]")
def next_times(store: str | None, as_json: bool, name: str | None, **given: Any) -> None:
    """Print when the next ticks are, of a schedule or of --cron or --every: a dry run, nothing is stored."""
    from ganger.engine.ticks import check, next_ticks

    if (name is None) == (given["cron"] is None and given["every"] is None):
        raise click.UsageError("give the name of a schedule, or --cron, or --every")
    if name is not None:
        wanted = run_engine(store, lambda engine: _open(engine).get(name)).schedule
    else:
        wanted = check(_schedule("dry run", given))
    at = _find_start(given["start"], wanted.zone)
    if name is None:
        # An interval begins when it is kept, and its first tick is one interval later.
        wanted = wanted._replace(start=at + (wanted.every or 0))
    for tick in next_ticks(wanted, given["count"], at - 1):
        _print_tick(tick, wanted.zone, as_json)


def _find_start(local: datetime | None, zone: str) -> int:
    """The moment of a local time in this zone; now if none is given."""
    from zoneinfo import ZoneInfo

    from ganger.core.schedule import to_wall
    from ganger.runtime.clock import SystemClock

    return SystemClock().wall() if local is None else to_wall(local, ZoneInfo(zone))


def _print_tick(tick: int, zone: str, as_json: bool) -> None:
    if as_json:
        print_json({"tick": tick, "local": _say_tick(tick, zone)})
    else:
        click.echo(_say_tick(tick, zone))


def _say_tick(tick: int, zone: str) -> str:
    from datetime import UTC
    from zoneinfo import ZoneInfo

    return datetime.fromtimestamp(tick / 1000, UTC).astimezone(ZoneInfo(zone)).isoformat(" ", "seconds")
