"""What the commands that act on tasks have in common: many ids, one answer for each."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import click

from ganger.cli.opening import run_engine
from ganger.cli.printing import print_json, tell
from ganger.cli.words import read_id

if TYPE_CHECKING:
    from ganger.engine.engine import Engine
    from ganger.engine.operate import Moved

GONE_EXIT: Final = 3
REFUSED_EXIT: Final = 4
_ABSENT: Final = frozenset({"gone", "task_not_found"})


def _once(_: click.Context, __: click.Parameter, ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))


take_tasks = click.argument("tasks", type=read_id, nargs=-1, required=True, metavar="ID...", callback=_once)


def run_act(
    store: str | None,
    as_json: bool,
    refusals: Mapping[str, str],
    body: "Callable[[Engine], Awaitable[Moved]]",
    nothing: str = "nothing was to be done",
) -> None:
    """Act, print the ids that it was done to, and tell the others with the reason.

    Exits with 4 if there are others, and with 3 if none of all is there.
    """
    moved = run_engine(store, body)
    if not (moved.done or moved.refused):
        tell(nothing)
    for task in moved.done:
        _print(as_json, task)
    for task, verdict in moved.refused:
        _refuse(as_json, task, verdict, refusals.get(verdict, verdict))
    if moved.refused:
        none_there = not moved.done and all(verdict in _ABSENT for _, verdict in moved.refused)
        sys.exit(GONE_EXIT if none_there else REFUSED_EXIT)


def _print(as_json: bool, task: int) -> None:
    if as_json:
        print_json({"id": task, "done": True})
    else:
        click.echo(task)


def _refuse(as_json: bool, task: int, verdict: str, why: str) -> None:
    if as_json:
        print_json({"id": task, "done": False, "verdict": verdict})
    tell(f"ganger: task {task} {why} [{verdict}]")
