"""From the address of a store to its documents: where they are kept beside the tasks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from ganger.assembly.location import fill_address, is_served
from ganger.assembly.registry import open_documents
from ganger.assembly.settings import Settings, load
from ganger.coordination.backend import Backend
from ganger.coordination.coordination import Coordination
from ganger.core.address import strip_password
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadInput
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

SUFFIX: Final = "coordination"
_KNOWN: Final = (
    "use sqlite:<path>, file:<folder>, postgresql://<user>@<host>/<database>, mongodb://<host>/<database>, "
    "elasticsearch+https://<host>:9200/<index> or memory:"
)


@asynccontextmanager
async def open_backend(settings: Settings, clock: Clock, entropy: Entropy) -> AsyncIterator[Backend]:
    """The documents that the settings name, closed at the end."""
    backend = await open_documents(*find_documents(_choose_address(settings)), clock, entropy)
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def open_coordination(store: str | None = None) -> AsyncIterator[Coordination]:
    """What is coordinated over the store of this address, or over the one that the settings name."""
    clock, entropy = SystemClock(), SystemEntropy()
    settings = load(Path.cwd(), store=store)
    if store is not None:
        # Whoever names a store means that one, whatever the settings say of coordination.
        settings = msgspec.structs.replace(settings, coordination="")
    async with open_backend(settings, clock, entropy) as backend:
        yield Coordination(backend, clock, entropy)


def _choose_address(settings: Settings) -> str:
    """The password that is kept in a file is the store's, and goes nowhere else."""
    if settings.coordination:
        return settings.coordination
    return fill_address(settings, settings.store) if is_served(settings) else settings.store


def find_documents(address: str) -> tuple[str, str]:
    """The kind of backend that a store's address means, and what it is opened with. Raises BadInput."""
    scheme, _, rest = address.partition(":")
    match scheme:
        case "memory":
            return scheme, ""
        case "sqlite":
            path = _path(rest, address)
            return scheme, f"{path}-{SUFFIX}"
        case "file":
            return scheme, _path(rest, address)
        case "postgresql" | "postgres":
            return "postgresql", _beside(address)
        case "mongodb" | "mongodb+srv":
            return "mongodb", address
        case "elasticsearch+http" | "elasticsearch+https" | "opensearch+http" | "opensearch+https":
            return "elasticsearch", address
        case "http" | "https":
            said = "a lock needs the store itself, and this is the address of a server"
            raise BadInput(f"{said}: name another with --store; {_KNOWN}", store=strip_password(address))
        case _:
            raise BadInput(f"there are no documents at {strip_password(address)!r}; {_KNOWN}")


def _path(rest: str, address: str) -> str:
    path = rest.removeprefix("//")
    if not path:
        raise BadInput(f"{address!r} has no path; write {address.partition(':')[0]}:/path/to/it")
    return str(Path(path))


def _beside(address: str) -> str:
    """The address of the schema beside that of the tasks."""
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    options["schema"] = f"{options.get('schema', 'ganger')}_{SUFFIX}"
    return parts._replace(query=urlencode(options)).geturl()
