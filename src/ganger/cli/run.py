"""`ganger run`: submit a command, show what it writes, and end as it ended."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import tell
from ganger.cli.wait import HELD_EXIT, tell_held
from ganger.cli.work import PLAIN, check_work, read_stdin, take_priority, take_running, take_script
from ganger.core.state import Status

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine
    from ganger.engine.wait import Waited

_FAILED = 1
_KILLED = 143
_TIMED_OUT = 124
_LARGEST = 255
_LAST_WORDS = 0.5
"""Seconds in which what a held task has written is still shown."""


@click.command(context_settings={"allow_interspersed_args": False})
@take_store
@click.option("--queue", default="default", metavar="QUEUE", show_default=True, help="The queue.")
@take_script
@take_priority
@take_running
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(store: str | None, **given: Any) -> None:
    """Run a command on a node and wait for it: ganger run -- COMMAND ARGUMENTS. Exits with the command's own code.

    A pipe or a file as standard input is given to the command. One that takes longer than its --timeout exits with 124.
    Ctrl-C leaves it running. A task that is held, which may last for ever, is not waited for: that exits with 4.
    """
    check_work(given)
    given["stdin"] = read_stdin(given["stdin"], offered=True)
    sys.exit(run_engine(store, lambda engine: _run(engine, {**PLAIN, **given}), makes=True))


async def _run(engine: "Engine", given: dict[str, Any]) -> int:
    import asyncio

    from ganger.cli.submit import make_command
    from ganger.cli.tasks import find_queue

    queue = await find_queue(engine, given["queue"])
    (task,) = (await engine.submit([make_command(given, int(queue.id))])).ids
    if not any(node.here for node in await engine.nodes.all()):
        tell(f"task {task} waits: no node is here to run it; start one with `ganger up` in another terminal")
    try:
        waited = await _show(engine, task)
    except asyncio.CancelledError:
        tell(f"task {task} goes on: `ganger logs -f {task}` shows it, `ganger kill {task}` ends it")
        raise
    return HELD_EXIT if waited.held else await _code(engine, task, waited.statuses[0])


async def _show(engine: "Engine", task: "TaskId") -> "Waited":
    """Show what it writes until it has ended, or until it is held, which may last for ever."""
    import asyncio

    from ganger.cli.logs import follow_output

    following = asyncio.ensure_future(follow_output(engine, task))
    waiting = asyncio.ensure_future(engine.wait([task], until_held=True))
    try:
        await asyncio.wait([following, waiting], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() and waiting.result().held:
            await asyncio.wait([following], timeout=_LAST_WORDS)
            tell_held(task)
        else:
            await following
        return await waiting
    finally:
        following.cancel()
        waiting.cancel()


async def _code(engine: "Engine", task: "TaskId", status: int | None) -> int:
    """The command's own exit code where it has one."""
    if status == Status.SUCCEEDED:
        return 0
    (seen,) = await engine.tasks([task])
    tell(f"task {task}: {seen.reason if seen is not None and seen.reason else 'it did not succeed'}")
    if status in (Status.TERMINATED, _TIMED_OUT):
        return _KILLED if status == Status.TERMINATED else _TIMED_OUT
    said = (await engine.read_data(task, "result")).body
    return min(int(said), _LARGEST) if said.isdigit() and int(said) else _FAILED
