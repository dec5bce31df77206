"""The part of the table that Ganger's own clients and nodes use."""

from collections.abc import Mapping

from ganger.core.clock import Clock
from ganger.core.errors import BadInput
from ganger.core.event import Event
from ganger.core.ids import QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.queue import Counts
from ganger.core.task import Task
from ganger.engine.operate import Moved
from ganger.engine.readiness import Readiness
from ganger.engine.store import Configured, Directory, Edit, Look, Note, Page, QueueChange, Submitted
from ganger.engine.wait import Waited
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, EVENT_STREAM, Answer
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Endpoint, Route
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
    return [route._replace(endpoint=_agree(route.endpoint)) for route in routes]


def _read_routes(backend: Backend) -> list[Route]:
    of, at = EngineReads(backend), "/v1/engine/{}".format
    counts = tuple[list[Counts], dict[QueueId, dict[str, int]]]
    maybe = list[Task | None]
    return [
        Route("GET", at("tasks"), Need.READ, of.tasks, "Tasks by their ids", ASKED, answer=maybe),
        Route("GET", at("find"), Need.READ, of.find, "A page of tasks", ASKED, answer=Page),
        Route("GET", at("look"), Need.READ, of.look, "All about one task", ASKED, answer=Look),
        Route("GET", at("value"), Need.READ, of.value, "Bytes of a value or of output", ASKED, kind=BYTES),
        Route("GET", at("counts"), Need.READ, of.counts, "Tasks and facts by queue", PLAIN, answer=counts),
        Route("GET", at("directory"), Need.READ, of.directory, "Queues and nodes", PLAIN, answer=Directory),
        Route("GET", at("ready"), Need.READ, of.readiness, "Is work being taken", ASKED, answer=list[Readiness]),
        Route("GET", at("events"), Need.READ, of.events, "Events", WAITED, waits="wait", answer=list[Event]),
        Route("GET", at("wait"), Need.READ, of.wait, "Wait for tasks", WAITED, waits="wait", answer=Waited),
        Route("GET", at("bell"), Need.READ, of.bell, "Wake-ups", WAITED, waits="wait", answer=dict[str, int]),
        Route("GET", at("output"), Need.READ, of.output, "Output as it comes", ASKED, kind=EVENT_STREAM),
    ]


def _act_routes(backend: Backend) -> list[Route]:
    of, at, done = EngineActs(backend), "/v1/engine/{}".format, Configured
    return [
        Route("POST", at("submit"), Need.SUBMIT, of.submit, "Submit tasks", body=remote.SubmitIn, answer=Submitted),
        Route("POST", at("edits"), Need.SUBMIT, of.edit, "Change tasks", body=list[Edit], status=204),
        Route("POST", at("acts"), Need.CANCEL, of.act, "Hold, kick or end tasks", body=remote.ActIn, answer=Moved),
        Route("POST", at("retry"), Need.SUBMIT, of.retry, "Try again", body=remote.RetryIn, answer=TaskId),
        Route("POST", at("data"), Need.SUBMIT, of.put_datum, "Keep a value", body=remote.DatumIn, status=204),
        Route("POST", at("queue"), Need.SUBMIT, of.configure_queue, "Change a queue", body=QueueChange, answer=done),
        Route("POST", at("drain"), Need.ADMIN, of.drain, "Drain a node", body=remote.DrainIn, answer=done),
    ]


def _worker_routes(of: Workers) -> list[Route]:
    one, refused, put = "/v1/workers/{id}", _Refused, of.put_data
    take, start, renew, write = (f"{one}/{name}" for name in ("take", "start", "renew", "notes"))
    return [
        Route("POST", "/v1/workers", Need.WORK, of.register, "Register", body=Registration, answer=Configured),
        Route("POST", f"{one}/beat", Need.WORK, of.beat, "Renew leases", body=remote.BeatIn, answer=Configured),
        Route("POST", f"{one}/leave", Need.WORK, of.leave, "Leave in order", status=204),
        Route(
            "POST", take, Need.WORK, of.take, "Settle and claim",
            _WAIT, waits="wait", body=remote.TakeIn, answer=remote.TakenOut,
        ),
        Route("POST", start, Need.WORK, of.start, "Say what runs", body=remote.LeasesIn, answer=refused),
        Route("POST", renew, Need.WORK, of.renew, "More time", body=remote.LeasesIn, answer=remote.RenewedOut),
        Route("POST", write, Need.WORK, of.write, "What attempts say", body=list[Note], answer=refused),
        Route("PUT", f"{one}/data", Need.WORK, put, "Keep a large value", DATA_PARAMETERS, status=204),
    ]  # fmt: skip


def _agree(endpoint: Endpoint) -> Endpoint:
    """The endpoint, for those who mean the same fields."""

    async def serve(request: Request) -> Answer:
        _check_protocol(request.headers)
        return await endpoint(request)

    return serve


def _check_protocol(headers: Mapping[bytes, bytes]) -> None:
    said = headers.get(remote.PROTOCOL_HEADER.encode(), remote.PROTOCOL.encode()).decode("latin-1")
    if said != remote.PROTOCOL:
        raise BadInput(
            f"the client speaks protocol {said!r:.20} and this server {remote.PROTOCOL}: install the same version of "
            "Ganger on both sides",
            field=remote.PROTOCOL_HEADER,
        )
