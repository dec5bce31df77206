"""`ganger kill`: end tasks whatever they do."""

from typing import TYPE_CHECKING, Final

import click

from ganger.cli.acting import run_act, take_tasks
from ganger.cli.opening import name_operator, take_json, take_store

if TYPE_CHECKING:
    from ganger.core.ids import TaskId

REFUSALS: Final = {"wrong_status": "has ended already", "gone": "is not there"}


@click.command()
@take_store
@take_json
@take_tasks
def kill(store: str | None, as_json: bool, tasks: "tuple[TaskId, ...]") -> None:
    """End tasks, whatever they do; a group ends with all its members. Prints the ids.

    Nodes kill those that run; those that wait are cancelled.
    """
    run_act(store, as_json, REFUSALS, lambda engine: engine.kill(tasks, by=name_operator()))
