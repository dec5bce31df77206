"""`ganger up`: the server, upkeep and a node on one file, in the foreground, with a view of what happens."""

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.functions import make_functions, take_functions
from ganger.cli.opening import take_store
from ganger.cli.server import take_insecure, take_listen, take_log_format
from ganger.cli.words import read_duration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from socket import socket

    from rich.console import Group

    from ganger.assembly.settings import Settings
    from ganger.cli.serving import Doorstep, Ending
    from ganger.core.event import Event
    from ganger.engine.engine import Engine
    from ganger.node.node import Node
    from ganger.node.options import NodeOptions

_REFRESH = 0.5
_SHOWN = 18


@click.command()
@take_store
@click.option("--url", metavar="URL", help="Run tasks of the server at this address (default: GANGER_URL).")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Run tasks of this kind only; repeatable.")
@click.option("--name", metavar="NAME", help="The node's name (default: the machine's).")
@click.option("--slots", type=click.IntRange(1), metavar="N", help="So many tasks run at once (default: the cores).")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Take tasks of this queue only; repeatable.")
@click.option("--ignore", multiple=True, metavar="QUEUE", help="Take no tasks of this queue; repeatable.")
@click.option("--label", "labels", multiple=True, help="Take tasks that ask for this label; repeatable.")
@click.option("--path", "paths", multiple=True, type=click.Path(), help="Look for code here first; repeatable.")
@click.option(
    "--app",
    "apps",
    multiple=True,
    metavar="MODULE:APP",
    help="Serve this app: its store, its schedules.",
)
@click.option("--grace", type=read_duration, metavar="DURATION", help="A drain waits so long (default: to the end).")
@click.option("--handover", type=read_duration, metavar="DURATION", help="Commands outlive a restart so long (10m).")
@click.option("--lease", type=read_duration, metavar="DURATION", help="It may be silent so long (30s; far away 2m).")
@take_functions
@click.option("--no-server", is_flag=True, help="Run tasks only, and serve no HTTP API.")
@take_listen
@take_insecure
@take_log_format
@click.option("--quiet", is_flag=True, help="No view, also on a terminal.")
def up(store: str | None, quiet: bool, **given: Any) -> None:
    """Run tasks here until you press Ctrl-C: then what runs may finish; a second Ctrl-C ends it.

    HUP starts it anew in place and USR1 ends it; commands run on, and the next node of its name goes on with them.
    """
    import asyncio
    import os

    from ganger.cli.serving import Doorstep, Ending

    doorstep = Doorstep()
    if asyncio.run(_up(store, given, doorstep, watched=sys.stdout.isatty() and not quiet)) is Ending.RESTART:
        doorstep.start_anew(os.execve)


async def _up(store: str | None, given: dict[str, Any], doorstep: "Doorstep", watched: bool) -> "Ending":
    from contextlib import AsyncExitStack
    from pathlib import Path

    from ganger.assembly.logs import log_facts, open_log, watch_loop
    from ganger.assembly.node import NodeWishes, open_node
    from ganger.assembly.server import open_server
    from ganger.assembly.settings import find_notify, find_places
    from ganger.cli.server import announce
    from ganger.cli.serving import Calls, say, serve
    from ganger.cli.sync import syncing
    from ganger.runtime.notify import Notifier

    settings, given = read_settings(store, given)
    paths = find_places(Path.cwd(), given["paths"])
    options, calls = make_options(given, settings), Calls()
    async with AsyncExitStack() as stack:
        bound = None if given["no_server"] else doorstep.bind(settings, insecure=given["insecure"])
        sock = None if bound is None else stack.enter_context(bound)
        options = options if sock is None else _tell_url(options, settings, sock)
        wishes = NodeWishes(
            paths=paths, processes=options.slots, functions=make_functions(given, settings), files=doorstep.files
        )
        log = stack.enter_context(open_log(settings, sys.stdout))
        watch_loop(log)
        opened = await stack.enter_async_context(open_node(settings, options, wishes, telemetry=log))
        calls.heed()
        await _make_queues(opened.engine, settings, given["queues"])
        _greet(options, settings)
        if sock is not None:
            announce(await stack.enter_async_context(open_server(settings, opened.engine, sock=sock, telemetry=log)))
        await stack.enter_async_context(log_facts(opened.engine, log, _choose_facts(opened.node, sock is not None)))
        await stack.enter_async_context(syncing(_apps(given, settings), settings.store, paths))
        say("try in another terminal: ganger submit -- echo hello")
        await stack.enter_async_context(_watching(opened.engine, watched and not settings.log_format))
        return await serve(opened.node, calls, Notifier(find_notify()))


def _greet(options: "NodeOptions", settings: "Settings") -> None:
    from ganger.cli.serving import say
    from ganger.core.address import strip_password

    shown = strip_password(settings.store)
    say(f"node {options.name}, {options.slots} slots, takes tasks of {shown}; stop it with Ctrl-C")


@asynccontextmanager
async def _watching(engine: "Engine", watched: bool) -> "AsyncIterator[None]":
    """With a view of what happens, if it is wanted."""
    import asyncio

    view = asyncio.ensure_future(_watch(engine)) if watched else None
    try:
        yield
    finally:
        if view is not None:
            view.cancel()
            # A terminal that was closed fails the view, and nothing else.
            await asyncio.gather(view, return_exceptions=True)


def read_settings(store: str | None, given: dict[str, Any]) -> "tuple[Settings, dict[str, Any]]":
    """The settings, and the flags as they count there: a node of another server serves none itself."""
    from pathlib import Path

    from ganger.assembly.location import is_remote
    from ganger.assembly.settings import find_django, find_places, load, name_django, names_store
    from ganger.cli.sync import find_store

    here, flag = Path.cwd(), given["url"] or store
    flags = {name: given[name] for name in ("listen", "log_format", "log_level", "django")}
    settings = load(here, store=flag, **flags)
    if project := find_django(settings):
        # For the processes, too, in which apps are imported.
        name_django(project)
    if apps := _apps(given, settings):
        named = settings.store if flag or names_store(here) else None
        own = find_store(apps, named, find_places(here, given["paths"]))
        settings = settings if own is None else load(here, store=own, **flags)
    return settings, {**given, "no_server": given["no_server"] or is_remote(settings)}


def _choose_facts(node: "Node", serves: bool) -> "Callable[[Event], bool]":
    """A server logs what happens to every task, a node alone what happens to its own."""
    return lambda event: serves or event.holder == node.session.node


async def _make_queues(engine: "Engine", settings: "Settings", named: tuple[str, ...]) -> None:
    """See that there are the queues that are named, and one at least; a server has seen to that for itself."""
    from ganger.assembly.location import is_remote

    for name in () if is_remote(settings) else ("default", *named):
        if not name.startswith("id:"):
            await engine.queues.ensure(name, by="ganger up")


def _tell_url(options: "NodeOptions", settings: "Settings", sock: "socket") -> "NodeOptions":
    """Commands are told where the server is, so that they can use their tokens there."""
    from dataclasses import replace

    from ganger.assembly.listening import name_url

    return replace(options, environment={**options.environment, "GANGER_URL": name_url(settings, sock)})


def _apps(given: dict[str, Any], settings: "Settings") -> list[str]:
    return [*given["apps"], *filter(None, map(str.strip, settings.apps.split(",")))]


def make_options(given: dict[str, Any], settings: "Settings") -> "NodeOptions":
    import os
    import socket

    from ganger.node.options import HANDOVER, NodeOptions

    return NodeOptions(
        given["name"] or socket.gethostname(),
        slots=given["slots"] or os.cpu_count() or 1,
        queues=tuple(given["queues"]) or None,
        ignore=tuple(given["ignore"]),
        labels=tuple(given["labels"]),
        kinds=_check_kinds(given["kinds"]),
        prefetch=64,
        grace=_choose(given["grace"], "grace", settings.grace),
        handover=_choose(given["handover"], "handover", settings.handover) or HANDOVER,
        lease=_choose(given["lease"], "lease", settings.lease),
    )


def _check_kinds(kinds: tuple[str, ...]) -> tuple[str, ...] | None:
    """The kinds that the owner of this machine allows; None for all."""
    from ganger.core.errors import BadInput
    from ganger.core.task import Kind

    known = (Kind.COMMAND, Kind.SHELL, Kind.FUNCTION, Kind.CONDITION)
    if strange := [kind for kind in kinds if kind not in known]:
        raise BadInput(f"a node runs no kind {strange[0]!r:.80}; use {', '.join(known)}", field="kind")
    return kinds or None


def _choose(flag: int | None, name: str, setting: str) -> int | None:
    """What the flag says, else the setting, if that says anything."""
    from ganger.assembly.values import read_time

    return flag if flag is not None or not setting else read_time(name, setting)


async def _watch(engine: "Engine") -> None:
    import asyncio

    from rich.live import Live

    with Live(refresh_per_second=4) as live:
        try:
            while True:
                live.update(await _draw(engine))
                await asyncio.sleep(_REFRESH)
        finally:
            live.update(await _draw(engine))


async def _draw(engine: "Engine") -> "Group":
    """Queues and what runs; of nodes this one is enough."""
    import shutil

    from ganger.cli.parts import draw_parts, read_parts

    queues, _, *tasks = await read_parts(engine, _SHOWN)
    return draw_parts([queues, *tasks], shutil.get_terminal_size().columns)
