"""The registry of jobs over HTTP: submit, list, show, read what they carry, delete."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

from ganger.core.errors import BadInput, BadNumber, DuplicateKey, NodeNotFound, NotFound, WrongStatus
from ganger.core.ids import Position
from ganger.core.state import LEASED, Status
from ganger.core.task import Kind, NewTask, Task
from ganger.engine.blob import BlobRef
from ganger.engine.store import Page, Query
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, TEXT, Answer, Reply, Streamed, answer_json
from ganger.faces.http.request import Request
from ganger.faces.jobs.backend import JobsBackend, say_time, sign
from ganger.faces.jobs.content import Form, read_form
from ganger.faces.jobs.workers import ASIDE, Seen
from ganger.wire.jobs.shapes import Batch, Jobs, Worker
from ganger.wire.jobs.words import STATUSES, say_status

LIST_PARAMETERS: Final = frozenset({"status", "type", "batch", "key", "limit", "after", "newest"})
PAGE_PARAMETERS: Final = frozenset({"limit", "after"})
WAIT_PARAMETERS: Final = frozenset({"wait"})
LOGS: Final = "stderr"
"""The output of an attempt that has what its worker wrote when it failed."""

_LARGEST: Final = (1 << 63) - 1


class Registry:
    """The endpoints under `/api/jobs`."""

    def __init__(self, backend: JobsBackend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def submit(self, request: Request) -> Answer:
        """Take in a job: its payload is safe before anybody hears of it."""
        queue = await self._backend.find_queue(request.values.get("job_type"))
        request.grant.demand(Need.SUBMIT, queue.name)
        form = await read_form(self._engine, request, self._backend.limits)
        small = isinstance(form.payload, bytes)
        new = NewTask(
            queue.id, Kind.PAYLOAD, form.payload if isinstance(form.payload, bytes) else b"", form.priority,
            key=form.key, description=form.description,
        )  # fmt: skip
        try:
            made = await self._engine.submit([new], data=[] if small else _make_data(form))
        except DuplicateKey as error:
            raise BadInput(f"the key {form.key!r} belongs to another job", field="key", **error.fields) from None
        found = [task for task in await self._engine.tasks(made.ids) if task is not None]
        return answer_json((await self._backend.show(found))[0], 201)

    async def list_jobs(self, request: Request) -> Answer:
        """A page of jobs, and how many there are of each status."""
        asked = request.query
        queues = await self._backend.list_queues()
        query = _read_query(asked, self._backend.limits.page)
        if "type" in asked or not self._backend.plan.types.becomes:
            wanted = self._backend.plan.types.name_queue(asked.get("type"))
            named = {name: queue for queue, name in queues.items()}
            query = query._replace(queue=named.get(self._backend.plan.types.read_queue(wanted)))
        # A queue that nobody has made yet has no jobs.
        page = await self._engine.find(query) if queues else Page([], None)
        jobs = await self._backend.show([task for task in page.tasks if task.queue in queues])
        return answer_json(Jobs(jobs, _say_next(page), await self._count()))

    async def _count(self) -> dict[str, int]:
        queues = await self._backend.list_queues()
        sums = dict.fromkeys(STATUSES, 0)
        for each in (await self._engine.counts())[0]:
            for code, number in each.by_status.items() if each.queue in queues else ():
                sums[say_status(code)] += number
        return sums

    async def show(self, request: Request) -> Answer:
        """One job; with `wait` as it is when it has ended, or when the time is up."""
        task = await self._wait(request)
        return answer_json((await self._backend.show([task]))[0])

    async def _wait(self, request: Request) -> Task:
        """The job that the path names, waited for if that is asked."""
        task = await self._backend.find_job(request.values["key"])
        if "wait" not in request.query:
            return task
        seconds = read_seconds(request.query["wait"], self._backend.limits.wait)
        await self._engine.wait([task.id], seconds, until_held=True)
        return await self._backend.find_job(request.values["key"])

    async def show_batch(self, request: Request) -> Answer:
        """The jobs of a batch."""
        number = _read_whole("batch", request.values["number"], _LARGEST)
        query = _read_query(request.query, self._backend.limits.page)._replace(batch=number, kind=Kind.PAYLOAD)
        queues = await self._backend.list_queues()
        page = await self._engine.find(query)
        tasks = [task for task in page.tasks if task.queue in queues]
        if not tasks and "after" not in request.query:
            raise NotFound(f"there is no batch {number}", batch=number)
        stable = bool(tasks) and await self._is_closed(tasks[0])
        told = Batch(
            number, queues[tasks[0].queue] if tasks else None, stable, await self._backend.show(tasks), _say_next(page)
        )
        return answer_json(told)

    async def _is_closed(self, task: Task) -> bool:
        """Has the queue begun a newer batch, or is this one full?"""
        newest = await self._engine.find(Query(queue=task.queue, newest_first=True, most=1))
        if newest.tasks and (newest.tasks[0].batch or 0) > (task.batch or 0):
            return True
        members = self._engine.walk(Query(batch=task.batch, most=1_000))
        return len([1 async for _ in members]) >= self._backend.plan.policy.batch_size

    async def read_payload(self, request: Request) -> Answer:
        task = await self._backend.find_job(request.values["key"])
        return await self._stream(task, "spec")

    async def read_result(self, request: Request) -> Answer:
        """The result of a job that is complete; WrongStatus says why there is none."""
        task = await self._wait(request)
        if task.status != Status.SUCCEEDED:
            word = say_status(task.status)
            why = f": {task.reason}" if word == "failed" and task.reason else ""
            raise WrongStatus(f"the job is {word} and has no result{why}", status=word)
        return await self._stream(task, "result")

    async def _stream(self, task: Task, key: str) -> Answer:
        """The first piece is read before anything is answered: what cannot be read is an error, not a broken answer."""
        content = await self._engine.contents.find(task.id, key)
        pieces = self._engine.contents.pour(content)
        first = await anext(pieces)
        if content.size <= len(first):
            await pieces.aclose()
            return Reply(200, first, BYTES)
        return Streamed(_join(first, pieces), BYTES, ((b"content-length", b"%d" % content.size),))

    async def read_logs(self, request: Request) -> Answer:
        """What the worker wrote when the job failed for the last time; empty if it wrote nothing."""
        task = await self._backend.find_job(request.values["key"])
        part = await self._engine.read_output(task.id, LOGS, 0, self._backend.limits.text)
        return Reply(200, part.body, TEXT)

    async def delete(self, request: Request) -> Answer:
        """Remove a job with all that it has; one that runs is killed first."""
        task, by = await self._backend.find_job(request.values["key"]), sign(request.grant)
        if task.status in LEASED:
            await self._engine.kill([task.id], by=by)
            self._backend.workers.recall(task.id)
            await self._engine.wait([task.id], self._backend.limits.killing)
        await self._engine.remove(task.id, by=by)
        return Reply(204)

    async def list_workers(self, request: Request) -> Answer:
        """Those that are connected, and those that were a while ago."""
        return answer_json([self._show_worker(worker) for worker in self._backend.workers.list_all()])

    async def kick_worker(self, request: Request) -> Answer:
        """Send workers away: those of an id, or the one that is a node of this name. Their jobs go to others."""
        name = request.values["id"]
        found = self._backend.workers.find_named(name)
        if not found:
            raise NotFound(f"no worker called {name!r:.80} is here; see GET /api/workers", worker=name[:200])
        for worker in found:
            self._backend.workers.expect_kick(worker.node)
            # In the operator's name, and so that it is given nothing more from here on.
            with suppress(NodeNotFound):
                await self._engine.nodes.drain(worker.node_name, by=sign(request.grant))
            self._backend.workers.send_away(worker.node)
            self._backend.workers.forgive(worker.identity)
        return answer_json([self._show_worker(worker) for worker in found])

    def _say_state(self, worker: Seen) -> str:
        """How it is; one that is here and was set aside is that, unless it has a job to show that it is well."""
        is_idle = worker.left is None and worker.job is None
        return ASIDE if is_idle and self._backend.workers.is_aside(worker.identity) else worker.state

    def _show_worker(self, worker: Seen) -> Worker:
        tally = self._backend.workers.count(worker.identity)
        return Worker(
            worker.identity, worker.name, worker.job_type, worker.node_name, worker.address, self._say_state(worker),
            say_time(worker.since), say_time(worker.seen), None if worker.left is None else say_time(worker.left),
            None if worker.job is None else self._backend.say_guid(worker.job), tally.succeeded, tally.failed,
            worker.last,
        )  # fmt: skip


def _make_data(form: Form) -> list[tuple[int, str, bytes | BlobRef]]:
    return [(0, "spec", form.payload)]


async def _join(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def _read_query(asked: dict[str, str], most: int) -> Query:
    return Query(
        statuses=_read_statuses(asked.get("status")),
        kind=Kind.PAYLOAD,
        batch=_read_whole("batch", asked["batch"], _LARGEST) if "batch" in asked else None,
        key=asked.get("key"),
        after=Position(_read_whole("after", asked["after"], _LARGEST)) if "after" in asked else None,
        newest_first=read_flag("newest", asked.get("newest", "false")),
        most=_read_whole("limit", asked.get("limit", "100"), most, 1),
    )


def _read_statuses(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if wrong := [word for word in words if word not in STATUSES]:
        raise BadInput(f"status is {wrong[0]!r:.40}; use {', '.join(STATUSES)}", field="status")
    return tuple(code for word in words for code in STATUSES[word])


def read_flag(field: str, text: str) -> bool:
    """`true` or `false`; BadInput for another word."""
    if text not in ("true", "false"):
        raise BadInput(f"{field} is {text!r:.40}; use true or false", field=field)
    return text == "true"


def _read_whole(field: str, text: str, most: int, least: int = 0) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise BadNumber(f"{field} is {text!r:.40}; give a whole number from {least} to {most}", field=field)
    return int(text)


def read_seconds(text: str, most: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= most:
        raise BadNumber(f"wait is {text!r:.40}; give seconds from 0 to {most:g}", field="wait")
    return seconds


def _say_next(page: Page) -> str | None:
    return None if page.next is None else str(page.next)
