"""`ganger wait`: until tasks have ended, and how they ended as the exit code."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ganger.cli.bars import show_count
from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import print_json, tell
from ganger.cli.words import read_duration, read_id, say_status
from ganger.core.errors import TaskNotFound
from ganger.core.state import Status, is_final

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.core.task import Task
    from ganger.engine.engine import Engine
    from ganger.engine.wait import Waited

FAILED_EXIT = 1
HELD_EXIT = 4
LATE_EXIT = 124
"""As the command `timeout` has it."""

SHOWN = 10
_TICK = 0.25


@click.command()
@take_store
@take_json
@click.option("--timeout", type=read_duration, metavar="DURATION", help="Give up after so long, with exit code 124.")
@click.option("--through-hold", is_flag=True, help="Wait for held tasks too, until somebody kicks or cancels them.")
@click.argument("tasks", type=read_id, nargs=-1, required=True, metavar="ID...")
def wait(
    store: str | None, as_json: bool, timeout: int | None, through_hold: bool, tasks: "tuple[TaskId, ...]"
) -> None:
    """Wait until these tasks have ended; a group counts with its members.

    Exits with 0 if all succeeded, 1 if not, 124 if the time is up, and 4 if all that is left is held or waits
    for what is held.
    """
    wait_for(store, as_json, list(dict.fromkeys(tasks)), timeout, through_hold)


def wait_for(
    store: str | None, as_json: bool, ids: "Sequence[TaskId]", timeout: int | None = None, through_hold: bool = False
) -> None:
    """Wait, tell how they ended, and exit if that was not well."""
    waited, failed = run_engine(store, lambda engine: _wait_all(engine, ids, timeout, through_hold))
    statuses = [_known(task, status) for task, status in zip(ids, waited.statuses, strict=True)]
    _print(dict(zip(ids, statuses, strict=True)), as_json)
    held = [task for task, status in zip(ids, statuses, strict=True) if status == Status.HELD]
    for task in [*dict.fromkeys([*waited.held, *held])][:SHOWN]:
        tell_held(task)
    for member in failed:
        tell(f"{_say_end(member.id, member.status)} (in group {member.group})")
    if code := _exit_code(statuses, bool(waited.held)):
        sys.exit(code)


def _exit_code(statuses: Sequence[int], stuck: bool) -> int:
    if not all(map(is_final, statuses)):
        return HELD_EXIT if stuck else LATE_EXIT
    return 0 if all(status == Status.SUCCEEDED for status in statuses) else FAILED_EXIT


async def _wait_all(
    engine: "Engine", ids: "Sequence[TaskId]", timeout: int | None, through_hold: bool
) -> "tuple[Waited, list[Task]]":
    """How it is at the end, and which members of groups are to blame."""
    from ganger.cli.members import find_failed

    waited = await _wait(engine, ids, timeout, through_hold)
    return waited, await find_failed(engine, ids)


async def _wait(engine: "Engine", ids: "Sequence[TaskId]", timeout: int | None, through_hold: bool) -> "Waited":
    """How it is when all have ended, the time is up, or held tasks keep the rest; one that is not there is an error."""
    from ganger.cli.members import Tally
    from ganger.runtime.clock import SystemClock

    clock = SystemClock()
    until = None if timeout is None else clock.now() + timeout
    tally = await Tally.of(engine, ids)
    with show_count("waiting", tally.total) as seen:
        while True:
            left = _TICK if until is None else min(_TICK, max(0.0, (until - clock.now()) / 1000))
            waited = await engine.wait(ids, left, until_held=not through_hold)
            statuses = [_known(task, status) for task, status in zip(ids, waited.statuses, strict=True)]
            seen(await tally.count_ended(statuses))
            if waited.done or waited.held or not left:
                return waited


def _known(task: "TaskId", status: int | None) -> int:
    if status is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    return status


def _print(statuses: "dict[TaskId, int]", as_json: bool) -> None:
    from ganger.cli.views import say_word

    for task, status in statuses.items():
        if as_json:
            print_json({"id": task, "status": say_word(status), "code": status})
        elif status not in (Status.SUCCEEDED, Status.HELD):
            tell(_say_end(task, status))


def tell_held(task: "TaskId") -> None:
    tell(f"task {task} is held: see `ganger why {task}`, then `ganger kick {task}` or `ganger cancel {task}`")


def _say_end(task: "TaskId", status: int) -> str:
    return f"task {task} {'is still' if not is_final(status) else 'ended'} {say_status(status)}"
