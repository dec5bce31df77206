"""The table of the jobs door, and its websockets."""

from typing import Final
from urllib.parse import unquote

from ganger.core.errors import BadInput, NotFound
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, TEXT, Answer
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route, word
from ganger.faces.http.streams import StreamEndpoint, StreamSocket
from ganger.faces.jobs.backend import JobsBackend
from ganger.faces.jobs.content import FIELDS
from ganger.faces.jobs.lasting import LastingSession
from ganger.faces.jobs.polling import ANSWER_PARAMETERS, TAKE_PARAMETERS, Polling, Told
from ganger.faces.jobs.registry import LIST_PARAMETERS, PAGE_PARAMETERS, WAIT_PARAMETERS, Registry
from ganger.faces.jobs.session import Session
from ganger.wire.jobs import shapes
from ganger.wire.jobs.messages import Failed, Progress
from ganger.wire.jobs.second import SUBPROTOCOL

WORKER: Final = "/api/worker"


def list_routes(backend: JobsBackend) -> list[Route]:
    """Every address of the jobs door. Where there are job types, those that take jobs and workers bear one."""
    typed = "/{job_type}" if backend.plan.types.becomes else ""
    of, one = Registry(backend), "/api/jobs/{key}"
    routes = [
        Route(
            "POST", f"/api/jobs/submit{typed}", Need.SUBMIT, of.submit, "Submit a job",
            FIELDS, answer=shapes.Job, status=201, texts=shapes.OF_SUBMITS,
        ),
        Route("GET", "/api/jobs", Need.READ, of.list_jobs, "List jobs", LIST_PARAMETERS, answer=shapes.Jobs),
        Route(
            "GET", "/api/jobs/batches/{number}", Need.READ, of.show_batch, "List the jobs of a batch",
            PAGE_PARAMETERS, answer=shapes.Batch,
        ),
        Route("GET", one, Need.READ, of.show, "Show a job", WAIT_PARAMETERS, waits="wait", answer=shapes.Job),
        Route("GET", f"{one}/payload", Need.READ, of.read_payload, "Read the payload of a job", kind=BYTES),
        Route(
            "GET", f"{one}/result", Need.READ, of.read_result, "Read the result of a job",
            WAIT_PARAMETERS, waits="wait", kind=BYTES,
        ),
        Route("GET", f"{one}/logs", Need.READ, of.read_logs, "Read what a worker wrote about a failure", kind=TEXT),
        Route("DELETE", one, Need.CANCEL, of.delete, "Delete a job", status=204),
        Route("POST", f"{one}/delete", Need.CANCEL, of.delete, "Delete a job", status=204),
        Route("GET", "/api/workers", Need.READ, of.list_workers, "List the workers", answer=list[shapes.Worker]),
        Route(
            "POST", "/api/workers/{id}/kick", Need.ADMIN, of.kick_worker, "Send a worker away",
            answer=list[shapes.Worker],
        ),
        *_polling_routes(backend, typed),
        Route("GET", f"{WORKER}{typed}", Need.READ, _ask_for_upgrade, "Open a websocket here, as a worker"),
    ]  # fmt: skip
    return word(routes, shapes.PARAMETERS)


def _polling_routes(backend: JobsBackend, typed: str) -> list[Route]:
    of, one = Polling(backend), "/api/work/{lease}"
    return [
        Route(
            "POST", f"/api/work{typed}", Need.WORK, of.take, "Take a job, as a worker without a websocket",
            TAKE_PARAMETERS, waits="wait", kind=BYTES, also=(204,), texts=shapes.OF_WORK,
        ),
        Route("PUT", one, Need.WORK, of.answer, "Send the result of a job", ANSWER_PARAMETERS, status=204),
        Route(
            "POST", f"{one}/upload", Need.WORK, of.offer, "Ask where a result may be uploaded to",
            answer=shapes.UploadTold,
        ),
        Route("POST", f"{one}/failed", Need.WORK, of.fail, "Say that a job failed", body=Failed, status=204),
        Route("POST", f"{one}/progress", Need.WORK, of.report, "Say how far a job is", body=Progress, answer=Told),
    ]  # fmt: skip


async def _ask_for_upgrade(request: Request) -> Answer:
    raise BadInput("workers open a websocket here: send Connection: Upgrade and Upgrade: websocket")


class WorkerDoor:
    """Finds the endpoint of a worker's websocket."""

    protocols = frozenset({SUBPROTOCOL})

    def __init__(self, backend: JobsBackend) -> None:
        self._backend = backend

    def owns(self, path: str) -> bool:
        """Is it an address of workers, also of a type that is not there?"""
        return path == WORKER or path.startswith(f"{WORKER}/")

    def find(self, path: str) -> StreamEndpoint | None:
        """Who serves the websocket at this address; None if nobody does."""
        job_type = unquote(path.removeprefix(WORKER).removeprefix("/")) or None
        try:
            self._backend.plan.types.name_queue(job_type)
        except NotFound:
            return None

        async def serve(socket: StreamSocket) -> None:
            chosen = LastingSession if socket.protocol == SUBPROTOCOL else Session
            await chosen(self._backend, job_type, socket).run()

        return serve
