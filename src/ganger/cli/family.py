"""`ganger family`: a task looks at its parents, itself and its children."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.colours import paint_status
from ganger.cli.inside import find_attempt
from ganger.cli.opening import take_json, take_store, view_engine
from ganger.cli.printing import print_json, print_table
from ganger.cli.words import say_status

if TYPE_CHECKING:
    from ganger.cli.views import Names
    from ganger.core.lease import Lease
    from ganger.core.task import Task
    from ganger.engine.engine import Engine
    from ganger.engine.family import Relatives
    from ganger.engine.view import View

_SELF = "self"
_MOST = 1_000


@click.command()
@take_store
@take_json
def family(store: str | None, as_json: bool) -> None:
    """Show the parents of this task, itself and its children. For use inside a task.

    Exits with 4 if the attempt has lost its lease: then another may have the task, and it should end.
    """
    lease = find_attempt(store)
    relatives, names = view_engine(store, lambda engine: _read(engine, lease))
    rows = _rows(relatives)
    if as_json:
        _print_lines(rows, names)
    else:
        print_table(("WHO", "ID", "STATUS", "ON", "TASK"), [_cells(*row) for row in rows], STATUS=paint_status)


async def _read(engine: "Engine | View", lease: "Lease") -> "tuple[Relatives, Names]":
    from ganger.cli.views import name_queues

    return await engine.family(lease, _MOST), await name_queues(engine)


def _rows(relatives: "Relatives") -> "list[tuple[str, Task, str]]":
    return [
        *(("parent", task, on) for task, on in relatives.parents),
        (_SELF, relatives.itself, ""),
        *(("child", task, on) for task, on in relatives.children),
    ]


def _cells(who: str, task: "Task", on: str) -> tuple[str, ...]:
    return who, str(task.id), say_status(task.status), on, task.description or f"({task.kind})"


def _print_lines(rows: "list[tuple[str, Task, str]]", names: "Names") -> None:
    from ganger.cli.views import view_task

    for who, task, on in rows:
        fields: dict[str, Any] = {"who": who, "on": on or None}
        print_json(fields | view_task(task, names))
