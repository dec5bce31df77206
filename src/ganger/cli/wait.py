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
    from ganger.engine.engine import Engine

FAILED_EXIT = 1
LATE_EXIT = 124
"""As the command `timeout` has it."""

_TICK = 0.25


@click.command()
@take_store
@take_json
@click.option("--timeout", type=read_duration, metavar="DURATION", help="Give up after so long, with exit code 124.")
@click.argument("tasks", type=read_id, nargs=-1, required=True, metavar="ID...")
def wait(store: str | None, as_json: bool, timeout: int | None, tasks: "tuple[TaskId, ...]") -> None:
    """Wait until these tasks have ended. Exits with 0 if all succeeded, 1 if not, 124 if the time is up."""
    ids = list(dict.fromkeys(tasks))
    statuses = run_engine(store, lambda engine: _wait(engine, ids, timeout))
    _print(dict(zip(ids, statuses, strict=True)), as_json)
    if not all(map(is_final, statuses)):
        sys.exit(LATE_EXIT)
    if any(status != Status.SUCCEEDED for status in statuses):
        sys.exit(FAILED_EXIT)


async def _wait(engine: "Engine", ids: "Sequence[TaskId]", timeout: int | None) -> list[int]:
    """The statuses at the end; a task that is not there, or vanishes meanwhile, is an error."""
    from ganger.runtime.clock import SystemClock

    clock = SystemClock()
    until = None if timeout is None else clock.now() + timeout
    with show_count("waiting", len(ids)) as seen:
        while True:
            left = None if until is None else max(0.0, (until - clock.now()) / 1000)
            waited = await engine.wait(ids, _TICK if left is None else min(_TICK, left))
            statuses = [_known(task, status) for task, status in zip(ids, waited.statuses, strict=True)]
            seen(sum(map(is_final, statuses)))
            if waited.done or left == 0:
                return statuses


def _known(task: "TaskId", status: int | None) -> int:
    if status is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    return status


def _print(statuses: "dict[TaskId, int]", as_json: bool) -> None:
    from ganger.cli.views import say_word

    for task, status in statuses.items():
        if as_json:
            print_json({"id": task, "status": say_word(status), "code": status})
        elif status != Status.SUCCEEDED:
            tell(f"task {task} {'is still' if not is_final(status) else 'ended'} {say_status(status)}")
