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

_STORE: Final = "import sys; from ganger.cli.sync import tell_store; tell_store(sys.argv[1:])"
_SAID: Final = "\0store:"
FROM_INPUT: Final = "-"
_MAIN: Final = "from ganger.cli.main import main; main()"


@click.command()
@take_store
@take_json
@click.option("--path", "paths", multiple=True, type=click.Path(), help="Look for the app here first; repeatable.")
@click.option("--remove", is_flag=True, help="Remove those that it declares no more, and do not just tell of them.")
@click.argument("app", metavar="MODULE:APP")
def sync(store: str | None, as_json: bool, paths: tuple[str, ...], remove: bool, app: str) -> None:
    """Write the schedules that an app declares: ganger schedule sync shop:app.

    Without --store they go to the app's own store; --store - reads its address from standard input.
    """
    if store == FROM_INPUT:
        store = sys.stdin.readline().strip()
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

    from ganger.assembly.settings import find_places, set_up_django
    from ganger.client.app import App
    from ganger.core.errors import BadInput
    from ganger.core.showing import say_error

    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise BadInput(f"{path!r:.200} is no app; write module:name")
    sys.path[:0] = find_places(Path.cwd(), paths)
    try:
        set_up_django(Path.cwd())
        found = getattr(import_module(module), name)
    except Exception as error:
        raise BadInput(f"the app {path!r:.200} cannot be imported: {say_error(error)}") from error
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


def find_store(apps: Sequence[str], named: str | None, paths: Sequence[str]) -> str | None:
    """The store that these apps are on, asked of each in a process of its own; None leaves it to the settings.

    `named` is the one that a flag or the settings name. BadInput: two are named, and nobody is to guess which is meant.
    """
    from ganger.core.address import strip_password
    from ganger.core.errors import BadInput

    stores = {} if named is None else {_resolve(named): f"{strip_password(named)} by the settings"}
    for app in apps:
        try:
            store = _ask_store(app, paths)
        except BadInput as error:
            if named is None:
                raise
            tell(error.message)
            continue
        if store:
            stores.setdefault(_resolve(store), f"{strip_password(store)} by the app {app}")
    if len(stores) > 1:
        raise BadInput(
            f"two stores are named: {' and '.join(map(clean, stores.values()))}. Start a node for each, or name one:"
            " leave out --store, or write Ganger() without a store in the app",
            field="store",
        )
    return next(iter(stores)) if stores and named is None else None


def _resolve(store: str) -> str:
    """The same text for the same store: a file by its whole path."""
    from pathlib import Path

    from ganger.assembly.location import locate
    from ganger.assembly.settings import Settings

    found = locate(Settings(store=store))
    return store if found is None else f"sqlite:{Path(found.database).absolute()}"


def _ask_store(app: str, paths: Sequence[str]) -> str:
    import subprocess

    from ganger.assembly.settings import find_harmless
    from ganger.core.errors import BadInput

    try:
        asked = subprocess.run(
            [sys.executable, "-c", _STORE, app, *paths],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
            env=find_harmless(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BadInput(f"the app {app!r:.200} was not imported within {PATIENCE:g} s") from None
    if asked.returncode:
        raise BadInput(asked.stderr.strip() or f"the app {app!r:.200} cannot be imported")
    return asked.stdout.rpartition(_SAID)[2].strip()


def tell_store(words: Sequence[str]) -> None:
    """Print the store that an app names, behind whatever its module prints: the inside of `find_store`."""
    from ganger.core.errors import BadInput

    try:
        found = find_app(words[0], words[1:])
    except BadInput as error:
        sys.exit(error.message)
    click.echo(f"{_SAID}{getattr(found, 'store', None) or ''}")


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
        words = ["schedule", "sync", app, "--store", FROM_INPUT, *(word for path in paths for word in ("--path", path))]
        code = await _run([sys.executable, "-c", _MAIN, *words], store)
        if code != 0:
            tell(f"the schedules of {clean(app)} were not written; try `ganger schedule sync {clean(app)}`")


async def _run(words: Sequence[str], store: str) -> int | None:
    """Its exit code, or None if it took too long and was ended.

    Others may read its words, and the app its environment: so it is told the store by its input.
    """
    import asyncio

    from ganger.assembly.location import is_remote
    from ganger.assembly.settings import Settings, find_harmless

    environment = find_harmless(token=is_remote(Settings(store=store)))
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=sys.stderr, env=environment
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await process.communicate(f"{store}\n".encode())
            return process.returncode
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
