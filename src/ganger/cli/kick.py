"""`ganger kick`: make held or delayed tasks ready."""

from typing import TYPE_CHECKING, Final

import click

from ganger.cli.acting import run_act
from ganger.cli.opening import name_operator, take_json, take_store
from ganger.cli.words import read_id

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine
    from ganger.engine.operate import Moved

REFUSALS: Final = {"wrong_status": "is neither held nor delayed", "gone": "is not there"}


@click.command()
@take_store
@take_json
@click.option("--queue", help="Tasks of this queue: those that are held, or the delayed ones if none is.")
@click.option("-n", "--most", type=click.IntRange(1, 100_000), default=1_000, help="With --queue: at most so many.")
@click.argument("tasks", type=read_id, nargs=-1, metavar="[ID...]")
def kick(store: str | None, as_json: bool, queue: str | None, most: int, tasks: "tuple[TaskId, ...]") -> None:
    """Make held or delayed tasks ready. Prints the ids."""
    if bool(tasks) == (queue is not None):
        raise click.UsageError("give ids, or a queue with --queue")

    async def act(engine: "Engine") -> "Moved":
        from ganger.cli.views import choose_queue

        if queue is None:
            return await engine.kick(tuple(dict.fromkeys(tasks)), by=name_operator())
        return await engine.kick_queue((await choose_queue(engine, queue)).id, most, by=name_operator())

    run_act(store, as_json, REFUSALS, act, nothing="nothing in this queue is held or delayed")
