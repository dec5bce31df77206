"""`ganger up`: upkeep and a node on one file, in the foreground, with a view of what happens."""

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import take_store
from ganger.cli.printing import tell

if TYPE_CHECKING:
    import asyncio

    from rich.table import Table

    from ganger.assembly.node import OpenNode
    from ganger.engine.engine import Engine

_REFRESH = 0.5
_RUNNING_SHOWN = 10


@click.command()
@take_store
@click.option("--name", metavar="NAME", help="The node's name (default: the machine's).")
@click.option("--slots", type=click.IntRange(1), metavar="N", help="So many tasks run at once (default: the cores).")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Take tasks of this queue only; repeatable.")
@click.option("--ignore", multiple=True, metavar="QUEUE", help="Take no tasks of this queue; repeatable.")
@click.option("--label", "labels", multiple=True, help="Take tasks that ask for this label; repeatable.")
@click.option("--path", "paths", multiple=True, type=click.Path(), help="Look for functions here first; repeatable.")
@click.option("--quiet", is_flag=True, help="No view, also on a terminal.")
def up(store: str | None, quiet: bool, **given: Any) -> None:
    """Run tasks here until you press Ctrl-C: then what runs may finish; a second Ctrl-C ends it."""
    import asyncio

    asyncio.run(_up(store, given, watched=sys.stdout.isatty() and not quiet))


async def _up(store: str | None, given: dict[str, Any], watched: bool) -> None:
    import asyncio
    import os
    from pathlib import Path

    from ganger.assembly.node import NodeWishes, open_node
    from ganger.assembly.settings import load

    settings = load(Path.cwd(), store=store)
    stopping = asyncio.Event()
    paths = tuple(os.path.abspath(path) for path in (*given["paths"], "."))  # noqa: ASYNC240 - it reads nothing
    options = _options(given)
    async with open_node(settings, options, NodeWishes(paths=paths, processes=options.slots)) as opened:
        await opened.engine.queues.ensure("default", by="ganger up")
        tell(f"node {options.name}, {options.slots} slots, takes tasks of {settings.store}; stop it with Ctrl-C")
        tell("try in another terminal: ganger submit -- echo hello")
        _heed_signals(stopping)
        watching = asyncio.ensure_future(_watch(opened.engine) if watched else stopping.wait())
        await stopping.wait()
        watching.cancel()
        await _drain(opened, stopping)


def _options(given: dict[str, Any]) -> Any:
    import os
    import socket

    from ganger.node.options import NodeOptions

    return NodeOptions(
        given["name"] or socket.gethostname(),
        slots=given["slots"] or os.cpu_count() or 1,
        queues=tuple(given["queues"]) or None,
        ignore=tuple(given["ignore"]),
        labels=tuple(given["labels"]),
        prefetch=64,
    )


def _heed_signals(stopping: "asyncio.Event") -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)


async def _drain(opened: "OpenNode", stopping: "asyncio.Event") -> None:
    """Let what runs finish; a second signal ends it."""
    import asyncio

    stopping.clear()
    tell("finishing what runs; press Ctrl-C again to end it now")
    draining = asyncio.ensure_future(opened.node.drain())
    second = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([draining, second], return_when=asyncio.FIRST_COMPLETED)
    second.cancel()
    if not draining.done():
        draining.cancel()


async def _watch(engine: "Engine") -> None:
    import asyncio

    from rich.live import Live

    with Live(refresh_per_second=4, transient=True) as live:
        while True:
            live.update(await _draw(engine))
            await asyncio.sleep(_REFRESH)


async def _draw(engine: "Engine") -> "Table":
    from rich.table import Table

    from ganger.cli.stats import COLUMNS, count_row
    from ganger.cli.views import name_queues

    table = Table(*COLUMNS, box=None)
    names = await name_queues(engine)
    counts, _ = await engine.counts()
    for each in counts:
        table.add_row(*count_row(names.get(each.queue, str(each.queue)), each.by_status))
    for line in await _running(engine):
        table.add_row(f"[dim]{line}[/]")
    return table


async def _running(engine: "Engine") -> list[str]:
    from rich.markup import escape

    from ganger.cli.printing import clean
    from ganger.core.state import LEASED
    from ganger.engine.store import Query

    page = await engine.find(Query(statuses=tuple(map(int, LEASED)), most=_RUNNING_SHOWN, newest_first=True))
    return [escape(f"{task.id} {clean(task.description or task.kind)}"[:60]) for task in page.tasks]
