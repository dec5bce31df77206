"""`ganger add`: a task that runs adds one that follows it."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.inside import find_attempt
from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import print_json, tell
from ganger.cli.words import read_duration, read_pair
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
@click.option("--shell", "script", metavar="SCRIPT", help="A bash script in place of a command.")
@click.option("--priority", type=click.IntRange(0, 4294967295), default=1024, metavar="N", help="Smaller is sooner.")
@click.option("--delay", type=read_duration, metavar="DURATION", default="0", help="Not before so long from now.")
@click.option("--key", help="A name that only one task may have; refused if another has it.")
@click.option("--once", is_flag=True, help="With --key: if a task has the key, print its id instead.")
@click.option("--description", help="What people see in lists (default: the command).")
@click.option("--timeout", type=read_duration, metavar="DURATION", help="Kill it after so long.")
@click.option("--retries", type=click.IntRange(0), metavar="N", help="Try so many times again after a failure.")
@click.option("--cwd", type=click.Path(), help="The folder it runs in (default: this one).")
@click.option("--env", type=read_pair, multiple=True, metavar="NAME=VALUE", help="Add to its environment.")
@click.option("--label", "labels", multiple=True, help="Only on nodes with this label.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def add(store: str | None, as_json: bool, **given: Any) -> None:
    """Add a child to this task: ganger add [options] -- COMMAND ARGUMENTS. For use inside a task. Prints its id.

    The child waits until this task has ended. An attempt that is tried again adds it again, unless it has a --key.
    """
    if bool(given["command"]) == (given["script"] is not None):
        raise click.UsageError("give either a command after -- or a script with --shell")
    if given["once"] and given["key"] is None:
        raise click.UsageError("--once needs a --key")
    lease = find_attempt(store)
    made = run_engine(store, lambda engine: _add(engine, lease, given))
    if made.existing:
        tell(f"ganger: a task has the key {given['key']!r} already; nothing was added")
    if as_json:
        print_json({"id": made.ids[0], "existed": bool(made.existing)})
    else:
        click.echo(made.ids[0])


async def _add(engine: "Engine", lease: "Lease", given: dict[str, Any]) -> "Submitted":
    """Store the child, if the lease still holds."""
    from ganger.cli.submit import make_command

    queue = await _choose_queue(engine, lease, given["queue"])
    child = make_command({**given, "parents": (f"{lease.task}:{given['on']}",)}, queue)
    return await engine.submit([child], under=lease)


async def _choose_queue(engine: "Engine", lease: "Lease", name: str | None) -> int:
    from ganger.cli.tasks import find_queue
    from ganger.core.errors import TaskNotFound

    if name is not None:
        return int((await find_queue(engine, name)).id)
    (task,) = await engine.tasks([lease.task])
    if task is None:
        raise TaskNotFound(f"there is no task {lease.task}", task=lease.task)
    return int(task.queue)
