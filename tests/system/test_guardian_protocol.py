"""Nodes and guardians of other versions, and strangers: what they say to each other, byte for byte."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ganger.core.errors import FormatTooNew
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.messages import (
    PROTOCOL,
    End,
    Forget,
    Frames,
    FromGuardian,
    Hello,
    Listing,
    Ping,
    Pong,
    Refused,
    Start,
    Started,
    Stop,
    Welcome,
    pack,
    read_from_guardian,
)
from tests.unit.node.guarded import (
    assign,
    begin,
    command,
    is_alive,
    make_executor,
    survivors,
    sweep,
)


class Foreigner:
    """A node of another version: it speaks the protocol by hand."""

    def __init__(self, folder: Path) -> None:
        self._sock = RunFolder(str(folder / "run")).connect()
        self._sock.settimeout(60)
        self._frames = Frames()
        self._heard: list[FromGuardian] = []

    def say(self, raw: bytes) -> None:
        self._sock.sendall(raw)

    def hear(self) -> FromGuardian | None:
        while not self._heard:
            data = self._sock.recv(1 << 16)
            if not data:
                return None
            self._heard = [message for body in self._frames.feed(data) for message in read_from_guardian(body)]
        return self._heard.pop(0)

    def close(self) -> None:
        self._sock.close()


@asynccontextmanager
async def foreigner(folder: Path) -> AsyncIterator[Foreigner]:
    """Beside a guardian that another node has started and left."""
    first = make_executor(folder, linger=30_000)
    await begin(first, assign(1, command("sleep", "1000")))
    await first.close(leave_running=True)
    made = Foreigner(folder)
    try:
        yield made
    finally:
        made.close()
        sweep(folder)


def test_a_start_is_answered_by_the_beginning_of_what_lasts_and_by_the_end_of_what_does_not(tmp_path: Path) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as other:
            other.say(pack([Hello(5)]) + pack([Start(2, 1, ["sleep", "1000"], {}, "/", 1 << 60)]))
            assert isinstance(other.hear(), Welcome)
            assert isinstance(other.hear(), Listing)
            begun = other.hear()
            assert isinstance(begun, Started)
            assert begun.task == 2
            assert is_alive(begun.pid)
            other.say(pack([Start(3, 1, ["true"], {}, "/", 1 << 60)]))
            news = [other.hear()]
            if isinstance(news[0], Started):
                news.append(other.hear())
            assert [getattr(it, "task", None) for it in news] == [3] * len(news)
            assert isinstance(news[-1], End)
            other.say(pack([Start(3, 1, ["true"], {}, "/", 1 << 60)]))
            assert other.hear() == news[-1]

    asyncio.run(check())


def test_an_order_waits_for_room_behind_those_before_it_and_can_be_taken_back(tmp_path: Path) -> None:
    def order(task: int, *argv: str) -> Start:
        return Start(task, 1, list(argv), {}, "/", 1 << 60, room=2)

    async def check() -> None:
        async with foreigner(tmp_path) as other:
            other.say(pack([Hello(5)]))
            assert isinstance(other.hear(), Welcome)
            assert isinstance(other.hear(), Listing)
            other.say(pack([order(2, "sleep", "1000"), order(3, "true"), order(4, "sleep", "1000"), order(5, "true")]))
            begun = other.hear()
            assert isinstance(begun, Started)
            assert begun.task == 2
            other.say(pack([Stop(4, 1, "shutdown", unbegun=True), Stop(2, 1, unbegun=True)]) + pack([Ping()]))
            taken_back, pong = other.hear(), other.hear()
            assert isinstance(taken_back, End)
            assert (taken_back.task, taken_back.why, taken_back.code) == (4, "shutdown", None)
            assert isinstance(pong, Pong)
            assert is_alive(begun.pid)
            other.say(pack([Stop(2, 1)]))
            ends: list[End] = []
            while len(ends) < 3:
                news = other.hear()
                if isinstance(news, End):
                    ends.append(news)
            assert [(it.task, it.why) for it in ends] == [(2, "stop"), (3, "exit"), (5, "exit")]

    asyncio.run(check())


def test_a_newer_node_and_this_guardian_speak_the_older_protocol(tmp_path: Path) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as newer:
            newer.say(_pack_map({"type": "hello", "epoch": 5, "newest": PROTOCOL + 1, "oldest": 1, "colour": "blue"}))
            welcome, listing = newer.hear(), newer.hear()
            assert isinstance(welcome, Welcome)
            assert welcome.protocol == PROTOCOL
            assert isinstance(listing, Listing)
            assert [(it.task, it.fence) for it in listing.running] == [(1, 1)]
            newer.say(_pack_map({"type": "stop", "task": 1, "fence": 1, "text": "enough", "urgency": 9}))
            ended = newer.hear()
            assert getattr(ended, "why", None) == "stop"

    asyncio.run(check())


def _pack_map(message: dict[str, object]) -> bytes:
    import msgspec

    body = msgspec.msgpack.encode([message])
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("hello", [Hello(5, newest=PROTOCOL + 2, oldest=PROTOCOL + 1), Hello(5, newest=0, oldest=0)])
def test_a_node_without_a_common_protocol_is_refused_and_nothing_is_touched(tmp_path: Path, hello: Hello) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as other:
            other.say(pack([hello]))
            refused = other.hear()
            assert isinstance(refused, Refused)
            assert refused.why == "protocol"
            assert other.hear() is None
            assert survivors(tmp_path)

    asyncio.run(check())


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",
        pack([Stop(1, 1)]),
        pack([Start(2, 1, ["true"], {}, "/", 1 << 60)]) + pack([Forget([(1, 1)])]),
    ],
)
def test_whoever_does_not_say_hello_is_shown_the_door(tmp_path: Path, raw: bytes) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as other:
            other.say(raw)
            with suppress(ConnectionResetError):
                assert other.hear() is None
            assert survivors(tmp_path)

    asyncio.run(check())


async def serve_once(folder: Path, answer: bytes) -> socket.socket:
    """A guardian of another version: it answers the first hello with these bytes."""
    RunFolder(str(folder / "run")).prepare(os.urandom)
    (folder / "run" / "journal").touch()
    listener = RunFolder(str(folder / "run")).listen()
    listener.setblocking(False)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(listener)
        await loop.sock_recv(sock, 1 << 16)
        await loop.sock_sendall(sock, answer)
        await loop.sock_recv(sock, 1 << 16)
        sock.close()

    asyncio.get_running_loop().create_task(serve(), name="another guardian").add_done_callback(lambda _: None)
    return listener


def test_this_node_and_another_guardian_speak_the_older_protocol(tmp_path: Path) -> None:
    async def check() -> None:
        welcome = {"type": "welcome", "epoch": 1, "protocol": 1, "pid": 7, "mood": "fine"}
        running = {"task": 3, "fence": 4, "pid": 9, "serial": 1, "mood": "fine"}
        frame = _pack_map(welcome) + _pack_map({"type": "listing", "running": [running], "ended": [], "lost": []})
        listener = await serve_once(tmp_path, frame)
        made = make_executor(tmp_path, slots=2)
        (adopted,) = await made.adopt()
        assert (adopted.task, adopted.fence, adopted.pid) == (3, 4, 9)
        assert made.ahead == 0
        await made.close(leave_running=True)
        listener.close()

    asyncio.run(check())


def test_a_guardian_that_refuses_the_protocol_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def check() -> None:
        listener = await serve_once(tmp_path, pack([Refused("protocol", "no common protocol")]))
        with pytest.raises(FormatTooNew, match="no common protocol"):
            await make_executor(tmp_path).adopt()
        listener.close()

    asyncio.run(check())
