"""`ganger import`: the tasks of an export become tasks of this store."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

from ganger.cli.bars import show_storing
from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.printing import print_json

if TYPE_CHECKING:
    from ganger.cli.import_lines import TaskLine
    from ganger.core.ids import TaskId
    from ganger.core.task import NewTask
    from ganger.engine.engine import Engine

_HELD_MEANWHILE = 86_400_000
"""A held task is born delayed, so that nobody takes it before it is held again."""


@click.command("import")
@take_store
@take_json
@click.argument("file", type=click.File("r", encoding="utf-8"))
def import_tasks(store: str | None, as_json: bool, file: TextIO) -> None:
    """Store the tasks of an export, under new ids.

    Those of FILE (- for standard input) are stored with their graph, all or none; those that have ended with their end
    and their result. Missing queues are made. A task whose key is taken already is left
    out. Prints how many were added.
    """
    from ganger.cli.import_lines import read_lines

    lines = read_lines(file)
    added, existing = run_engine(store, lambda engine: _import(engine, lines), makes=True)
    if as_json:
        print_json({"added": added, "existing": existing})
    else:
        click.echo(f"{added} tasks added, {existing} were there already")


async def _import(engine: "Engine", lines: "Iterable[Any]") -> tuple[int, int]:
    from ganger.cli.import_lines import QueueLine, TaskLine
    from ganger.core.state import Status

    read = list(lines)
    queues = await _make_queues(engine, [line for line in read if isinstance(line, QueueLine)])
    tasks = [line for line in read if isinstance(line, TaskLine)]
    places = {line.id: -1 - index for index, line in enumerate(tasks)}
    new = [_make(line, await _queue(engine, queues, line.queue), places) for line in tasks]
    ended = [(index, line) for index, line in enumerate(tasks) if not line.is_open]
    data = [(index, key, value) for index, line in enumerate(tasks) for key, value in line.data]
    with show_storing(len(new)):
        made = await engine.submit(new, data=data, pasts=[(index, line.past) for index, line in ended])
    born = set(range(len(tasks))) - set(made.existing)
    held: list[TaskId] = [made.ids[index] for index in sorted(born) if tasks[index].code == Status.HELD]
    if held:
        await engine.hold(held, by=name_operator(), reason="it was held where it came from")
    return len(born), len(made.existing)


async def _make_queues(engine: "Engine", lines: "list[Any]") -> dict[str, int]:
    made = {}
    for line in lines:
        made[line.name] = int((await engine.queues.ensure(line.name, line.policy, by=name_operator())).id)
    return made


async def _queue(engine: "Engine", queues: dict[str, int], name: str) -> int:
    if name not in queues:
        queues[name] = int((await engine.queues.ensure(name, by=name_operator())).id)
    return queues[name]


def _make(line: "TaskLine", queue: int, places: Mapping[int, int]) -> "NewTask":
    """Parents and groups that do not come along are decided already: only the others are waited for."""
    from ganger.core.clock import Wall
    from ganger.core.graph import Edge
    from ganger.core.ids import QueueId
    from ganger.core.state import Status
    from ganger.core.task import NewTask, OnConflict

    held = line.code == Status.HELD
    return NewTask(
        QueueId(queue), line.kind, line.body, line.priority, delay=_HELD_MEANWHILE if held else line.delay,
        parents=tuple(Edge(places[parent], on) for parent, on in line.parents if parent in places),
        join=line.join, group=places.get(line.group or 0, 0), key=line.key, on_conflict=OnConflict.RETURN,
        description=line.description, retry=line.retry, timeout=line.timeout, renewal=line.renewal, ttr=line.ttr,
        limit_key=line.limit_key, requires=line.requires,
        due=None if held or line.due is None else Wall(line.due),
    )  # fmt: skip
