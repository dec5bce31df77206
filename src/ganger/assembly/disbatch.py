"""The Disbatch door as the settings want it."""

from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from ganger.assembly.location import fill_address
from ganger.assembly.plugins import read_plugins
from ganger.assembly.registry import find_faces, open_collections
from ganger.assembly.settings import Settings
from ganger.core.address import strip_password
from ganger.core.errors import BadInput
from ganger.engine.engine import Engine
from ganger.faces.disbatch.backend import DEMO, Collections, DisbatchBackend
from ganger.faces.disbatch.door import list_routes
from ganger.faces.disbatch.faces import PlainFaces
from ganger.faces.http.routes import Route
from ganger.runtime.clock import SystemClock

OFF: Final = "off"
_ROOT: Final = "/"
_MONGO: Final = ("mongodb:", "mongodb+srv:")


async def list_disbatch_routes(settings: Settings, engine: Engine, stack: AsyncExitStack) -> list[Route]:
    """The routes of a command node over this engine; none if they are switched off. The stack closes what they open."""
    if settings.disbatch == OFF:
        return []
    prefix = _read_prefix(settings.disbatch)
    tag = (await engine.store.directory()).tag
    known = (DEMO, *read_plugins(settings.plugins))
    backend = DisbatchBackend(
        engine,
        SystemClock(),
        find_faces(engine.store) or PlainFaces(engine, tag),
        known,
        name_database(settings.store),
        version("ganger"),
        _open_collections(settings, stack),
    )
    return list_routes(backend, prefix)


def _open_collections(settings: Settings, stack: AsyncExitStack) -> Collections | None:
    """The collections of the store's own database, if it has some."""
    if not settings.store.startswith(_MONGO):
        return None
    found = open_collections(fill_address(settings, settings.store))
    stack.push_async_callback(found.close)
    return found


def _read_prefix(text: str) -> str:
    plain = all(part.isascii() and part.isalnum() for part in text.split("/")[1:])
    if text != _ROOT and not (text.startswith("/") and plain):
        raise BadInput(f"disbatch is {text!r:.40}; write /disbatch, / for the root, or off", field="disbatch")
    return "" if text == _ROOT else text


def name_database(url: str) -> str:
    """What clients are told of the store: its name, without where it is and who may open it."""
    scheme, _, rest = url.partition(":")
    if scheme in ("sqlite", "memory"):
        return PurePath(rest).name or scheme
    return urlsplit(strip_password(url)).path.strip("/") or scheme
