"""`ganger hold`: set waiting tasks aside."""

from typing import TYPE_CHECKING, Final

import click

from ganger.cli.acting import run_act, take_tasks
from ganger.cli.opening import name_operator, take_json, take_store

if TYPE_CHECKING:
    from ganger.core.ids import TaskId

REFUSALS: Final = {"wrong_status": "does not wait: it is held, runs or has ended", "gone": "is not there"}


@click.command()
@take_store
@take_json
@click.option("--reason", help="Why, for those who ask.")
@take_tasks
def hold(store: str | None, as_json: bool, reason: str | None, tasks: "tuple[TaskId, ...]") -> None:
    """Set waiting tasks aside until somebody kicks them. Prints the ids."""
    run_act(store, as_json, REFUSALS, lambda engine: engine.hold(tasks, by=name_operator(), reason=reason))
