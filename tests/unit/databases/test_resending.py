"""A unit without an answer is neither failed nor new: the next connection to an owner gets the same unit again."""

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ganger.databases.sqlite.wire import Call, Frame, Hello, Parser, Reply, Welcome, pack
from tests.unit.databases.counter import Line, opened


@contextlib.contextmanager
def owning(path: Path) -> Iterator[socket.socket]:
    """Hold the seat of a file, and listen as its owner does."""
    lock = os.open(f"{path}-owner", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}-socket")
        listener.listen()
        listener.settimeout(60)
        yield listener
    os.close(lock)


class Visit:
    """One connection of a client, which is greeted and then heard."""

    def __init__(self, listener: socket.socket) -> None:
        self.sock, _ = listener.accept()
        self.sock.settimeout(60)
        self._parser = Parser(1 << 20)
        self._heard: list[Frame] = []
        assert isinstance(self.hear(), Hello)
        self.sock.sendall(pack(Welcome(1, 1)))

    def hear(self) -> Frame:
        while not self._heard:
            data = self.sock.recv(1 << 16)
            assert data, "the client is gone"
            self._heard = self._parser.feed(data)
        return self._heard.pop(0)

    def hear_call(self) -> Call:
        heard = self.hear()
        assert isinstance(heard, Call)
        return heard


def die_and_come_back(listener: socket.socket) -> tuple[Call, Call]:
    """Take a unit and be gone without an answer; then answer it."""
    with (died := Visit(listener)).sock:
        first = died.hear_call()
    with (back := Visit(listener)).sock:
        second = back.hear_call()
        back.sock.sendall(pack(Reply(second.slot, second.seq, msgspec.Raw(b"\x07"))))
        back.hear()
    return first, second


def test_a_unit_without_an_answer_is_sent_again_as_the_same_unit(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def scenario(listener: socket.socket) -> tuple[Call, Call]:
        talk = asyncio.create_task(asyncio.to_thread(die_and_come_back, listener))
        async with opened(path) as client:
            assert await client.call("submit", Line("ada", 1)) == 7
        return await talk

    with owning(path) as listener:
        first, second = asyncio.run(scenario(listener))
    assert (first.again, second.again) == (False, True)
    assert (second.slot, second.seq, second.operation) == (first.slot, first.seq, first.operation)
    assert bytes(second.body) == bytes(first.body)
