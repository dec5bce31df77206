"""`ganger ls`: which tasks there are."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.colours import paint_status
from ganger.cli.opening import take_json, take_store, view_engine
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import STATUS_WORDS, list_statuses, read_id, say_length, say_status

if TYPE_CHECKING:
    from ganger.cli.titles import Titles
    from ganger.cli.views import Names
    from ganger.core.task import Task
    from ganger.engine.engine import Engine
    from ganger.engine.store import Page, Query
    from ganger.engine.view import View

_LONGEST_QUEUE = 16
COLUMNS = ("ID", "STATUS", "QUEUE", "AGE", "TOOK", "TASK")
_FILTERS = ("queue", "statuses", "kind", "group", "parent", "key", "after")


@click.command()
@take_store
@take_json
@click.option("--queue", help="Only of this queue (a name, or id:3).")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(STATUS_WORDS), metavar="WORD",
    help="Only with this status, as `show` says it, or open or ended; may be given several times.",
)  # fmt: skip
@click.option("--kind", help="Only of this kind: command, shell, function, ...")
@click.option("--group", type=read_id, metavar="ID", help="Only members of this group.")
@click.option("--parent", type=read_id, metavar="ID", help="Only children of this task.")
@click.option("--key", help="Only the task with this key.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also inner tasks: gates of graphs, schedules.")
@click.option("-n", "--most", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--oldest-first", is_flag=True, help="Begin with the oldest (default: the newest).")
@click.option("--from", "after", type=click.IntRange(0), help="Go on where the page before ended.")
def ls(store: str | None, as_json: bool, **given: Any) -> None:
    """List tasks, the newest first.

    AGE is how long ago a task was submitted, TOOK how long it ran or has been running.
    """
    page, names, titles = view_engine(store, lambda engine: _look(engine, given, titled=not as_json))
    if as_json:
        _print_lines(page, names)
    else:
        rows = _make_rows(page, names, titles)
        _print_table(rows, filtered=any(given[name] for name in _FILTERS))
    if page.next is not None:
        tell(f"there may be more: --from {page.next}")


async def _look(engine: "Engine | View", given: dict[str, Any], *, titled: bool) -> "tuple[Page, Names, Titles]":
    from ganger.cli.titles import title_tasks
    from ganger.cli.views import name_queues

    page = await _find(engine, given)
    return page, await name_queues(engine), await title_tasks(engine, page.tasks) if titled else {}


async def _find(engine: "Engine | View", given: dict[str, Any]) -> "Page":
    """One page. A bounded look may find nothing yet: then it goes on, so that what is printed is a page."""
    query = await _query(engine, given)
    page = await engine.find(query)
    tasks = _choose(page.tasks, given)
    while page.next is not None and len(tasks) < query.most:
        page = await engine.find(query._replace(after=page.next, most=query.most - len(tasks)))
        tasks += _choose(page.tasks, given)
    return page._replace(tasks=tasks)


def _choose(tasks: "list[Task]", given: dict[str, Any]) -> "list[Task]":
    """Those that somebody submitted, unless all are asked for, or one by what only it has."""
    from ganger.core.task import Kind, is_inner

    if given["everything"] or given["key"] or given["kind"] == Kind.GROUP:
        return list(tasks)
    return [task for task in tasks if not is_inner(task)]


async def _query(engine: "Engine | View", given: dict[str, Any]) -> "Query":
    from ganger.cli.views import choose_queue
    from ganger.engine.store import Query

    queue = None if given["queue"] is None else (await choose_queue(engine, given["queue"])).id
    return Query(
        queue, await _codes(engine, given["statuses"]), given["kind"], given["group"], None, given["key"], None,
        given["parent"], given["after"], not given["oldest_first"], given["most"],
    )  # fmt: skip


async def _codes(engine: "Engine | View", words: tuple[str, ...]) -> tuple[int, ...] | None:
    """The codes that are asked for; a failure may have any code above 2, so those that occur are looked up."""
    from ganger.core.state import Status

    chosen = set(map(int, list_statuses(words)))
    if Status.FAILED in chosen:
        counts, _ = await engine.counts()
        chosen |= {code for count in counts for code in count.by_status if code > Status.FAILED}
    return tuple(sorted(chosen)) if words else None


def _print_lines(page: "Page", names: "Names") -> None:
    from ganger.cli.views import view_task

    for task in page.tasks:
        print_json(view_task(task, names))


def _make_rows(page: "Page", names: "Names", titles: "Titles") -> list[tuple[str, ...]]:
    from ganger.runtime.clock import SystemClock

    now = SystemClock().wall()
    return [(*_row(task, names, now), titles[task.id]) for task in page.tasks]


def _print_table(rows: list[tuple[str, ...]], *, filtered: bool) -> None:
    if not rows:
        tell("no task is like that" if filtered else "no tasks yet: make one with `ganger submit -- echo hello`")
        return
    print_table(COLUMNS, rows, STATUS=paint_status)


def _row(task: "Task", names: "Names", now: int) -> tuple[str, ...]:
    from ganger.cli.printing import cut

    queue = cut(names.get(task.queue, str(task.queue)), _LONGEST_QUEUE)
    return str(task.id), _status(task), queue, say_length(now - task.created), say_took(task, now)


def say_took(task: "Task", now: int) -> str:
    """How long it ran, or has been running; a task that was not begun, or begins anew, has no such length."""
    from ganger.core.state import LEASED, Status, is_final

    if task.started is None and task.reserves and task.status >= Status.SUCCEEDED:
        # What a node ends at once it tells together, without a beginning.
        return "<3ms"
    if task.started is None or not (task.status in LEASED or is_final(task.status)):
        return "-"
    return say_length((now if task.ended is None else task.ended) - task.started)


def _status(task: "Task") -> str:
    if task.status == 0 and task.percent is not None:
        return f"running {task.percent:.0f}%"
    return say_status(task.status)
