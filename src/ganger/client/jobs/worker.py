"""The worker itself: it connects, registers, answers, and comes back when the connection is lost.

It reads all the time, also while a job is being solved: the server asks for its status, and takes the job back from one
who does not answer. When the connection is lost, what was being solved is given up, because the server gives the job to
another: protocol 1 knows a job by its connection alone.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from ganger.client.jobs.solving import Job, Solver, Unsolved
from ganger.core.errors import NotAuthenticated, NotFound
from ganger.wire.jobs.messages import Code, WorkerStatus

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_PIECE: Final = 1 << 20
_NOT_WANTED: Final = 1008
_encode: Final = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """Where a worker works, and who it is. `url` begins with http or https, as that of the server."""

    url: str
    token: str
    name: str
    identity: str
    job_type: str | None = None

    @property
    def address(self) -> str:
        typed = "" if self.job_type is None else f"/{self.job_type}"
        return f"ws{self.url.removeprefix('http').rstrip('/')}/api/worker{typed}"


class JobWorker:
    """Solves jobs of one place, one at a time, until it is drained."""

    def __init__(self, place: Place, solver: Solver, tell: Callable[[str], None]) -> None:
        self._place = place
        self._solver = solver
        self._tell = tell
        self._draining = asyncio.Event()
        self._job: asyncio.Task[None] | None = None
        self._pause = _FIRST_PAUSE

    def drain(self) -> None:
        """Finish the job, if there is one, and end."""
        self._draining.set()

    async def run(self) -> None:
        """Work until it is drained. Raises NotAuthenticated and NotFound, which no patience helps against."""
        while not self._draining.is_set():
            try:
                await self._connect()
            except InvalidStatus as refused:
                self._judge(refused)
            except (OSError, InvalidHandshake, EOFError, TimeoutError) as error:
                self._tell(f"{self._place.address} cannot be reached: {error}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._draining.wait(), self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _judge(self, refused: InvalidStatus) -> None:
        status = refused.response.status_code
        if status == 404:
            raise NotFound(f"no workers are taken at {self._place.address}: see the setting job_types of the server")
        self._tell(f"{self._place.address} answers {status}")

    async def _connect(self) -> None:
        async with connect(self._place.address, max_size=None, compression=None) as socket:
            place = self._place
            hello = {"code": Code.REGISTRATION, "name": place.name, "id": place.identity, "token": place.token}
            await _say(socket, hello)
            ending = asyncio.ensure_future(self._end_when_drained(socket))
            try:
                await self._listen(socket)
            except ConnectionClosed as closed:
                self._explain(closed)
            finally:
                await _cancel(ending)
                await _cancel(self._job)
                self._job = None

    def _explain(self, closed: ConnectionClosed) -> None:
        told = closed.rcvd
        if told is not None and told.code == _NOT_WANTED and "token" in told.reason:
            raise NotAuthenticated(f"the server says: {told.reason}")
        if not self._draining.is_set():
            self._tell(f"the connection ended: {told.reason or told.code if told else 'without a word'}")

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
            self._pause = _FIRST_PAUSE
            busy = self._draining.is_set() or (self._job is not None and not self._job.done())
            status = WorkerStatus.BUSY if busy else WorkerStatus.READY
            await _say(socket, {"code": Code.STATUS, "status": status})

    async def _take(self, socket: ClientConnection, first: Any, rest: AsyncIterator[Any]) -> None:
        folder = tempfile.TemporaryDirectory(prefix="ganger-job-")
        payload = Path(folder.name, "payload")
        try:
            with _create(payload) as file:
                file.write(first)
                async for piece in rest:
                    await asyncio.to_thread(file.write, piece)
        except BaseException:
            folder.cleanup()
            raise
        self._job = asyncio.ensure_future(self._solve(socket, folder, payload))

    async def _solve(self, socket: ClientConnection, folder: "tempfile.TemporaryDirectory[str]", payload: Path) -> None:
        with folder:
            result = payload.with_name("result")
            try:
                await self._solver.solve(Job(payload, result, _make_report(socket)))
            except Unsolved as why:
                await _say(socket, {"code": Code.FAILED, "info": why.info, "logs": why.logs})
            else:
                await socket.send(_read(result) if result.stat().st_size > _PIECE else result.read_bytes())


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


def _create(file: Path) -> BinaryIO:
    return open(file, "wb")


async def _read(file: Path) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(open, file, "rb") as opened:
        while piece := await asyncio.to_thread(opened.read, _PIECE):
            yield piece


async def _cancel(task: "asyncio.Future[None] | None") -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
