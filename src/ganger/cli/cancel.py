"""`ganger cancel`: end tasks that wait."""

from typing import TYPE_CHECKING, Final

import click

from ganger.cli.acting import run_act, take_tasks
from ganger.cli.opening import name_operator, take_json, take_store

if TYPE_CHECKING:
    from ganger.core.ids import TaskId

REFUSALS: Final = {"wrong_status": "does not wait: it runs (use `ganger kill`) or has ended", "gone": "is not there"}


@click.command()
@take_store
@take_json
@take_tasks
def cancel(store: str | None, as_json: bool, tasks: "tuple[TaskId, ...]") -> None:
    """End tasks that wait; a group ends with all its members. Prints the ids."""
    run_act(store, as_json, REFUSALS, lambda engine: engine.cancel(tasks, by=name_operator()))
