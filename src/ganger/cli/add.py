"""`ganger add`: a task that runs adds one that follows it."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.inside import find_attempt
from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.words import read_duration
from ganger.cli.work import check_work, print_made, read_stdin, take_naming, take_priority, take_running, take_script
from ganger.core.graph import On

if TYPE_CHECKING:
    from ganger.core.lease import Lease
    from ganger.engine.engine import Engine
    from ganger.engine.store import Submitted

_ENDS = (On.SUCCESS.value, On.FINISHED.value, On.FAILED.value)


@click.command(context_settings={"allow_interspersed_args": False})
@take_store
@take_json
@click.option("--on", type=click.Choice(_ENDS), default=On.SUCCESS.value, help="How this task must end (success).")
@click.option("--queue", metavar="QUEUE", help="The queue (default: that of this task).")
@take_script
@take_priority
@click.option("--delay", type=read_duration, metavar="DURATION", default="0", help="Not before so long from now.")
@take_naming
@take_running
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def add(store: str | None, as_json: bool, **given: Any) -> None:
    """Add a child to this task: ganger add [options] -- COMMAND ARGUMENTS. For use inside a task. Prints its id.

    The child waits until this task has ended. An attempt that is tried again adds it again, unless it has a --key.
    """
    check_work(given)
    given["stdin"] = read_stdin(given["stdin"])
    lease = find_attempt(store)
    made = run_engine(store, lambda engine: _add(engine, lease, given))
    print_made(made, given["key"], as_json)


async def _add(engine: "Engine", lease: "Lease", given: dict[str, Any]) -> "Submitted":
    """Store the child, if the lease still holds."""
    from ganger.cli.submit import make_command
    from ganger.core.token import Attempt

    queue = await _choose_queue(engine, lease, given["queue"])
    child = make_command({**given, "parents": (f"{lease.task}:{given['on']}",)}, queue)
    return await engine.submit([child], under=Attempt(lease, queues=None))


async def _choose_queue(engine: "Engine", lease: "Lease", name: str | None) -> int:
    from ganger.cli.views import choose_queue
    from ganger.core.errors import TaskNotFound

    if name is not None:
        return int((await choose_queue(engine, name)).id)
    (task,) = await engine.tasks([lease.task])
    if task is None:
        raise TaskNotFound(f"there is no task {lease.task}", task=lease.task)
    return int(task.queue)
