"""`ganger retry`: the work of a task that has ended, once more."""

from typing import TYPE_CHECKING

import click

from ganger.cli.acting import take_tasks
from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.printing import print_json

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine


@click.command()
@take_store
@take_json
@take_tasks
def retry(store: str | None, as_json: bool, tasks: "tuple[TaskId, ...]") -> None:
    """Try tasks that have ended again, each as a new task. Prints the new ids; stops at the first that is refused."""

    async def act(engine: "Engine") -> None:
        for task in tasks:
            made = await engine.retry_final(task, by=name_operator())
            if as_json:
                print_json({"id": made, "retry_of": task})
            else:
                click.echo(made)

    run_engine(store, act)
