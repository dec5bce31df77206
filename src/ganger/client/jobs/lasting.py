"""The worker of protocol 2: several jobs over one connection, and computations that outlast it.

What can go wrong, and why this is right:

- *The connection is lost, or the server dies.* What is being solved goes on. The worker connects again, names its
  session and the jobs that it has, and sends what was finished meanwhile.
- *Nobody knows whether an answer was stored*, because the connection was lost behind it. An answer is kept until its
  receipt has come, and sent again on the next connection; by the fence in the name of the job it is stored once.
- *It was away for too long.* Then the session in the welcome is a new one, and its jobs are others': they are given up.
- *A payload was cut off.* Its job is not among those that are named, so the server gives it to whoever comes next.
- *A result is large.* It is sent as it is read. Nothing may come between the announcement of a result and its content,
  so all that is said goes out one after the other. What is heard is heard meanwhile.
- *A function tells its progress faster than the network takes it.* Of each job only the newest progress waits.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from ganger.client.jobs.dialing import Dialer
from ganger.client.jobs.parcels import Folder, find_payload, find_result, load, receive
from ganger.client.jobs.place import Place
from ganger.client.jobs.solving import Job, Report, Solver, Unsolved
from ganger.wire.jobs.messages import WorkerStatus
from ganger.wire.jobs.second import SUBPROTOCOL, Code

_encode: Final = msgspec.json.Encoder().encode


class _Said(msgspec.Struct, frozen=True):
    """A message of the server, of whatever code."""

    code: int
    job: str = ""
    session: str = ""
    accepted: bool = True
    reason: str | None = None


class _Line:
    """One connection, over which one message goes after the other."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._sending = asyncio.Lock()

    async def say(self, message: Mapping[str, object]) -> None:
        async with self._sending:
            await self._socket.send(_encode(message).decode())

    async def give(self, job: str, folder: Folder) -> None:
        """The result of a job, behind its announcement."""
        content = load(find_result(folder))
        async with self._sending:
            await self._socket.send(_encode({"code": Code.JOB, "job": job}).decode())
            await self._socket.send(content)


class _Held:
    """A job that the worker has. When it is solved, or cannot be, that was `sent` on a line, perhaps in vain."""

    __slots__ = ("folder", "news", "sent", "solving", "telling")

    def __init__(self, folder: Folder, solving: "asyncio.Task[Unsolved | None]") -> None:
        self.folder = folder
        self.solving = solving
        self.sent: _Line | None = None
        self.news: dict[str, object] | None = None
        self.telling = False

    def give_up(self) -> None:
        """Nobody wants it any more; the folder goes when nothing uses it."""
        self.solving.cancel()
        self.solving.add_done_callback(lambda _: self.folder.cleanup())


class LastingWorker:
    """Solves jobs of one place, so many at a time, until it is drained."""

    def __init__(self, place: Place, solver: Solver, tell: Callable[[str], None], slots: int = 1) -> None:
        self._place = place
        self._solver = solver
        self._tell = tell
        self._slots = slots
        self._dialer = Dialer(place, tell, SUBPROTOCOL)
        self._draining = False
        self._over = asyncio.Event()
        self._session: str | None = None
        self._line: _Line | None = None
        self._announced: str | None = None
        self._held: dict[str, _Held] = {}
        self._errands: set[asyncio.Task[None]] = set()

    def drain(self) -> None:
        """Finish the jobs, if there are any, hear that their results are stored, and end."""
        self._draining = True
        if self._line is not None:
            self._run(self._tell_status(self._line))
        self._end_if_done()

    async def run(self) -> None:
        """Work until it is drained. Raises NotAuthenticated, NotFound and BadInput, which no patience helps against."""
        try:
            await self._dialer.dial(self._converse, self._over)
        finally:
            await self._give_up_all()

    async def _give_up_all(self) -> None:
        held, self._held = list(self._held.values()), {}
        for one in held:
            one.give_up()
        if held:
            await asyncio.wait([one.solving for one in held])

    async def _converse(self, socket: ClientConnection) -> None:
        line, self._announced = _Line(socket), None
        await line.say(self._introduce())
        closing = asyncio.ensure_future(self._close_when_over(socket))
        try:
            await self._listen(line, socket)
        finally:
            self._line = None
            closing.cancel()
            await asyncio.wait([closing])

    def _introduce(self) -> dict[str, object]:
        place = self._place
        return {
            "code": Code.REGISTRATION, "name": place.name, "id": place.identity, "token": place.token,
            "slots": self._slots, "session": self._session, "jobs": list(self._held),
        }  # fmt: skip

    async def _close_when_over(self, socket: ClientConnection) -> None:
        await self._over.wait()
        await socket.close()

    async def _listen(self, line: _Line, socket: ClientConnection) -> None:
        while True:
            pieces = socket.recv_streaming()
            first = await anext(pieces)
            if isinstance(first, str):
                text = first + "".join([str(piece) async for piece in pieces])
                await self._hear(line, msgspec.json.decode(text, type=_Said))
            else:
                await self._take(first, pieces)

    async def _hear(self, line: _Line, said: _Said) -> None:
        """What else a server may say one day is none of this worker's business."""
        match said.code:
            case Code.WELCOME:
                await self._enter(line, said.session)
            case Code.STATUS_REQUEST:
                await self._tell_status(line)
            case Code.JOB:
                self._announced = said.job
            case Code.RECEIPT:
                self._confirm(said)
            case Code.CANCEL:
                self._cancel(said.job)

    async def _enter(self, line: _Line, session: str) -> None:
        if session != self._session and self._held:
            self._tell(f"was away for too long: {len(self._held)} jobs are others' now")
            await self._give_up_all()
            self._end_if_done()
        self._session, self._line = session, line
        self._dialer.reassure()
        for job in self._held:
            self._send_answer(job)

    async def _tell_status(self, line: _Line) -> None:
        status = WorkerStatus.BUSY if self._draining else WorkerStatus.READY
        with suppress(ConnectionClosed):
            await line.say({"code": Code.STATUS, "status": status})

    async def _take(self, first: Any, rest: AsyncIterator[Any]) -> None:
        folder = await receive(first, rest)
        job, self._announced = self._announced, None
        if job is None:
            # It was cancelled while it was on its way.
            return folder.cleanup()
        self._held[job] = _Held(folder, asyncio.ensure_future(self._solve(job, folder)))
        return self._held[job].solving.add_done_callback(lambda _: self._send_answer(job))

    async def _solve(self, job: str, folder: Folder) -> Unsolved | None:
        try:
            await self._solver.solve(Job(find_payload(folder), find_result(folder), self._make_report(job)))
        except Unsolved as why:
            return why
        except OSError as error:
            return Unsolved(f"the worker cannot keep the result: {error}")
        return None

    def _send_answer(self, job: str) -> None:
        """Send what came of a job, if there is a line and it was not sent on that."""
        held, line = self._held.get(job), self._line
        if held is not None and line is not None and held.solving.done() and held.sent is not line:
            held.sent = line
            self._run(self._answer(line, job, held))

    async def _answer(self, line: _Line, job: str, held: _Held) -> None:
        why = held.solving.result()
        try:
            await self._tell_news(line, held)
            if why is None:
                await line.give(job, held.folder)
            else:
                await line.say({"code": Code.FAILED, "job": job, "info": why.info, "logs": why.logs})
        except ConnectionClosed:
            # It is sent again on the next line.
            held.sent = None
        except OSError as error:
            await line.say({"code": Code.FAILED, "job": job, "info": f"the worker cannot read the result: {error}"})

    def _confirm(self, said: _Said) -> None:
        """The answer is stored, or will never be."""
        held = self._held.pop(said.job, None)
        if held is not None:
            held.give_up()
            if not said.accepted:
                self._tell(f"the server refused what came of job {said.job}: {said.reason}")
        self._end_if_done()

    def _cancel(self, job: str) -> None:
        if job == self._announced:
            self._announced = None
        if (held := self._held.pop(job, None)) is not None:
            held.give_up()
            self._tell(f"job {job} was cancelled")
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._draining and not self._held:
            self._over.set()

    def _make_report(self, job: str) -> Report:
        loop = asyncio.get_running_loop()

        def report(percent: float | None = None, info: str | None = None) -> None:
            loop.call_soon_threadsafe(self._report, job, percent, info)

        return report

    def _report(self, job: str, percent: float | None, info: str | None) -> None:
        held = self._held.get(job)
        if held is None or self._line is None:
            return
        held.news = {"code": Code.PROGRESS, "job": job, "percent": percent, "info": info}
        if not held.telling:
            held.telling = True
            self._run(self._tell_quietly(self._line, held))

    async def _tell_news(self, line: _Line, held: _Held) -> None:
        while held.news is not None:
            news, held.news = held.news, None
            await line.say(news)

    async def _tell_quietly(self, line: _Line, held: _Held) -> None:
        """Whether the connection is still there is for others to notice."""
        with suppress(ConnectionClosed):
            await self._tell_news(line, held)
        held.telling = False

    def _run(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
