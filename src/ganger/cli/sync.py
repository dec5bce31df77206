"""`ganger schedule sync`: the schedules that an app declares, written to the store by a process of its own.

A node starts that process when it comes up, so that code of users is never imported into the node itself: a module that
cannot be imported, or takes for ever, costs its schedules and nothing else.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import click

from ganger.cli.opening import take_json, take_store
from ganger.cli.printing import clean, print_json, tell

if TYPE_CHECKING:
    from ganger.client.app import App
    from ganger.client.transport import Synced

PATIENCE: Final = 60.0
"""So many seconds a node waits for the process that writes the schedules of an app."""

_MAIN: Final = "from ganger.cli.main import main; main()"


@click.command()
@take_store
@take_json
@click.option("--path", "paths", multiple=True, type=click.Path(), help="Look for the app here first; repeatable.")
@click.option("--remove", is_flag=True, help="Remove those that it declares no more, and do not just tell of them.")
@click.argument("app", metavar="MODULE:APP")
def sync(store: str | None, as_json: bool, paths: tuple[str, ...], remove: bool, app: str) -> None:
    """Write the schedules that an app declares: ganger schedule sync shop:app.

    Without --store they go to the app's own store.
    """
    synced = _sync(find_app(app, paths), store, remove)
    if as_json:
        print_json(synced._asdict())
        return
    for word in ("added", "changed", "removed"):
        for name in getattr(synced, word):
            click.echo(f"{word} {clean(name)}")
    for name in synced.gone:
        tell(f"{clean(name)} is declared no more and goes on: end it with `ganger schedule rm` or with --remove")


def find_app(path: str, paths: Sequence[str] = ()) -> "App":
    """The app of `module:name`, looked for in these places first. BadInput: it is not there, or is none."""
    from importlib import import_module
    from pathlib import Path

    from ganger.assembly.settings import find_places
    from ganger.client.app import App
    from ganger.core.errors import BadInput

    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise BadInput(f"{path!r:.200} is no app; write module:name")
    sys.path[:0] = find_places(Path.cwd(), paths)
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        raise BadInput(f"the app {path!r:.200} cannot be imported: {error!r:.400}") from error
    if not isinstance(found, App):
        raise BadInput(f"{path!r:.200} is a {type(found).__name__}, not an app: name what Ganger(...) gave")
    return found


def _sync(app: "App", store: str | None, remove: bool) -> "Synced":
    import asyncio

    from ganger.assembly.client import open_transport

    if store is None:
        with app:
            return app.sync_schedules(remove=remove)

    async def write() -> "Synced":
        async with open_transport(store, upkeep=False) as transport:
            return await transport.sync_schedules(list(app.schedules), app.name, remove=remove)

    return asyncio.run(write())


@asynccontextmanager
async def syncing(apps: Sequence[str], store: str, paths: Sequence[str]) -> AsyncIterator[None]:
    """Have the schedules of these apps written meanwhile, each by a process of its own; what goes wrong is told."""
    import asyncio

    writing = asyncio.ensure_future(_sync_apps(apps, store, paths))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def _sync_apps(apps: Sequence[str], store: str, paths: Sequence[str]) -> None:
    if apps and store.startswith("memory:"):
        tell("a store in memory is seen by its own process alone: the schedules of apps are not written")
        return
    for app in apps:
        words = ["schedule", "sync", app, "--store", store, *(word for path in paths for word in ("--path", path))]
        code = await _run([sys.executable, "-c", _MAIN, *words])
        if code != 0:
            tell(f"the schedules of {clean(app)} were not written; try `ganger schedule sync {clean(app)}`")


async def _run(words: Sequence[str]) -> int | None:
    """Its exit code, or None if it took too long and was ended."""
    import asyncio

    process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr)
    try:
        async with asyncio.timeout(PATIENCE):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
