"""A real server on loopback, a real client, and a worker that is played by hand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import httpx2

from ganger.assembly.embedded import open_engine
from ganger.assembly.node import NodeWishes, open_node
from ganger.assembly.server import OpenServer, open_server
from ganger.assembly.settings import Settings
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Outcome, Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from ganger.faces.http.limits import PLAIN_LIMITS, HttpLimits
from ganger.faces.http.routes import Route
from ganger.node.options import NodeOptions
from tests.protocol.doors import choose_store

PATIENCE: Final = 50.0
LISTEN: Final = "127.0.0.1:0"
_V1: Final = (
    "actions", "data", "events", "graph", "logs", "nodes", "queues", "reports", "scheduler", "schedules", "statistics",
)  # fmt: skip
_HTTP: Final = ("health", "metrics", "openapi")
OWN: Final = frozenset({*(f"ganger.faces.v1.{name}" for name in _V1), *(f"ganger.faces.http.{name}" for name in _HTTP)})


class Site:
    """A server with a client that has the administrator's token, and the engine behind it."""

    def __init__(self, engine: Engine, server: OpenServer, client: httpx2.AsyncClient) -> None:
        self.engine = engine
        self.server = server
        self.client = client
        self._worker: NodeId | None = None

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        given = {} if body is None else {"json": body}
        return await self.client.request(method, path, **given, **more)

    async def get(self, path: str, **more: Any) -> Any:
        """The answer to a GET that must succeed."""
        reply = await self.ask("GET", path, **more)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def put(self, path: str, body: Any = None) -> Any:
        reply = await self.ask("PUT", path, body)
        assert reply.status_code in (200, 202), reply.text
        return reply.json()

    async def add(self, *nodes: Any) -> list[str]:
        """The ids of new nodes."""
        reply = await self.ask("POST", "/v1/nodes", list(nodes))
        assert reply.status_code == 201, reply.text
        return [node["id"] for node in reply.json()]

    async def refuse(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """The problem with which a request must be refused."""
        reply = await self.ask(method, path, body, **more)
        assert reply.status_code == status, reply.text
        assert reply.headers["content-type"] == "application/problem+json"
        problem: dict[str, Any] = reply.json()
        assert problem["status"] == status
        assert problem["detail"]
        return problem

    async def take(self, node: str) -> Claimed:
        """Claim that very node, as a worker does, and say that it runs."""
        if self._worker is None:
            self._worker = (await self.engine.nodes.register(Registration("by-hand", "secret"))).id
        (claimed,) = await self.engine.claim(Claim(self._worker, ids=(TaskId(int(node)),)))
        await self.engine.start([claimed.lease])
        return claimed

    async def finish(self, node: str, outcome: Outcome | None = None) -> None:
        claimed = await self.take(node)
        await self.engine.settle([(claimed, outcome or Succeed(b"0"))])

    async def fail(self, node: str, code: int = 2) -> None:
        await self.finish(node, Fail(code))

    def token(self, *scopes: str, name: str = "somebody") -> dict[str, str]:
        """The header of a new token."""
        return {"authorization": f"Bearer {self.server.tokens.add(name, scopes).token}"}


def list_own_rows(site: Site) -> list[Route]:
    """The routes of `/v1` and what stands beside it. Other doors of the server have tests of their own."""
    return [row for row in site.server.service.door.table.rows if row.endpoint.__module__ in OWN]


def command(text: str = "true", *args: str, parent: Any = "root", **said: Any) -> dict[str, Any]:
    return {"metadata": {"type": "command", "parent": parent, **said}, "data": {"command": text, "args": list(args)}}


@asynccontextmanager
async def serve(
    folder: Path | None = None, *, limits: HttpLimits = PLAIN_LIMITS, node: bool = False, **said: str
) -> AsyncIterator[Site]:
    """A site on a store of its own: in memory, or in a folder and there with a node that runs commands."""
    settings = Settings(store=choose_store(folder), listen=LISTEN, **said)
    async with (
        asyncio.timeout(3 * PATIENCE),
        _open(settings, folder, node) as engine,
        open_server(settings, engine, limits=limits) as server,
    ):
        headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
            yield Site(engine, server, client)


@asynccontextmanager
async def _open(settings: Settings, folder: Path | None, node: bool) -> AsyncIterator[Engine]:
    if not node or folder is None:
        async with open_engine(settings.store) as engine:
            yield engine
        return
    options = NodeOptions("here", slots=2, kinds=("command", "shell"))
    async with open_node(settings, options, NodeWishes(plugins=False)) as opened:
        yield opened.engine


Tale = Callable[[Site], Awaitable[None]]


def story(tell: Tale) -> Callable[[], None]:
    """A test on a site of its own, in an event loop of its own."""

    def test() -> None:
        asyncio.run(_tell(tell))

    test.__name__, test.__qualname__, test.__module__ = tell.__name__, tell.__qualname__, tell.__module__
    test.__doc__ = tell.__doc__
    return test


async def _tell(tell: Tale) -> None:
    async with serve() as site:
        await tell(site)


def run_story(tell: Tale) -> Callable[[Path], None]:
    """The same with a node that runs commands."""

    @wraps(tell)
    async def run(folder: Path) -> None:
        async with serve(folder, node=True) as site:
            await tell(site)

    def test(tmp_path: Path) -> None:
        asyncio.run(run(tmp_path))

    test.__name__, test.__qualname__, test.__module__ = tell.__name__, tell.__qualname__, tell.__module__
    return test


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
