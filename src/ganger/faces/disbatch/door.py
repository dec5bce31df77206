"""The table of the Disbatch door."""

from typing import Final

from ganger.core.errors import BadInput
from ganger.faces.disbatch.answering import answer, speak
from ganger.faces.disbatch.backend import DisbatchBackend
from ganger.faces.disbatch.making import Making
from ganger.faces.disbatch.nodes import PARAMETERS, Nodes
from ganger.faces.disbatch.queues import Queues
from ganger.faces.disbatch.tasks import Tasks
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import Answer
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route, word
from ganger.wire.disbatch import shapes
from ganger.wire.disbatch.asking import FIELDS
from ganger.wire.disbatch.params import OPTIONS
from ganger.wire.disbatch.queues import KNOWN

PREFIX: Final = "/disbatch"
_SHOWN: Final = frozenset({".terse", ".full", ".epoch", ".pretty", ".fields"})


def list_routes(backend: DisbatchBackend, prefix: str = PREFIX) -> list[Route]:
    """Every address of the door, under a prefix."""
    rows = [*_queue_routes(backend), *_node_routes(backend), *_task_routes(backend), *_other_routes(backend)]
    spoken = [row._replace(path=f"{prefix}{row.path}", endpoint=speak(row.endpoint)) for row in rows]
    return word(spoken, shapes.PARAMETERS)


def _queue_routes(backend: DisbatchBackend) -> list[Route]:
    of, one = Queues(backend), "/queues/{queue}"
    return [
        Route("GET", "/queues", Need.READ, of.list_queues, "List the queues", answer=list[shapes.QueueReport]),
        Route("POST", "/queues", Need.ADMIN, of.create, "Make a queue", KNOWN),
        Route("GET", one, Need.READ, of.show, "Show a queue", answer=shapes.QueueReport),
        Route("POST", one, Need.ADMIN, of.change, "Change a queue", KNOWN),
        Route("DELETE", one, Need.ADMIN, of.delete, "Remove a queue"),
    ]


def _node_routes(backend: DisbatchBackend) -> list[Route]:
    of, one = Nodes(backend), "/nodes/{node}"
    return [
        Route("GET", "/nodes", Need.READ, of.list_nodes, "List the nodes", answer=list[shapes.NodeReport]),
        Route("GET", one, Need.READ, of.show, "Show a node", answer=shapes.NodeReport),
        Route("POST", one, Need.ADMIN, of.change, "Limit a node", PARAMETERS),
        Route("GET", "/monitoring", Need.READ, of.monitor, "Is anybody there?", answer=shapes.Monitoring),
    ]


def _task_routes(backend: DisbatchBackend) -> list[Route]:
    of, new = Tasks(backend), Making(backend)
    return [
        Route("GET", "/tasks", Need.READ, of.search, "Search tasks", FIELDS | OPTIONS),
        Route("GET", "/tasks/{id}", Need.READ, of.show, "Show a task", _SHOWN),
        Route("POST", "/tasks", Need.SUBMIT, new.take_order, "Make tasks"),
        Route("POST", "/tasks/{queue}", Need.SUBMIT, new.take_array, "Make tasks of a queue"),
        Route(
            "POST", "/tasks/{queue}/{collection}", Need.SUBMIT, new.take_template,
            "Make a task of each document of a collection",
        ),
    ]  # fmt: skip


def _other_routes(backend: DisbatchBackend) -> list[Route]:
    async def list_plugins(request: Request) -> Answer:
        return answer(await backend.list_plugins())

    async def show_info(request: Request) -> Answer:
        routes: dict[str, list[str]] = {}
        for row in list_routes(backend, ""):
            routes.setdefault(row.method, []).append(row.path)
        return answer(shapes.Info(backend.database, backend.version, [], routes))

    async def refuse_balance(request: Request) -> Answer:
        raise BadInput(
            "Ganger does not balance queues by a schedule: set threads with POST /queues/:queue, "
            "or maxthreads of a node with POST /nodes/:node"
        )

    return [
        Route("GET", "/balance", Need.READ, refuse_balance, "Refused: there is no queue balance here"),
        Route("POST", "/balance", Need.ADMIN, refuse_balance, "Refused: there is no queue balance here"),
        Route("GET", "/plugins", Need.READ, list_plugins, "List the plugins that queues may have", answer=list[str]),
        Route("GET", "/info", Need.READ, show_info, "What this command node is", answer=shapes.Info),
    ]
