"""Questions that conditions ask about the place where a node runs: a file, a port, a URL, a command's exit.

Every answer comes within ten seconds, a command's within its own time. What does not answer is a no; only a question
that can never be asked (a relative path, a scheme that nobody speaks) is an error. A URL is asked with one GET, of
which the first line is read: no redirect is followed, no proxy asked and no body read, so a server can neither send the
node elsewhere nor keep it busy.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, assert_never
from urllib.parse import SplitResult, urlsplit

from ganger.core.errors import BadInput
from ganger.wire.specs import CommandExits, FileThere, PortAnswers, UrlAnswers

PATIENCE: Final = 10.0
COMMANDS_AT_ONCE: Final = 4
FILES_AT_ONCE: Final = 4
MOST_LINES: Final = 200
_PORTS: Final = {"http": 80, "https": 443}

Run = Callable[[CommandExits], Awaitable[int]]
"""Runs a command within its time: its exit code. Whoever hands it in ends what takes longer."""


class Probes:
    """Asks here, for conditions that require no more than these labels. Without `run` commands are left to others.

    Close it at the end.
    """

    def __init__(self, run: Run | None = None, labels: Iterable[str] = (), patience: float = PATIENCE) -> None:
        self._run = run
        self._labels = frozenset(labels)
        self._patience = patience
        self._commands = asyncio.Semaphore(COMMANDS_AT_ONCE)
        # A file on a server that does not answer holds its thread: these are apart, so that it holds nobody else's.
        self._threads = ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="probe")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def takes(self, probe: FileThere | PortAnswers | UrlAnswers | CommandExits, requires: Sequence[str]) -> bool:
        return self._labels.issuperset(requires) and (self._run is not None or not isinstance(probe, CommandExits))

    async def probe(self, probe: FileThere | PortAnswers | UrlAnswers | CommandExits) -> bool:
        """Is it so, here and now? BadInput: this can never be asked."""
        match probe:
            case CommandExits():
                return await self._command(probe)
            case FileThere():
                return await self._in_time(self._file(probe))
            case PortAnswers():
                return await self._in_time(_port(probe))
            case UrlAnswers():
                return await self._in_time(_url(probe))
            case _:
                assert_never(probe)

    async def _in_time(self, question: Awaitable[bool]) -> bool:
        try:
            async with asyncio.timeout(self._patience):
                return await question
        except (OSError, EOFError, TimeoutError):
            # What does not answer is not there.
            return False

    async def _command(self, probe: CommandExits) -> bool:
        if self._run is None:
            raise BadInput("this node runs no commands for conditions")
        async with self._commands:
            return await self._run(probe) == 0

    async def _file(self, probe: FileThere) -> bool:
        if not os.path.isabs(probe.path) or "\0" in probe.path:
            raise BadInput(f"{probe.path!r:.80} is no absolute path", field="path")
        there = await asyncio.get_running_loop().run_in_executor(self._threads, os.path.exists, probe.path)
        return there is not probe.gone


async def _port(probe: PortAnswers) -> bool:
    _check_place(probe.host, probe.port)
    _, writer = await asyncio.open_connection(probe.host, probe.port)
    writer.transport.abort()
    return True


def _check_place(host: str, port: int) -> None:
    if not host or not host.isprintable() or len(host) > 253 or not 0 < port < 1 << 16:
        raise BadInput(f"{host!r:.80} with port {port} is no place to connect to", field="host")


async def _url(probe: UrlAnswers) -> bool:
    url, host, port = _split(probe.url)
    tls = ssl.create_default_context() if url.scheme == "https" else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        writer.write(_get(url))
        status = await _status(reader)
    finally:
        writer.transport.abort()
    return 200 <= status < 300 if probe.status is None else status == probe.status


def _split(text: str) -> tuple[SplitResult, str, int]:
    try:
        url = urlsplit(text)
        port = url.port or _PORTS[url.scheme]
    except (ValueError, KeyError):
        raise BadInput(f"{text!r:.80} is no http or https URL", field="url") from None
    if not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput(f"{text!r:.80} holds characters that must be written as %XX in a URL", field="url")
    _check_place(url.hostname or "", port)
    return url, url.hostname or "", port


def _get(url: SplitResult) -> bytes:
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.netloc.rpartition("@")[2]
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}", "User-Agent: ganger", "Accept: */*", "Connection: close")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of the answer; what a server says before it (1xx) is passed over. 0: this is no HTTP."""
    heads = True
    for _ in range(MOST_LINES):
        line = await _line(reader)
        if heads:
            status = _code(line)
            if not 100 <= status < 200:
                return status
        heads = not line
    return 0


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\n")).strip()
    except asyncio.LimitOverrunError:
        raise EOFError("a line without an end") from None


def _code(line: bytes) -> int:
    words = line.split(maxsplit=2)
    known = len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() and len(words[1]) == 3
    return int(words[1]) if known else 0
