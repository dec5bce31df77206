"""What a worker of jobs needs from its surroundings: where the server is, who it is itself, and its function."""

import re
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ganger.assembly.location import is_remote, locate_own
from ganger.assembly.remote.link import Link
from ganger.assembly.settings import Settings, find_places, load
from ganger.client.jobs.place import Place
from ganger.core.errors import BadInput, NotAuthenticated
from ganger.wire.jobs.shapes import Worker

_HERE: Final = "http://127.0.0.1:8470"
_FUNCTION: Final = re.compile(r"[\w.]+:[\w.]+")
_WORKERS: Final = "/api/workers"
_MACHINE_ID: Final = Path("/etc/machine-id")


def find_place(
    url: str | None = None, job_type: str | None = None, name: str | None = None, identity: str | None = None
) -> Place:
    """Where to work, and under which name. NotAuthenticated if there is no token for it."""
    settings = load(Path.cwd(), store=url)
    machine = socket.gethostname() or "worker"
    where = settings.store if is_remote(settings) else _HERE
    return Place(where, _find_token(settings), name or machine, identity or _read_identity(machine), job_type)


async def ask_workers(url: str | None) -> list[Worker]:
    """The workers of the server that is named, or that the settings name."""
    async with _open_link(url) as link:
        return await link.ask(_WORKERS, list[Worker])


async def kick_worker(url: str | None, name: str) -> list[Worker]:
    """Send the workers of this id, or the one that is the node of this name, away. NotFound if there is none."""
    async with _open_link(url) as link:
        return await link.tell(f"{_WORKERS}/{quote(name, safe='')}/kick", list[Worker])


@asynccontextmanager
async def _open_link(url: str | None) -> AsyncIterator[Link]:
    place = find_place(url)
    if not place.token:
        said = "set GANGER_TOKEN, or GANGER_TOKEN_FILE to a file that has it"
        raise NotAuthenticated(f"the server at {place.url} wants a token: {said}")
    link = Link(place.url, place.token)
    try:
        yield link
    finally:
        await link.close()


def _find_token(settings: Settings) -> str:
    """The token that is set, in a file that is named, or on the machine of the store the administrator's."""
    if settings.token:
        return settings.token
    found = locate_own(settings)
    beside = None if found is None else found.database.with_name(f"{found.database.name}-admin-token")
    file = Path(settings.token_file) if settings.token_file else beside
    try:
        return "" if file is None else file.read_text("utf-8").strip()
    except FileNotFoundError:
        if file is not beside:
            raise BadInput(f"there is no token in {file}", field="token_file") from None
        raise NotAuthenticated("set GANGER_TOKEN, or GANGER_TOKEN_FILE to a file with a token for workers") from None


def _read_identity(machine: str) -> str:
    try:
        return _MACHINE_ID.read_text("ascii").strip() or machine
    except (FileNotFoundError, UnicodeDecodeError):
        return machine


def is_function(word: str) -> bool:
    """Does it name a function, as `module:function`?"""
    return _FUNCTION.fullmatch(word) is not None


def load_function(word: str, folder: Path) -> Callable[..., Any]:
    """The function of this name, looked for in this folder too. BadInput if there is none."""
    module, _, name = word.partition(":")
    sys.path[:0] = [place for place in find_places(folder) if place not in sys.path]
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"{word} cannot be loaded: {error}", field="function") from None
    if not callable(found):
        raise BadInput(f"{word} is no function", field="function")
    function: Callable[..., Any] = found
    return function
