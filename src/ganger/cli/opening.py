"""How a command gets at the engine: where the store is, whether it must be there, and who acts."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ganger.assembly.location import Location
    from ganger.engine.engine import Engine
    from ganger.engine.view import View

T = TypeVar("T")

take_store = click.option(
    "--store",
    metavar="URL",
    help="Where the tasks are (default: GANGER_STORE, GANGER_URL, ganger.toml, sqlite:ganger.db).",
)
take_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


def run_engine(store: str | None, body: "Callable[[Engine], Awaitable[T]]", *, makes: bool = False) -> T:
    """Run the body over the engine. Without `makes` a store that is not there is an error, and no file is made."""
    import asyncio

    if not makes:
        find_store(store)
    return asyncio.run(_run(store, body))


async def _run(store: str | None, body: "Callable[[Engine], Awaitable[T]]") -> T:
    from ganger.assembly.embedded import open_engine

    async with open_engine(store, upkeep=False) as engine:
        return await body(engine)


def view_engine(store: str | None, body: "Callable[[Engine | View], Coroutine[Any, Any, T]]") -> T:
    """Run a body that reads and waits for nothing: over one glance at the store, or over the engine if that must be."""
    found = find_store(store)
    if found is not None:
        from contextlib import suppress

        from ganger.assembly.glance import view_store
        from ganger.core.errors import StoreError
        from ganger.engine.view import finish

        # What a glance cannot read, the engine reads, or says better what is wrong.
        with suppress(StoreError), view_store(found) as view:
            if view is not None:
                return finish(body(view))
    return run_engine(store, body)


def find_store(store: str | None) -> "Location | None":
    """The files of the store that the settings name; NotFound if they name one that is not there."""
    from ganger.core.errors import NotFound

    found = locate_store(store)
    if found is not None and not found.database.exists():
        advice = "name another with --store, or submit a task to make it"
        raise NotFound(f"there is no store at {found.database.absolute()}: {advice}", path=str(found.database))
    return found


def locate_store(store: str | None) -> "Location | None":
    """The files of the store that the settings name, there or not; None for one that has none."""
    from pathlib import Path

    from ganger.assembly.location import locate
    from ganger.assembly.settings import load

    return locate(load(Path.cwd(), store=store))


def find_own(store: str | None) -> "Location | None":
    """Where this machine keeps what is its own of the store: tokens and keys. None for one that ends with its process.

    NotFound if the settings name a file that is not there.
    """
    from pathlib import Path

    from ganger.assembly.location import locate_own
    from ganger.assembly.settings import load

    return find_store(store) or locate_own(load(Path.cwd(), store=store))


def refuse_remote(store: str | None, what: str) -> None:
    """BadInput if the tasks are behind a server: this is done where their file is."""
    from pathlib import Path

    from ganger.assembly.location import is_remote
    from ganger.assembly.settings import load
    from ganger.core.address import strip_password
    from ganger.core.errors import BadInput

    if is_remote(settings := load(Path.cwd(), store=store)):
        advice = "do it on the machine of the server, with --store sqlite:<path>"
        shown = strip_password(settings.store)
        raise BadInput(f"{what} needs the file of the store, and {shown} is a server: {advice}")


def refuse_served(store: str | None, what: str) -> None:
    """BadInput if a database server has the tasks: it has its own way to do this, which is told."""
    from pathlib import Path
    from urllib.parse import parse_qs, urlsplit

    from ganger.assembly.location import is_postgres, is_served, locate_own
    from ganger.assembly.settings import load
    from ganger.core.errors import BadInput

    settings = load(Path.cwd(), store=store)
    if not is_served(settings):
        return
    said = "MongoDB has the tasks: `mongodump` and `mongorestore` copy them"
    if is_postgres(settings):
        schema = parse_qs(urlsplit(settings.store).query).get("schema", ["ganger"])[0]
        dump = f"`pg_dump --format=custom --schema={schema} --file=tasks.dump DATABASE`"
        said = f"PostgreSQL has the tasks: {dump} copies them while they are used, `pg_restore` brings them back"
    own = locate_own(settings)
    beside = "" if own is None or settings.blobs else f"; copy the folder {own.blobs} with them, it has large data"
    raise BadInput(f"{what} is for stores in a file. {said}{beside}. `ganger export` moves tasks to another store")


def name_operator() -> str:
    """Who acts, for the audit log: the user that runs the command."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
