"""`ganger submit`: a command or a script becomes a task."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.words import read_duration
from ganger.cli.work import check_work, print_made, read_stdin, take_naming, take_priority, take_running, take_script

if TYPE_CHECKING:
    from ganger.core.task import NewTask
    from ganger.engine.engine import Engine
    from ganger.engine.store import Submitted

_SHOWN = 200
"""So much of a command describes it in lists."""


@click.command(context_settings={"allow_interspersed_args": False})
@take_store
@take_json
@click.option(
    "--queue",
    default="default",
    metavar="QUEUE",
    show_default=True,
    help="The queue; it is made when it is missing.",
)
@take_script
@take_priority
@click.option(
    "--delay", type=read_duration, metavar="DURATION", default="0", help="Not before so long from now: 90s, 5m, 2h."
)
@take_naming
@click.option(
    "--after",
    "parents",
    multiple=True,
    metavar="ID[:ON]",
    help="Wait for a task; ON: success, finished, failed, then, else.",
)
@take_running
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(store: str | None, as_json: bool, **given: Any) -> None:
    """Store a task: ganger submit [options] -- COMMAND ARGUMENTS. Prints its id."""
    check_work(given)
    given["stdin"] = read_stdin(given["stdin"])
    made = run_engine(store, lambda engine: _submit(engine, given), makes=True)
    print_made(made, given["key"], as_json)


async def _submit(engine: "Engine", given: dict[str, Any]) -> "Submitted":
    from ganger.cli.tasks import find_queue

    queue = await find_queue(engine, given["queue"])
    return await engine.submit([make_command(given, int(queue.id))])


def describe(given: dict[str, Any]) -> str:
    """A command or a script as lists show it."""
    import shlex

    text: str = given["script"] or shlex.join(given["command"])
    return text[:_SHOWN]


def _find_venv() -> dict[str, str]:
    """The virtual environment of whoever submits: its programs are found first."""
    from ganger.assembly.settings import find_surroundings

    venv = find_surroundings().get("VIRTUAL_ENV")
    return {"VIRTUAL_ENV": venv} if venv else {}


def make_command(given: dict[str, Any], queue: int) -> "NewTask":
    from pathlib import Path

    from ganger.cli.tasks import Wish, make_task

    names = ("priority", "delay", "key", "once", "timeout", "retries")
    # Nought is a word too: no retries, where the queue would have some.
    words = {name: given[name] for name in names if given[name] is not None}
    words |= {"env": {**_find_venv(), **dict(given["env"])}, "after": list(given["parents"])}
    wish = Wish(
        **words,
        command=list(given["command"]),
        shell=given["script"],
        cwd=str(Path(given["cwd"] or ".").absolute()),
        stdin=given["stdin"],
        requires=list(given["labels"]),
        description=given["description"] or describe(given),
    )
    return make_task(wish, queue, {})
