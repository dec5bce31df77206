"""`ganger graph`: a file of tasks that wait for each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import print_json

if TYPE_CHECKING:
    from ganger.cli.graph_file import Wishes
    from ganger.core.ids import TaskId
    from ganger.core.task import NewTask
    from ganger.engine.engine import Engine


@click.command()
@take_store
@take_json
@click.option("--queue", default="default", show_default=True, help="The queue of tasks that name none.")
@click.option(
    "--format", "form", type=click.Choice(["toml", "json", "yaml", "make"]), help="Default: by the file's name."
)
@click.option("--dry-run", is_flag=True, help="Only draw it; nothing is stored.")
@click.option("--dot", is_flag=True, help="Draw it as DOT, for Graphviz.")
@click.option("--wait", is_flag=True, help="Wait until all have ended; the exit code is that of `ganger wait`.")
@click.argument("file", type=click.File("r", encoding="utf-8"))
def graph(store: str | None, as_json: bool, file: TextIO, queue: str, **given: Any) -> None:
    """Store tasks that wait for each other, and draw them.

    All tasks of FILE (- for standard input) are stored at once, as the members of one group.
    """
    from ganger.cli.graph_file import choose_format, read_graph

    wishes = read_graph(_read(file), given["form"] or choose_format(file.name))
    _make(wishes, dict.fromkeys([queue, *(wish.queue or queue for wish in wishes.values())], 1), queue, file.name)
    ids: dict[str, int] = {}
    if not given["dry_run"]:
        ids = run_engine(store, lambda engine: submit_graph(engine, wishes, queue, file.name), makes=True)
    group = ids.get("")
    print_graph(wishes, ids, file.name, as_json=as_json, dot=given["dot"])
    if given["wait"] and group is not None:
        _wait(store, group, as_json)


def _wait(store: str | None, group: int, as_json: bool) -> None:
    """Wait for the group, and say how many of its tasks went well, also before an exit because not all did."""
    from ganger.cli.wait import wait_for
    from ganger.core.ids import TaskId

    try:
        wait_for(store, as_json, [TaskId(group)])
    except SystemExit:
        _tell_count(store, TaskId(group))
        raise
    _tell_count(store, TaskId(group))


def _tell_count(store: str | None, group: "TaskId") -> None:
    from ganger.cli.members import count_members
    from ganger.cli.printing import tell

    good, total = run_engine(store, lambda engine: count_members(engine, group))
    tell(f"{good} of {total} tasks succeeded")


def _read(file: TextIO) -> str:
    from ganger.core.errors import BadInput

    try:
        return file.read()
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name} is not a text in UTF-8: {error}") from None


async def submit_graph(engine: "Engine", wishes: "Wishes", queue: str, title: str) -> dict[str, int]:
    """The ids by name; the group's under the empty one."""
    from ganger.cli.tasks import find_queue

    names = {queue, *(wish.queue for wish in wishes.values() if wish.queue)}
    queues = {name: int((await find_queue(engine, name)).id) for name in sorted(names)}
    made = await engine.submit(_make(wishes, queues, queue, title))
    return dict(zip(["", *wishes], map(int, made.ids), strict=True))


def _make(wishes: "Wishes", queues: Mapping[str, int], queue: str, title: str) -> "list[NewTask]":
    """The group, and its members in their order. A cycle is told by names."""
    from pathlib import Path

    from msgspec.structs import replace

    from ganger.cli.tasks import Wish, make_task
    from ganger.core.errors import BadInput

    if not wishes:
        raise BadInput("the graph has no tasks")
    places = {name: -2 - index for index, name in enumerate(wishes)}
    group = make_task(Wish(description=title), queues[queue], {})
    here = [replace(wish, cwd=str(Path(wish.cwd or ".").absolute())) for wish in wishes.values()]
    tasks = [make_task(wish, queues[wish.queue or queue], places, -1) for wish in here]
    _refuse_cycle(list(wishes), tasks)
    return [group, *tasks]


def _refuse_cycle(names: list[str], tasks: "list[NewTask]") -> None:
    from ganger.core.errors import CycleFound
    from ganger.core.graph import order

    try:
        order([[-2 - edge.parent for edge in task.parents if edge.parent < 0] for task in tasks])
    except CycleFound as error:
        ring = error.fields["tasks"]
        words = [names[int(index)] for index in ring] if isinstance(ring, list) else names
        raise CycleFound(f"these tasks wait for each other: {' -> '.join(words)}", tasks=words) from None


def print_graph(wishes: "Wishes", ids: dict[str, int], title: str, *, as_json: bool, dot: bool = False) -> None:
    """Draw what was stored, or would be, and tell the group; or print the ids."""
    from ganger.cli.drawing import draw_dot, draw_text
    from ganger.cli.printing import tell

    group = ids.pop("", None)
    if as_json:
        print_json({"group": group, "tasks": {name: ids.get(name) for name in wishes}})
        return
    click.echo(draw_dot(title, wishes, ids) if dot else draw_text(wishes, ids))
    if group is not None:
        tell(f"all of them are group {group}: ganger wait {group}, ganger cancel {group}")
