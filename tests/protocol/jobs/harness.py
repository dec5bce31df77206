"""A real server on loopback, a real client, and workers that are written from the protocol's text alone."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ganger.assembly.embedded import open_engine
from ganger.assembly.server import OpenServer, open_server
from ganger.assembly.settings import Settings
from ganger.engine.engine import Engine
from tests.protocol.doors import choose_store

PATIENCE: Final = 50.0
BUSY: Final = {"code": 1, "status": 0}
READY: Final = {"code": 1, "status": 1}


class Worker:
    """A worker as the text has it: JSON over the text channel, payloads and results over the binary one."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def hear(self) -> Any:
        """The next text message."""
        async with asyncio.timeout(PATIENCE):
            said = await self.socket.recv()
        assert isinstance(said, str), said[:100]
        return json.loads(said)

    async def take(self) -> bytes:
        """The next payload; status requests on the way are answered."""
        while True:
            async with asyncio.timeout(PATIENCE):
                said = await self.socket.recv()
            if isinstance(said, bytes):
                return said
            assert json.loads(said) == {"code": 2}
            await self.say(READY)

    async def give(self, result: bytes) -> None:
        await self.socket.send(result)

    async def end(self) -> tuple[int, str]:
        """How the server closes: its code and reason."""
        async with asyncio.timeout(PATIENCE):
            try:
                while True:
                    await self.socket.recv()
            except ConnectionClosed as closed:
                told = closed.rcvd
        assert told is not None, "the connection was cut without a word"
        return told.code, told.reason


class Site:
    """A server with a client that has the administrator's token, and the engine behind it."""

    def __init__(self, engine: Engine, server: OpenServer, client: httpx2.AsyncClient) -> None:
        self.engine = engine
        self.server = server
        self.client = client
        self.secret = server.tokens.add(f"workers {len(server.tokens.all())}", ["work"]).token

    async def submit(
        self, payload: bytes, priority: str = "batch", to: str = "/api/jobs/submit", **fields: str
    ) -> dict[str, Any]:
        reply = await self.post(payload, to, priority=priority, **fields)
        assert reply.status_code == 201, reply.text
        made: dict[str, Any] = reply.json()
        return made

    async def post(self, payload: bytes, to: str = "/api/jobs/submit", **fields: str) -> httpx2.Response:
        return await self.client.post(to, data=fields, files={"payload": ("job", payload)})

    async def show(self, key: str, **query: Any) -> dict[str, Any]:
        reply = await self.client.get(f"/api/jobs/{key}", params=query)
        assert reply.status_code == 200, reply.text
        shown: dict[str, Any] = reply.json()
        return shown

    async def read(self, key: str, what: str, **query: Any) -> bytes:
        reply = await self.client.get(f"/api/jobs/{key}/{what}", params=query)
        assert reply.status_code == 200, reply.text
        return reply.content

    async def get(self, path: str, **query: Any) -> Any:
        reply = await self.client.get(path, params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def refuse(self, status: int, method: str, path: str, **more: Any) -> str:
        """The sentence with which a request must be refused."""
        reply = await self.client.request(method, path, **more)
        assert reply.status_code == status, reply.text
        detail: str = reply.json()["detail"]
        return detail

    async def workers(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = await self.get("/api/workers")
        return listed

    @asynccontextmanager
    async def dial(self, path: str = "/api/worker") -> AsyncIterator[Worker]:
        """A websocket that has said nothing yet."""
        url = f"{self.server.url.replace('http', 'ws', 1)}{path}"
        async with connect(url, max_size=None, compression=None, close_timeout=1) as socket:
            yield Worker(socket)

    @asynccontextmanager
    async def join(
        self, name: str = "w", path: str = "/api/worker", identity: str | None = None
    ) -> AsyncIterator[Worker]:
        """A worker that has registered and said that it is ready."""
        async with self.dial(path) as worker:
            await worker.say({"code": 0, "name": name, "id": identity or f"id-{name}", "token": self.secret})
            assert await worker.hear() == {"code": 2}
            await worker.say(READY)
            yield worker


@asynccontextmanager
async def serve(folder: Path | None = None, **settings: str) -> AsyncIterator[Site]:
    """A site on a store of its own: in memory, or in a folder."""
    store = choose_store(folder)
    chosen = Settings(store=store, listen="127.0.0.1:0", **settings)
    async with (
        asyncio.timeout(3 * PATIENCE),
        open_engine(store) as engine,
        open_server(chosen, engine) as server,
    ):
        headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
            yield Site(engine, server, client)


Tale = Callable[[Site], Awaitable[None]]


def story(tell: Tale) -> Callable[[], None]:
    """A test on a site of its own, in an event loop of its own."""
    return story_with()(tell)


def story_with(**settings: str) -> Callable[[Tale], Callable[[], None]]:
    """The same with settings."""

    def wrap(tell: Tale) -> Callable[[], None]:
        async def run() -> None:
            async with serve(None, **settings) as site:
                await tell(site)

        def test() -> None:
            asyncio.run(run())

        test.__name__, test.__qualname__, test.__module__ = tell.__name__, tell.__qualname__, tell.__module__
        test.__doc__ = tell.__doc__
        return test

    return wrap


def story_in(tell: Callable[[Site, Path], Awaitable[None]]) -> Callable[[Path], None]:
    """A test on a site whose store is in a folder."""

    async def run(folder: Path) -> None:
        async with serve(folder) as site:
            await tell(site, folder)

    def test(tmp_path: Path) -> None:
        asyncio.run(run(tmp_path))

    test.__name__, test.__qualname__, test.__module__ = tell.__name__, tell.__qualname__, tell.__module__
    return test


async def soon(look: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not await look():  # noqa: ASYNC110 - what is looked for is the server's, and rings no bell here
            await asyncio.sleep(0.01)
