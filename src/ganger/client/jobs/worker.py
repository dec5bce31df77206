"""The worker of protocol 1: it connects, registers, answers, and comes back when the connection is lost.

It reads all the time, also while a job is being solved: the server asks for its status, and takes the job back from one
who does not answer. When the connection is lost, what was being solved is given up, because the server gives the job to
another: protocol 1 knows a job by its connection alone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from ganger.client.jobs.dialing import Dialer
from ganger.client.jobs.parcels import Folder, find_payload, find_result, load, receive
from ganger.client.jobs.place import Place
from ganger.client.jobs.solving import Job, Solver, Unsolved
from ganger.wire.jobs.messages import Code, WorkerStatus

_encode: Final = msgspec.json.Encoder().encode


class JobWorker:
    """Solves jobs of one place, one at a time, until it is drained."""

    def __init__(self, place: Place, solver: Solver, tell: Callable[[str], None]) -> None:
        self._place = place
        self._solver = solver
        self._dialer = Dialer(place, tell)
        self._draining = asyncio.Event()
        self._job: asyncio.Task[None] | None = None

    def drain(self) -> None:
        """Finish the job, if there is one, and end."""
        self._draining.set()

    async def run(self) -> None:
        """Work until it is drained. Raises NotAuthenticated and NotFound, which no patience helps against."""
        await self._dialer.dial(self._converse, self._draining)

    async def _converse(self, socket: ClientConnection) -> None:
        place = self._place
        hello = {"code": Code.REGISTRATION, "name": place.name, "id": place.identity, "token": place.token}
        await _say(socket, hello)
        ending = asyncio.ensure_future(self._end_when_drained(socket))
        try:
            await self._listen(socket)
        finally:
            await _cancel(ending)
            await _cancel(self._job)
            self._job = None

    async def _end_when_drained(self, socket: ClientConnection) -> None:
        await self._draining.wait()
        if self._job is not None:
            await asyncio.wait([self._job])
        await socket.close()

    async def _listen(self, socket: ClientConnection) -> None:
        while True:
            pieces = socket.recv_streaming()
            first = await anext(pieces)
            if isinstance(first, str):
                await self._answer(socket, first + "".join([str(piece) async for piece in pieces]))
            else:
                await self._take(socket, first, pieces)

    async def _answer(self, socket: ClientConnection, text: str) -> None:
        """The server says nothing but that it asks for the status."""
        if msgspec.json.decode(text).get("code") == Code.STATUS_REQUEST:
            self._dialer.reassure()
            busy = self._draining.is_set() or (self._job is not None and not self._job.done())
            status = WorkerStatus.BUSY if busy else WorkerStatus.READY
            await _say(socket, {"code": Code.STATUS, "status": status})

    async def _take(self, socket: ClientConnection, first: Any, rest: AsyncIterator[Any]) -> None:
        folder = await receive(first, rest)
        self._job = asyncio.ensure_future(self._solve(socket, folder))

    async def _solve(self, socket: ClientConnection, folder: Folder) -> None:
        with folder:
            result = find_result(folder)
            try:
                await self._solver.solve(Job(find_payload(folder), result, _make_report(socket)))
            except Unsolved as why:
                await _say(socket, {"code": Code.FAILED, "info": why.info, "logs": why.logs})
            else:
                await socket.send(load(result))


def _make_report(socket: ClientConnection) -> Callable[[float | None, str | None], None]:
    loop = asyncio.get_running_loop()
    sent: set[asyncio.Task[None]] = set()

    def send(percent: float | None, info: str | None) -> None:
        task = loop.create_task(_say_quietly(socket, {"code": Code.PROGRESS, "percent": percent, "info": info}))
        sent.add(task)
        task.add_done_callback(sent.discard)

    def report(percent: float | None = None, info: str | None = None) -> None:
        loop.call_soon_threadsafe(send, percent, info)

    return report


async def _say(socket: ClientConnection, message: dict[str, object]) -> None:
    await socket.send(_encode(message).decode())


async def _say_quietly(socket: ClientConnection, message: dict[str, object]) -> None:
    """Whether the connection is still there is for others to notice."""
    with suppress(ConnectionClosed):
        await _say(socket, message)


async def _cancel(task: "asyncio.Future[None] | None") -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
