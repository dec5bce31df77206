"""The worker of protocol 2 against a server that says what the test has it say."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from ganger.client.jobs.lasting import LastingWorker
from ganger.client.jobs.place import Place
from ganger.client.jobs.solving import FunctionSolver
from ganger.core.errors import BadInput, NotAuthenticated

PATIENCE = 30.0
SECOND = Subprotocol("ganger.jobs.2")


class Line:
    """One connection of the worker, seen from the server."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def say(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def hear(self, code: int) -> dict[str, Any]:
        """The next message, which has this code."""
        said = json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE))
        assert said["code"] == code, said
        return dict(said)

    async def welcome(self, session: str) -> dict[str, Any]:
        hello = await self.hear(0)
        await self.say(code=6, session=session, seconds=60)
        return hello

    async def send_job(self, job: str, payload: bytes) -> None:
        await self.say(code=5, job=job, id="guid", size=len(payload))
        await self.socket.send(payload)

    async def take_result(self, job: str) -> bytes:
        assert (await self.hear(5))["job"] == job
        result = await asyncio.wait_for(self.socket.recv(), PATIENCE)
        assert isinstance(result, bytes)
        return result


Script = Callable[[Line], Awaitable[None]]


def play(function: Callable[..., Any], *scripts: Script, protocol: Subprotocol | None = SECOND) -> list[str]:
    """What the worker told, when each of its connections has gone as its script says; the last one drains it."""
    return asyncio.run(_play(function, scripts, protocol))


async def _play(function: Callable[..., Any], scripts: tuple[Script, ...], protocol: Subprotocol | None) -> list[str]:
    told: list[str] = []
    left, failed = list(scripts), list[BaseException]()

    async def converse(socket: ServerConnection) -> None:
        try:
            await left.pop(0)(Line(socket))
        except AssertionError as error:
            failed.append(error)
        if left:
            socket.transport.abort()
            return
        worker.drain()
        with suppress(Exception):
            await socket.wait_closed()

    spoken = None if protocol is None else [protocol]
    async with asyncio.timeout(PATIENCE), serve(converse, "127.0.0.1", 0, subprotocols=spoken) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        place = Place(f"http://127.0.0.1:{port}", "secret", "name", "id")
        worker = LastingWorker(place, FunctionSolver(function), told.append, slots=2)
        await worker.run()
    for error in failed:
        raise error
    return told


def reverse(payload: bytes) -> bytes:
    return payload[::-1]


def test_an_answer_without_a_receipt_is_sent_again_on_the_next_connection() -> None:
    async def lose(line: Line) -> None:
        hello = await line.welcome("1.s")
        assert (hello["slots"], hello["session"], hello["jobs"]) == (2, None, [])
        await line.send_job("22.1", b"abc")
        assert await line.take_result("22.1") == b"cba"

    async def go_on(line: Line) -> None:
        hello = await line.welcome("1.s")
        assert (hello["session"], hello["jobs"]) == ("1.s", ["22.1"])
        assert await line.take_result("22.1") == b"cba"
        await line.say(code=7, job="22.1", accepted=True)

    play(reverse, lose, go_on)


def test_a_failure_without_a_receipt_is_told_again() -> None:
    def fail(payload: bytes) -> bytes:
        raise ValueError("no splines")

    async def lose(line: Line) -> None:
        await line.welcome("1.s")
        await line.send_job("22.1", b"abc")
        assert (await line.hear(4))["info"] == "ValueError: no splines"

    async def go_on(line: Line) -> None:
        await line.welcome("1.s")
        assert (await line.hear(4))["job"] == "22.1"
        await line.say(code=7, job="22.1", accepted=True)

    play(fail, lose, go_on)


def test_in_a_new_session_what_it_had_is_given_up() -> None:
    async def lose(line: Line) -> None:
        await line.welcome("1.s")
        await line.send_job("22.1", b"abc")
        await line.take_result("22.1")

    async def begin_anew(line: Line) -> None:
        assert (await line.welcome("2.t"))["jobs"] == ["22.1"]
        await line.send_job("22.2", b"abc")
        assert await line.take_result("22.2") == b"cba"
        await line.say(code=7, job="22.2", accepted=True)

    assert any("too long" in line for line in play(reverse, lose, begin_anew))


def test_a_payload_that_was_cut_off_is_no_job() -> None:
    async def cut(line: Line) -> None:
        await line.welcome("1.s")
        await line.say(code=5, job="22.1", id="guid", size=6)

        async def half() -> Any:
            yield b"abc"
            line.socket.transport.abort()
            await asyncio.get_running_loop().create_future()

        sending = asyncio.ensure_future(line.socket.send(half()))
        await line.socket.wait_closed()
        sending.cancel()
        await asyncio.wait([sending])

    async def go_on(line: Line) -> None:
        assert (await line.welcome("1.s"))["jobs"] == []

    play(reverse, cut, go_on)


def test_a_job_that_is_cancelled_on_its_way_is_not_begun() -> None:
    begun: list[bytes] = []

    async def note(payload: bytes) -> bytes:
        begun.append(payload)
        return b""

    async def cancel(line: Line) -> None:
        await line.welcome("1.s")
        await line.say(code=5, job="22.1", id="guid", size=3)
        await line.say(code=8, job="22.1")
        await line.socket.send(b"one")
        await line.send_job("23.1", b"two")
        await line.take_result("23.1")
        await line.say(code=7, job="23.1", accepted=True)

    play(note, cancel)
    assert begun == [b"two"]


def test_a_computation_that_is_cancelled_ends() -> None:
    ended: list[str] = []

    async def wait(payload: bytes, report: Callable[..., None]) -> bytes:
        report(0.0, "begun")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(payload.decode())
        return b""

    async def cancel(line: Line) -> None:
        await line.welcome("1.s")
        await line.send_job("22.1", b"x")
        assert (await line.hear(3))["info"] == "begun"
        await line.say(code=2)
        assert (await line.hear(1))["status"] == 1
        await line.say(code=8, job="22.1")

    assert "job 22.1 was cancelled" in play(wait, cancel)
    assert ended == ["x"]


def test_a_refused_result_is_told_and_forgotten() -> None:
    async def refuse(line: Line) -> None:
        await line.welcome("1.s")
        await line.send_job("22.1", b"x")
        await line.take_result("22.1")
        await line.say(code=7, job="22.1", accepted=False, reason="it is another's")

    assert any("it is another's" in line for line in play(reverse, refuse))


def test_progress_comes_before_the_result_and_the_newest_is_never_lost() -> None:
    def count(payload: bytes, report: Callable[..., None]) -> bytes:
        for number in range(101):
            report(float(number), "on")
        return b"done"

    async def listen(line: Line) -> None:
        await line.welcome("1.s")
        await line.send_job("22.1", b"x")
        last, said = -1.0, json.loads(await line.socket.recv())
        while said["code"] == 3:
            assert said["percent"] > last
            last, said = said["percent"], json.loads(await line.socket.recv())
        assert (last, said["code"]) == (100.0, 5)
        await line.socket.recv()
        await line.say(code=7, job="22.1", accepted=True)

    play(count, listen)


def test_a_server_of_protocol_1_is_a_clear_error() -> None:
    async def nothing(line: Line) -> None:
        await line.socket.wait_closed()

    with pytest.raises(BadInput, match="--protocol 1"):
        play(reverse, nothing, protocol=None)


def test_a_token_that_is_refused_ends_the_worker() -> None:
    async def refuse(line: Line) -> None:
        await line.hear(0)
        await line.socket.close(1008, "the token is not one of a worker for these jobs")

    with pytest.raises(NotAuthenticated, match="token"):
        play(reverse, refuse, refuse)
