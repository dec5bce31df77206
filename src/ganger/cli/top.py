"""`ganger top`: queues, nodes and running tasks, live on the whole screen."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import lay_out, print_table
from ganger.cli.words import say_length, say_second
from ganger.core.state import LEASED, Status

if TYPE_CHECKING:
    import asyncio

    from rich.console import Group
    from rich.text import Text

    from ganger.core.node import Node
    from ganger.core.queue import Counts
    from ganger.core.task import Task
    from ganger.engine.engine import Engine

_REFRESH = 1.0
_FIRST = 1_000
_FRAME = 8
"""Lines that are no rows: the title with a space, and of each part the heading and the line below."""

_RUNNING = ("ID", "FOR", "DONE", "NODE", "TASK")
Rows = Sequence[Sequence[str]]


class Part(NamedTuple):
    """One of the tables; `more` rows are not in it."""

    columns: Sequence[str]
    rows: Rows
    more: int = 0


@click.command()
@take_store
def top(store: str | None) -> None:
    """Watch queues, nodes and running tasks on the whole screen; q or Ctrl-C ends it.

    Where the output is no terminal it is printed once.
    """
    run_engine(store, _watch if sys.stdout.isatty() else _print)


async def _print(engine: "Engine") -> None:
    for index, part in enumerate(part for part in await read_parts(engine, _FIRST) if part.rows):
        if index:
            click.echo()
        print_table(part.columns, part.rows)


async def _watch(engine: "Engine") -> None:
    import asyncio

    from rich.live import Live

    ended = asyncio.Event()
    with _heed_keys(ended), Live(screen=True, auto_refresh=False) as live:
        while not ended.is_set():
            room = max(3, live.console.size.height - _FRAME)
            live.update(_draw(await read_parts(engine, room)), refresh=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH):
                    await ended.wait()


@contextmanager
def _heed_keys(ended: "asyncio.Event") -> Iterator[None]:
    """End at q, at a signal and at the end of the input; the terminal is left as it was."""
    import asyncio
    import signal
    import termios
    import tty

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if not sys.stdin.isatty():
        yield
        return
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setcbreak(keys)
    loop.add_reader(keys, _read_key, keys, ended)
    try:
        yield
    finally:
        loop.remove_reader(keys)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _read_key(keys: int, ended: "asyncio.Event") -> None:
    import os

    typed = os.read(keys, 1024)
    if not typed or b"q" in typed.lower():
        ended.set()


async def read_parts(engine: "Engine", room: int) -> list[Part]:
    """Queues, nodes and what runs, in so many rows altogether: running tasks get what the others leave."""
    counts, _ = await engine.counts()
    here = [node for node in await engine.nodes.all() if node.here]
    queues = await _queues(engine, counts, max(1, room // 3))
    nodes = _nodes(here, max(1, room // 3))
    left = max(1, room - len(queues.rows) - len(nodes.rows))
    return [queues, nodes, await _running(engine, counts, here, left)]


async def _queues(engine: "Engine", counts: "Sequence[Counts]", most: int) -> Part:
    """Those where most runs come first, then those with most left to do."""
    from ganger.cli.stats import COLUMNS, count_row
    from ganger.cli.views import name_queues

    names = await name_queues(engine)
    chosen = sorted(counts, key=lambda each: (-_leased(each), -each.todo))[:most]
    rows = [count_row(names.get(each.queue, str(each.queue)), each.by_status) for each in chosen]
    return Part(COLUMNS, rows, len(counts) - len(rows))


def _nodes(here: "Sequence[Node]", most: int) -> Part:
    from ganger.cli.nodes import COLUMNS, node_row

    return Part(COLUMNS, [node_row(node) for node in here[:most]], max(0, len(here) - most))


async def _running(engine: "Engine", counts: "Sequence[Counts]", here: "Sequence[Node]", most: int) -> Part:
    """What runs, and then what a node has taken and not begun."""
    from ganger.cli.views import title_tasks
    from ganger.runtime.clock import SystemClock

    tasks = await _find(engine, Status.RUNNING, most)
    if len(tasks) < most:
        tasks += await _find(engine, Status.CLAIMED, most - len(tasks))
    names = {int(node.id): node.name for node in here}
    now = SystemClock().wall()
    titles = await title_tasks(engine, tasks)
    rows = [_row(task, names.get(int(task.holder or 0), "-"), titles[task.id], now) for task in tasks]
    return Part(_RUNNING, rows, max(0, sum(map(_leased, counts)) - len(rows)))


async def _find(engine: "Engine", status: int, most: int) -> "list[Task]":
    from ganger.engine.store import Query

    return (await engine.find(Query(statuses=(int(status),), most=most, newest_first=True))).tasks


def _leased(counts: "Counts") -> int:
    return sum(counts.by_status.get(code, 0) for code in LEASED)


def _row(task: "Task", node: str, title: str, now: int) -> Sequence[str]:
    done = "-" if task.percent is None else f"{task.percent:.0f}%"
    since = "-" if task.started is None else say_length(now - task.started)
    return str(task.id), since, done, node, f"{title}: {task.info}" if task.info else title


def _draw(parts: Sequence[Part]) -> "Group":
    from rich.console import Group
    from rich.text import Text

    from ganger.runtime.clock import SystemClock

    title = Text(f"ganger   {say_second(SystemClock().wall())}   q ends this view", style="dim")
    return Group(title, Text(""), draw_parts(parts) if any(part.rows for part in parts) else Text("nothing here yet"))


def draw_parts(parts: Sequence[Part]) -> "Group":
    """Those that have rows, each with an empty line behind it."""
    from rich.console import Group

    return Group(*(item for part in parts if part.rows for item in (_draw_table(part), _rest(part))))


def _rest(part: Part) -> "Text":
    from rich.text import Text

    return Text(f"and {part.more} more" if part.more else "", style="dim")


def _draw_table(part: Part) -> "Group":
    from rich.console import Group
    from rich.text import Text

    heading, *lines = lay_out(part.columns, part.rows, shutil.get_terminal_size().columns)
    return Group(Text(heading, style="bold"), *map(Text, lines))
