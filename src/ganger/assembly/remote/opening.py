"""From settings to an engine behind a server: its address, and the token for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ganger.assembly.remote.engine import RemoteEngine
from ganger.assembly.remote.link import Link
from ganger.assembly.settings import Settings
from ganger.core.address import strip_password
from ganger.core.errors import BadInput, NotAuthenticated
from ganger.runtime.clock import SystemClock
from ganger.runtime.disk import translated
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.telemetry import SILENT, Telemetry

_LONGEST: Final = 1_000


@asynccontextmanager
async def open_remote(settings: Settings, *, telemetry: Telemetry = SILENT) -> AsyncIterator[RemoteEngine]:
    """The engine behind the server that the settings name. Nothing is sent before the first operation."""
    link = Link(_check_url(settings.store), find_token(settings))
    engine = RemoteEngine(link, SystemClock(), SystemEntropy(), telemetry=telemetry)
    try:
        yield engine
    finally:
        await engine.close()
        await link.close()


def _check_url(url: str) -> str:
    _, slashes, rest = url.partition("://")
    if not slashes or not rest.strip("/") or "?" in rest or "#" in rest or "@" in rest:
        shown = strip_password(url)
        raise BadInput(f"{shown!r:.200} is not the address of a server; write http://host:port", field="url")
    return url


def find_token(settings: Settings) -> str:
    """The token for the server, from the settings or from the file that they name."""
    token = settings.token or (_read(Path(settings.token_file)) if settings.token_file else "")
    if not token:
        said = "set GANGER_TOKEN, or GANGER_TOKEN_FILE to a file that has it"
        raise NotAuthenticated(f"the server at {strip_password(settings.store)} wants a token: {said}")
    if not (token.isascii() and token.isprintable()) or len(token) > _LONGEST:
        raise BadInput("the token has characters that no token has", field="token")
    return token


def _read(path: Path) -> str:
    with translated(f"read the token {path}"):
        return path.read_text("utf-8", errors="replace").strip()
