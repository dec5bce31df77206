"""The part of the table that Ganger's own clients and nodes use."""

from collections.abc import Mapping
from typing import Any

from ganger.core.clock import Clock
from ganger.core.errors import BadInput
from ganger.core.event import Event
from ganger.core.ids import QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.queue import Counts
from ganger.core.task import Task
from ganger.engine.family import Relatives
from ganger.engine.operate import Moved
from ganger.engine.readiness import Readiness
from ganger.engine.store import Configured, Directory, Edit, Look, Note, Page, Query, QueueChange, Submitted
from ganger.engine.wait import Waited
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, EVENT_STREAM, Answer
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Endpoint, Route, word
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.engine_acts import EngineActs
from ganger.faces.v1.engine_reads import ASKED, PLAIN, WAITED, EngineReads
from ganger.faces.v1.workers import DATA_PARAMETERS, Sign, Workers
from ganger.wire.v1 import remote

_WAIT = frozenset({"wait"})
_Refused = list[tuple[int, str]]


def list_remote_routes(backend: Backend, clock: Clock, sign: Sign) -> list[Route]:
    """Every address for Ganger's own clients and nodes."""
    routes = [*_read_routes(backend), *_act_routes(backend), *_worker_routes(Workers(backend, clock, sign))]
    return word([route._replace(endpoint=_agree(route.endpoint)) for route in routes], remote.PARAMETERS)


def _read_routes(backend: Backend) -> list[Route]:
    of = EngineReads(backend)
    counts = tuple[list[Counts], dict[QueueId, dict[str, int]]]
    return [
        _read("tasks", of.tasks, "Tasks by their ids", remote.TasksAsk)._replace(answer=list[Task | None], family=True),
        _read("family", of.family, "The family of an attempt", remote.LookAsk)._replace(answer=Relatives, family=True),
        _read("find", of.find, "A page of tasks", Query)._replace(answer=Page),
        _read("look", of.look, "All about one task", remote.LookAsk)._replace(answer=Look),
        _read("value", of.value, "Bytes of a value or of output", remote.ValueAsk)._replace(kind=BYTES),
        _read("counts", of.counts, "Tasks and facts by queue", None)._replace(answer=counts),
        _read("directory", of.directory, "Queues and nodes", None)._replace(answer=Directory, family=True),
        _read("ready", of.readiness, "Is work being taken", remote.ReadyAsk)._replace(answer=list[Readiness]),
        _wait("events", of.events, "Events", remote.EventsAsk)._replace(answer=list[Event]),
        _wait("wait", of.wait, "Wait for tasks", remote.WaitAsk)._replace(answer=Waited),
        _wait("bell", of.bell, "Wake-ups", remote.BellAsk)._replace(answer=dict[str, int]),
        _read("output", of.output, "Output as it comes", remote.OutputAsk)._replace(kind=EVENT_STREAM),
    ]


def _read(name: str, endpoint: Endpoint, summary: str, asks: Any) -> Route:
    parameters = PLAIN if asks is None else ASKED
    return Route("GET", f"/v1/engine/{name}", Need.READ, endpoint, summary, parameters, asks=asks)


def _wait(name: str, endpoint: Endpoint, summary: str, asks: Any) -> Route:
    return _read(name, endpoint, summary, asks)._replace(parameters=WAITED, waits="wait")


def _act_routes(backend: Backend) -> list[Route]:
    of, at, done = EngineActs(backend), "/v1/engine/{}".format, Configured
    return [
        Route(
            "POST", at("submit"), Need.SUBMIT, of.submit, "Submit tasks",
            body=remote.SubmitIn, answer=Submitted, family=True,
        ),
        Route("POST", at("edits"), Need.SUBMIT, of.edit, "Change tasks", body=list[Edit], status=204, family=True),
        Route(
            "POST", at("progress"), Need.WORK, of.progress, "Say how far an attempt is",
            body=remote.ProgressIn, status=204, family=True,
        ),
        Route("POST", at("acts"), Need.CANCEL, of.act, "Hold, kick or end tasks", body=remote.ActIn, answer=Moved),
        Route("POST", at("retry"), Need.SUBMIT, of.retry, "Try again", body=remote.RetryIn, answer=TaskId),
        Route("POST", at("data"), Need.SUBMIT, of.put_datum, "Keep a value", body=remote.DatumIn, status=204),
        Route("POST", at("queue"), Need.SUBMIT, of.configure_queue, "Change a queue", body=QueueChange, answer=done),
        Route("POST", at("drain"), Need.ADMIN, of.drain, "Drain a node", body=remote.DrainIn, answer=done),
    ]  # fmt: skip


def _worker_routes(of: Workers) -> list[Route]:
    one, refused, put = "/v1/workers/{id}", _Refused, of.put_data
    take, start, renew, write = (f"{one}/{name}" for name in ("take", "start", "renew", "notes"))
    return [
        Route("POST", "/v1/workers", Need.WORK, of.register, "Register a node", body=Registration, answer=Configured),
        Route("POST", f"{one}/beat", Need.WORK, of.beat, "Renew leases", body=remote.BeatIn, answer=Configured),
        Route("POST", f"{one}/leave", Need.WORK, of.leave, "Leave in order", status=204),
        Route(
            "POST", take, Need.WORK, of.take, "Settle and claim",
            _WAIT, waits="wait", body=remote.TakeIn, answer=remote.TakenOut,
        ),
        Route("POST", f"{one}/wake", Need.WORK, of.wake, "End waits for work", status=204),
        Route("POST", start, Need.WORK, of.start, "Say what runs", body=remote.LeasesIn, answer=refused),
        Route("POST", renew, Need.WORK, of.renew, "More time", body=remote.LeasesIn, answer=remote.RenewedOut),
        Route("POST", write, Need.WORK, of.write, "What attempts say", body=list[Note], answer=refused),
        Route("PUT", f"{one}/data", Need.WORK, put, "Keep a large value", DATA_PARAMETERS, status=204),
    ]  # fmt: skip


def _agree(endpoint: Endpoint) -> Endpoint:
    """The endpoint, for those who mean the same fields."""

    async def serve(request: Request) -> Answer:
        _check_protocol(request.headers)
        try:
            return await endpoint(request)
        except OverflowError:
            raise BadInput("a number has more than 63 bits, which no number of the engine has") from None

    return serve


def _check_protocol(headers: Mapping[bytes, bytes]) -> None:
    said = headers.get(remote.PROTOCOL_HEADER.encode(), remote.PROTOCOL.encode()).decode("latin-1")
    if said != remote.PROTOCOL:
        raise BadInput(
            f"the client speaks protocol {said!r:.20} and this server {remote.PROTOCOL}: install the same version of "
            "Ganger on both sides",
            field=remote.PROTOCOL_HEADER,
        )
