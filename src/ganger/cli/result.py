"""`ganger result`: what a task has resulted in."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import clean, clean_lines, print_json, tell
from ganger.cli.words import read_id, say_status

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.core.task import Task
    from ganger.engine.engine import Engine

_PART = 1 << 20
_NOT_SUCCEEDED = 1


@click.command()
@take_store
@click.option("--json", "as_json", is_flag=True, help="As JSON, also a text.")
@click.argument("task", type=read_id, metavar="ID")
def result(store: str | None, as_json: bool, task: "TaskId") -> None:
    """Print the result of a task. Of a function that is what it returned, of a command its exit code.

    A text is printed as it is, anything else as JSON. A task that has not succeeded exits with 1 and says why.
    """
    found, body = run_engine(store, lambda engine: _read(engine, task))
    if body is None:
        tell(f"task {task} is {say_status(found.status)}" + (f": {clean_lines(found.reason)}" if found.reason else ""))
        sys.exit(_NOT_SUCCEEDED)
    _print(body, as_json)


async def _read(engine: "Engine", task: "TaskId") -> "tuple[Task, bytes | None]":
    from ganger.core.errors import TaskNotFound
    from ganger.core.state import Status

    (found,) = await engine.tasks([task])
    if found is None:
        raise TaskNotFound(f"there is no task {task} (any more)", task=task)
    if found.status != Status.SUCCEEDED:
        return found, None
    body = bytearray()
    while piece := (await engine.read_data(task, "result", len(body), _PART)).body:
        body += piece
    return found, bytes(body)


def _print(body: bytes, as_json: bool) -> None:
    import msgspec

    from ganger.wire.unreadable import UNREADABLE

    try:
        value: Any = msgspec.json.decode(body) if body else None
    except UNREADABLE:
        # The result of a payload is bytes, whatever they are.
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return
    if isinstance(value, str) and not as_json:
        click.echo(value if not sys.stdout.isatty() else "\n".join(clean(line) for line in value.split("\n")))
    else:
        print_json(value)
