"""A real server on loopback, a client that knows nothing but Disbatch, and a node that is played by hand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from ganger.assembly.embedded import open_engine
from ganger.assembly.server import OpenServer, open_server
from ganger.assembly.settings import Settings
from ganger.core.ids import NodeId
from ganger.core.node import Registration
from ganger.core.outcome import Outcome, Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from ganger.wire.disbatch.words import read_task

PATIENCE: Final = 30.0
DEMO: Final = "Disbatch::Plugin::Demo"


class Site:
    """A server with a client that has the administrator's token, and the engine behind it."""

    def __init__(self, engine: Engine, server: OpenServer, client: httpx2.AsyncClient) -> None:
        self.engine = engine
        self.server = server
        self.client = client
        self._node: NodeId | None = None

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        given = {} if body is None else {"json": body}
        return await self.client.request(method, f"/disbatch{path}", **given, **more)

    async def get(self, path: str, **query: Any) -> Any:
        reply = await self.ask("GET", path, params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def post(self, path: str, body: Any = None, **more: Any) -> Any:
        reply = await self.ask("POST", path, body, **more)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def refuse(self, method: str, path: str, body: Any = None, status: int = 400, **more: Any) -> dict[str, Any]:
        """The answer with which a request must be refused."""
        reply = await self.ask(method, path, body, **more)
        assert reply.status_code == status, reply.text
        told: dict[str, Any] = reply.json()
        assert told["error"]
        return told

    async def make_queue(self, name: str = "demo", **said: Any) -> str:
        """The id of a new queue."""
        made: str = (await self.post("/queues", {"name": name, "plugin": DEMO, **said}))["id"]
        return made

    async def make_tasks(self, *params: dict[str, Any], queue: str = "demo") -> list[str]:
        """The ids of new tasks."""
        made = await self.post(f"/tasks/{queue}", list(params))
        return [one["_id"] for one in made["MongoDB::InsertManyResult"]["inserted"]]

    async def take(self, face: str) -> Claimed:
        """Claim that very task, as a node does, and say that it runs."""
        task = read_task(face)
        assert task is not None
        if self._node is None:
            self._node = (await self.engine.nodes.register(Registration("by-hand", "secret", slots=5))).id
        (claimed,) = await self.engine.claim(Claim(self._node, ids=(task,)))
        await self.engine.start([claimed.lease])
        return claimed

    async def finish(self, face: str, outcome: Outcome | None = None, **printed: str) -> None:
        claimed = await self.take(face)
        for stream, text in printed.items():
            await self.engine.append_output(claimed.lease, stream, 0, text.encode())
        await self.engine.settle([(claimed, outcome or Succeed(b"1"))])

    def token(self, *scopes: str) -> dict[str, str]:
        """The header of a new token."""
        made = self.server.tokens.add(f"token {len(self.server.tokens.all())}", scopes)
        return {"authorization": f"Bearer {made.token}"}


@asynccontextmanager
async def serve(store: str, **said: str) -> AsyncIterator[Site]:
    settings = Settings(store=store, listen="127.0.0.1:0", **said)
    async with (
        asyncio.timeout(2 * PATIENCE),
        open_engine(settings.store) as engine,
        open_server(settings, engine) as server,
    ):
        headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
            yield Site(engine, server, client)


Tale = Callable[[Site], Awaitable[None]]


def story(tell: Tale) -> Callable[[str], None]:
    """A test on a site of its own."""

    def test(store: str) -> None:
        asyncio.run(_run(tell, store))

    return _name(test, tell)


def everywhere(tell: Tale) -> Callable[[str], None]:
    """The same, on each store."""

    def test(each_store: str) -> None:
        asyncio.run(_run(tell, each_store))

    return _name(test, tell)


async def _run(tell: Tale, store: str) -> None:
    async with serve(store) as site:
        await tell(site)


def _name(test: Callable[[str], None], tell: Tale) -> Callable[[str], None]:
    test.__name__, test.__qualname__, test.__module__ = tell.__name__, tell.__qualname__, tell.__module__
    return test
