"""`ganger export`: queues and tasks as lines of JSON, for `ganger import` and for other programs."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import print_json, tell

if TYPE_CHECKING:
    from ganger.cli.views import Names
    from ganger.core.ids import TaskId
    from ganger.core.task import Task
    from ganger.engine.engine import Engine

_PAGE = 1_000
_PIECE = 1 << 20


@click.command()
@take_store
@click.option("--queue", help="Only this queue and its tasks.")
@click.option("--open", "only_open", is_flag=True, help="Only tasks that have not ended.")
def export(store: str | None, queue: str | None, only_open: bool) -> None:
    """Print queues and tasks as lines of JSON, the oldest first, with their results. Output and other data stay."""
    count = run_engine(store, lambda engine: _export(engine, queue, only_open))
    tell(f"{count} tasks")


async def _export(engine: "Engine", name: str | None, only_open: bool) -> int:
    from ganger.cli.views import choose_queue, view_queue
    from ganger.core.state import is_final
    from ganger.engine.store import Query

    chosen = None if name is None else await choose_queue(engine, name)
    queues = {queue.id: queue for queue in await engine.queues.all() if chosen is None or queue.id == chosen.id}
    for queue in queues.values():
        print_json({"type": "queue", **view_queue(queue)})
    names = {queue.id: queue.name for queue in queues.values()}
    count = 0
    async for task in engine.walk(Query(None if chosen is None else chosen.id, most=_PAGE)):
        if only_open and is_final(task.status):
            continue
        print_json({"type": "task", **await _view(engine, task, names)})
        count += 1
    return count


async def _view(engine: "Engine", task: "Task", names: "Names") -> dict[str, Any]:
    """A task with its parents, its spec, and what of its data is carried (as text, or in base64 if it is none)."""
    from ganger.cli.import_lines import CARRIED
    from ganger.cli.views import view_task

    look = await engine.look(task.id, engine.limits.page)
    fields = view_task(task, names)
    fields["parents"] = [[int(parent), str(on)] for parent, on in look.family.parents]
    fields |= _spell("spec", await _read(engine, task.id, "spec"))
    for key in (key for key in CARRIED if key in look.keys):
        fields |= _spell(key, await _read(engine, task.id, key))
    return fields


async def _read(engine: "Engine", task: "TaskId", key: str) -> bytes:
    """The whole of a value."""
    found = bytearray()
    while piece := (await engine.read_data(task, key, len(found), _PIECE)).body:
        found += piece
    return bytes(found)


def _spell(name: str, value: bytes) -> dict[str, str]:
    import base64

    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
