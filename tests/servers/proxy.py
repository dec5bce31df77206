"""A way to a server that breaks: connections through it are cut off after a number of bytes, or lose their wake-ups."""

import asyncio
import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

PORT = ".s.PGSQL.5432"
_CHUNK = 4096
_NOTIFICATION = b"A"


class CuttingProxy:
    """A unix socket as PostgreSQL has one, in a folder of its own, in front of another.

    While `cuts` is set, a connection lives for as many bytes, both ways together, as the dice say.
    """

    def __init__(self, behind: Path, least: int, most: int, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ganger-proxy-"))
        self.cuts = True
        self.broken = 0
        self._behind = behind / PORT
        self._span = least, most
        self._dice = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._ways: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.folder / PORT)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)
        shutil.rmtree(self.folder)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ways.add(task)
        left = [self._dice.randint(*self._span)]
        try:
            far_reader, far_writer = await self._reach()
            try:
                ways = [
                    asyncio.create_task(self._pass_on(reader, far_writer, left)),
                    asyncio.create_task(self._pass_back(far_reader, writer, left)),
                ]
                _, other = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in other:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
            finally:
                far_writer.transport.abort()
        finally:
            writer.transport.abort()
            self._ways.discard(task)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._behind)

    async def _pass_back(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int]) -> None:
        await self._pass_on(source, sink, left)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int]) -> None:
        """Until one side ends, or the connection has had its bytes: what is left of the last chunk still arrives."""
        with suppress(ConnectionError):
            while chunk := await source.read(_CHUNK):
                if self.cuts and len(chunk) >= left[0]:
                    self.broken += 1
                    sink.write(chunk[: left[0]])
                    await sink.drain()
                    return
                left[0] -= len(chunk)
                sink.write(chunk)
                await sink.drain()


class DroppingProxy(CuttingProxy):
    """A unix socket in front of another that cuts nothing, and loses that share of all notifications."""

    def __init__(self, behind: Path, share: float, seed: int) -> None:
        super().__init__(behind, 0, 0, seed)
        self.cuts = False
        self.dropped = 0
        self._share = share

    async def _pass_back(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int]) -> None:
        """What a server says are messages: a letter, a length that counts itself, and as many bytes."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await source.readexactly(5)
                body = await source.readexactly(int.from_bytes(head[1:]) - 4)
                if head[:1] == _NOTIFICATION and self._dice.random() < self._share:
                    self.dropped += 1
                else:
                    sink.write(head + body)
                    await sink.drain()


class CuttingPort(CuttingProxy):
    """The same for a port of this machine."""

    def __init__(self, behind: int, least: int, most: int, seed: int) -> None:
        super().__init__(Path(), least, most, seed)
        self._far = behind
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._far)
