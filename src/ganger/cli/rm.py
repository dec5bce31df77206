"""`ganger rm`: take tasks out of the store."""

from typing import TYPE_CHECKING, Final

import click

from ganger.cli.acting import run_act, take_tasks
from ganger.cli.opening import name_operator, take_json, take_store

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine
    from ganger.engine.operate import Moved

_REFUSALS: Final = {
    "wrong_status": "is running, or something below it is: kill it first, or say --kill",
    "task_not_found": "is not there",
}


@click.command()
@take_store
@take_json
@click.option("--descendants", is_flag=True, help="Also all below them (default: these get their parents).")
@click.option("--kill", is_flag=True, help="End first what runs of those that go.")
@take_tasks
def rm(store: str | None, as_json: bool, descendants: bool, kill: bool, tasks: "tuple[TaskId, ...]") -> None:
    """Remove tasks that are not running, with their output and data. Prints the ids."""

    async def act(engine: "Engine") -> "Moved":
        from ganger.core.errors import Conflict, TaskNotFound
        from ganger.engine.operate import Moved

        moved = Moved([], [])
        for task in dict.fromkeys(tasks):
            try:
                await engine.remove(task, by=name_operator(), descendants=descendants, kill=kill)
                moved.done.append(task)
            except (Conflict, TaskNotFound) as error:
                moved.refused.append((task, error.code))
        return moved

    run_act(store, as_json, _REFUSALS, act)
