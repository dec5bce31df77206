"""The HTTP server as a service beside the others, with all its doors."""

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from ganger.assembly.disbatch import list_disbatch_routes
from ganger.assembly.inheriting import inherit
from ganger.assembly.jobs import open_jobs, read_plan
from ganger.assembly.jobs_roll import RollService, find_roll
from ganger.assembly.key import open_key
from ganger.assembly.listening import bind_server, name_hosts, name_url
from ganger.assembly.location import locate_own
from ganger.assembly.registry import open_parts
from ganger.assembly.retention import read_retention
from ganger.assembly.settings import Settings
from ganger.assembly.tokens import Keepers, TokenFile
from ganger.assembly.tracing import trace_tasks
from ganger.assembly.webhooks import WebhookService, read_rule
from ganger.core.clock import Clock
from ganger.core.errors import BadInput
from ganger.core.token import make_token
from ganger.databases.sqlite import Rank
from ganger.engine.collecting import Collector
from ganger.engine.engine import Engine
from ganger.engine.figures import Meter
from ganger.engine.schedules import Scheduler
from ganger.engine.upkeep import keep_up
from ganger.faces.http.door import HttpDoor
from ganger.faces.http.health import list_health_routes
from ganger.faces.http.limits import PLAIN_LIMITS, HttpLimits
from ganger.faces.http.metrics import list_metric_routes
from ganger.faces.http.news import News
from ganger.faces.http.openapi import Wording, list_description_routes
from ganger.faces.http.routes import Route, Table
from ganger.faces.http.server import HttpServer
from ganger.faces.http.streams import StreamPlan
from ganger.faces.http.visits import Visits
from ganger.faces.jobs.door import WorkerDoor
from ganger.faces.jobs.door import list_routes as list_job_routes
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.door import list_routes
from ganger.faces.v1.remote_door import list_remote_routes
from ganger.faces.v1.schedules import list_schedule_routes
from ganger.faces.v1.statistics import list_stat_routes
from ganger.faces.v1.workers import Sign
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.v1.data_shapes import DATA
from ganger.wire.v1.shapes import Problem

_LOOK_AGAIN: Final = 1.0
_GRACE: Final = 5
"""The largest message that is taken from a websocket; none is listened to."""


class OpenServer(NamedTuple):
    """A server that answers. `made_admin`: this start wrote the administrator's token to `tokens.admin_path`."""

    url: str
    tokens: TokenFile
    made_admin: bool
    service: "HttpService"


@asynccontextmanager
async def open_server(
    settings: Settings,
    engine: Engine,
    *,
    sock: socket.socket | None = None,
    insecure: bool = False,
    limits: HttpLimits = PLAIN_LIMITS,
    telemetry: Telemetry = SILENT,
) -> AsyncIterator[OpenServer]:
    """Serve the engine over HTTP until the end of the context, on a socket of `bind_server` if one is given.

    Raises BadInput for an address that is not safe (see `insecure`), Conflict if it is taken, StoreError.
    """
    clock, context = SystemClock(), _load_tls(settings)
    limits = _read_limits(settings, limits)
    async with AsyncExitStack() as stack:
        if sock is None:
            sock = stack.enter_context(bind_server(settings, insecure=insecure))
        tokens = stack.enter_context(_open_tokens(settings, clock))
        made = tokens.ensure_admin()
        news = News(engine, telemetry=telemetry)
        keeper = Keepers(tokens, locate_own(settings))
        visits = Visits(keeper, limits.visits)
        jobs = await open_jobs(read_plan(settings), engine, keeper, telemetry)
        meter = Meter(engine.store, clock, telemetry)
        hooks = WebhookService(settings, engine, clock, SystemEntropy(), telemetry=telemetry)
        await stack.enter_async_context(trace_tasks(settings, engine, telemetry))
        doors = [*list_job_routes(jobs), *await list_disbatch_routes(settings, engine, stack)]
        rule, traced, tag = read_rule(settings), bool(settings.traces), (await engine.store.directory()).tag
        backend = Backend(engine, news, limits, tag, rule, traced, telemetry)
        table = _list_routes(backend, visits, _make_sign(settings), doors, meter)
        hosts, workers = name_hosts(settings), WorkerDoor(jobs)
        streams = StreamPlan(workers.find, workers.owns, hosts, limits, jobs.limits.frame, workers.protocols, telemetry)
        door = HttpDoor(table, keeper, clock, visits, hosts=hosts, limits=limits, telemetry=telemetry)
        service = HttpService(HttpServer(door, clock, streams, sock, context), door, tokens, news, telemetry)
        roll = RollService(find_roll(settings), jobs.workers, telemetry=telemetry)
        for part in (meter, hooks, roll, service):
            stack.push_async_callback(part.stop)
            await part.start()
        await service.up.wait()
        yield OpenServer(name_url(settings, sock), tokens, made, service)


@asynccontextmanager
async def open_backend(settings: Settings, *, telemetry: Telemetry = SILENT) -> AsyncIterator[Engine]:
    """An engine with its upkeep, for a server without a node. Conditions are judged by the nodes."""
    async with AsyncExitStack() as stack:
        opening = open_parts(settings, SystemClock(), SystemEntropy(), Rank.SERVER, telemetry)
        parts = await stack.enter_async_context(opening)
        engine = Engine(parts.store, parts.clock, parts.entropy, blobs=parts.blobs, telemetry=telemetry)
        stack.push_async_callback(engine.close)
        upkeep: tuple[Service, ...] = (
            keep_up(parts.store, parts.clock, read_retention(settings), telemetry=telemetry),
            Collector(parts.store, parts.clock, parts.blobs, telemetry=telemetry),
            Scheduler(engine, parts.clock, telemetry=telemetry),
            *inherit(settings, engine, parts.clock, telemetry),
        )
        for service in upkeep:
            stack.push_async_callback(service.stop)
            await service.start()
        yield engine


def _read_limits(settings: Settings, usual: HttpLimits) -> HttpLimits:
    rate = _read_number(settings.rate, "rate", "requests a second")
    of_address = _read_number(settings.address_connections, "address_connections", "connections")
    return usual._replace(rate=float(rate) or usual.rate, of_address=of_address or usual.of_address)


def _read_number(text: str, setting: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        raise BadInput(f"{setting} is {text!r:.40}; give whole {what}, or 0 for the default", field=setting)
    return int(text)


def _load_tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.tls_cert and not settings.tls_key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"tls_cert and tls_key cannot be used: {error}", field="tls_cert") from None
    return context


@contextmanager
def _open_tokens(settings: Settings, clock: Clock) -> Iterator[TokenFile]:
    """The tokens of the store: beside its file, or, if it ends with the process, where that ends too."""
    found = locate_own(settings)
    if found is not None:
        yield keep_tokens(found.database, clock)
        return
    with tempfile.TemporaryDirectory(prefix="ganger-tokens-") as folder:
        yield keep_tokens(Path(folder) / "memory", clock)


def keep_tokens(database: Path, clock: Clock) -> TokenFile:
    return TokenFile(database.absolute().with_name(f"{database.name}-tokens"), clock, SystemEntropy())


def _list_routes(backend: Backend, visits: Visits, sign: Sign, doors: list[Route], meter: Meter) -> Table:
    engine = backend.engine
    routes = [*list_routes(backend), *list_health_routes(engine), *list_metric_routes(engine, meter, visits.__len__)]
    routes += list_stat_routes(meter, backend.news)
    routes += list_schedule_routes(backend, SystemClock())
    routes += list_remote_routes(backend, SystemClock(), sign)
    routes += doors
    wording = Wording(version("ganger"), Problem, DATA)
    return Table([*routes, *list_description_routes(routes, wording)])


def _make_sign(settings: Settings) -> Sign:
    """How the attempts of nodes that work from afar get their tokens."""
    return partial(make_token, open_key(locate_own(settings), SystemEntropy()))


class HttpService(Service):
    """Serves the door on a socket. When it ends, those who wait are told to come back."""

    def __init__(
        self,
        server: HttpServer,
        door: HttpDoor,
        tokens: TokenFile,
        news: News,
        telemetry: Telemetry,
    ) -> None:
        super().__init__("http", children=[news, _Watch(door, tokens, telemetry)], telemetry=telemetry)
        self.door = door
        self.up = asyncio.Event()
        self.server = server

    async def run(self) -> None:
        self.server.start()
        self.up.set()
        try:
            await self.draining.wait()
        finally:
            self.door.visits.close()
            await self.server.stop(_GRACE)


class _Watch(Service):
    """Looks whether tokens were changed, and sends home whose token is gone."""

    def __init__(self, door: HttpDoor, tokens: TokenFile, telemetry: Telemetry) -> None:
        super().__init__("tokens", telemetry=telemetry)
        self._door = door
        self._tokens = tokens

    async def run(self) -> None:
        while not self.draining.is_set():
            self._tokens.refresh()
            self._door.visits.revoke()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await self.draining.wait()
