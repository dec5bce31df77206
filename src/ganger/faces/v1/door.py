"""The table of `/v1`."""

from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, EVENT_STREAM
from ganger.faces.http.request import WEBSOCKET
from ganger.faces.http.routes import Route, word
from ganger.faces.v1 import data, events, graph, logs, nodes
from ganger.faces.v1.actions import Actions
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.queues import list_queue_routes
from ganger.faces.v1.reports import Reports
from ganger.faces.v1.scheduler import Scheduler
from ganger.wire.v1 import shapes
from ganger.wire.v1.requests import ActionIn, NodeIn, PatchIn
from ganger.wire.v1.values import ValueIn

_ID = frozenset({"id"})
_TOLD = frozenset({"metadata"})
_BELOW = frozenset({"descendants", "kill"})


def list_routes(backend: Backend) -> list[Route]:
    """Every address of `/v1`, what it needs, and who answers it."""
    routes = [
        *_node_routes(backend), *_data_routes(backend), *_scheduler_routes(backend), *_report_routes(backend),
        *list_queue_routes(backend),
    ]  # fmt: skip
    return word(routes, shapes.PARAMETERS)


def _node_routes(backend: Backend) -> list[Route]:
    of = nodes.Nodes(backend)
    one, listed = "/v1/nodes/{id}", nodes.LIST_PARAMETERS
    return [
        Route(
            "POST", "/v1/nodes", Need.SUBMIT, of.add, "Add tasks, all or none",
            body=list[NodeIn] | NodeIn, answer=list[shapes.NewNode], status=201, family=True,
        ),
        Route(
            "GET", "/v1/nodes", Need.READ, of.list_nodes, "List tasks",
            listed, waits="new", answer=shapes.NodeList, family=True,
        ),
        Route("GET", one, Need.READ, of.show, "Show a task", answer=shapes.NodeShown, family=True),
        Route(
            "PATCH", one, Need.SUBMIT, of.change, "Change a task that has not started",
            body=PatchIn, answer=shapes.NodeShown, family=True,
        ),
        Route("DELETE", one, Need.CANCEL, of.remove, "Remove a task", _BELOW, waits="kill", status=204, family=True),
    ]  # fmt: skip


def _data_routes(backend: Backend) -> list[Route]:
    of, paged = data.Data(backend), data.PAGE_PARAMETERS
    keys, one = "/v1/nodes/{id}/data", "/v1/nodes/{id}/data/{key}"
    return [
        Route("GET", keys, Need.READ, of.list_keys, "List the keys of a task", paged, answer=shapes.Keys, family=True),
        Route(
            "GET", one, Need.READ, of.get, "Read a value",
            paged, answer=shapes.ValueShown, family=True, texts=shapes.OF_VALUES,
        ),
        Route(
            "PUT", one, Need.SUBMIT, of.put, "Replace a value, or a slot of it",
            data.SLOT_PARAMETERS, body=ValueIn, answer=shapes.ValuePut, family=True, texts=shapes.OF_SLOTS,
        ),
        Route(
            "GET", "/v1/nodes/{id}/logs", Need.READ, logs.Logs(backend).read, "Read or follow what a task writes",
            logs.PARAMETERS, kind=BYTES, family=True, texts=shapes.OF_VALUES,
        ),
    ]  # fmt: skip


def _scheduler_routes(backend: Backend) -> list[Route]:
    of, ended = Scheduler(backend), list[shapes.NodeEnded]
    run, wait, kill = (f"/v1/scheduler/{name}" for name in ("running", "wait", "kill"))
    nodes_told = list[shapes.NodeMetadata]
    return [
        Route("PUT", kill, Need.CANCEL, of.kill, "Begin to kill tasks", _ID, answer=shapes.Killing, status=202),
        Route("GET", wait, Need.READ, of.wait, "Wait until tasks have ended", _ID, waits="id", answer=ended),
        Route(
            "POST", "/v1/actions", Need.CANCEL, Actions(backend).act, "Hold, kick, cancel, kill or retry many tasks",
            body=ActionIn, answer=shapes.ActionDone,
        ),
        Route("GET", run, Need.READ, of.list_running, "List the tasks that run", _TOLD, answer=nodes_told),
    ]  # fmt: skip


def _report_routes(backend: Backend) -> list[Route]:
    of, follow, known = Reports(backend), events.Events(backend), events.PARAMETERS
    draw = graph.Graph(backend).show
    why, workers = shapes.WhyTold, list[shapes.WorkerTold]
    return [
        Route(
            "GET", "/v1/events", Need.READ, follow.stream, "Follow what happens",
            known, kind=EVENT_STREAM, texts=shapes.OF_EVENTS,
        ),
        Route(WEBSOCKET, "/v1/events", Need.READ, follow.converse, "The same over a websocket", known),
        Route("GET", "/v1/graph", Need.READ, draw, "Show the graph", graph.PARAMETERS, answer=shapes.GraphTold),
        Route("GET", "/v1/nodes/{id}/why", Need.READ, of.why, "Say why a task is where it is", answer=why),
        Route("GET", "/v1/workers", Need.READ, of.workers, "List the nodes, which run tasks", answer=workers),
    ]  # fmt: skip
