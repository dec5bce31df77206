"""Connections are counted by their address, and refused where they come in."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import pytest

from ganger.faces.http.gate import Crowd, Gate, name_peer
from ganger.faces.http.limits import HttpLimits
from ganger.runtime.descriptors import bound_files, count_files, raise_files
from ganger.runtime.telemetry import SILENT
from ganger.runtime.tuning import make_serving_loop

OF_EACH = 3
FEW = HttpLimits(connections=8, of_address=OF_EACH)
ONE, OTHER = "127.0.0.1", "127.0.0.2"
PATIENCE = 60.0


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is none of asyncio's.
        transport = cast(asyncio.WriteTransport, transport)
        transport.write(b"hello")


class Place:
    """A gate on a port of its own, and clients from any address of loopback."""

    def __init__(self) -> None:
        self._sock = socket.create_server((ONE, 0))
        self._sock.setblocking(False)
        self._gate = Gate(self._sock, Greeting, None, FEW, SILENT)
        self._gate.open()

    async def come(self, source: str) -> socket.socket | None:
        """A connection on which the gate was heard; None for who is refused."""
        loop, line = asyncio.get_running_loop(), socket.socket()
        line.setblocking(False)
        line.bind((source, 0))
        try:
            await loop.sock_connect(line, self._sock.getsockname())
            heard = await loop.sock_recv(line, 5)
        except ConnectionError:
            heard = b""
        if heard:
            return line
        line.close()
        return None

    async def wait_for(self, source: str) -> socket.socket:
        """One from there, as soon as one is let in."""
        async with asyncio.timeout(PATIENCE):
            while (line := await self.come(source)) is None:
                continue
        return line

    async def close(self, lines: list[socket.socket]) -> None:
        for line in lines:
            line.close()
        # Until the gate has seen that they are gone.
        (await self.wait_for(ONE)).close()
        self._gate.close()
        self._sock.close()


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, make_serving_loop])
@pytest.mark.timeout(120)
def test_one_address_has_so_many_connections_and_others_are_served(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        place = Place()
        held = [line for line in [await place.come(ONE) for _ in range(OF_EACH + 1)] if line is not None]
        other = await place.come(OTHER)
        assert (len(held), other is not None) == (OF_EACH, True)

        held.pop().close()
        held += [await place.wait_for(ONE), *([other] if other is not None else [])]
        await place.close(held)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scenario())


def test_the_highest_descriptors_are_left_to_others() -> None:
    crowd = Crowd(HttpLimits(), 100)

    assert not crowd.admit(ONE, 75)
    assert crowd.admit(ONE, 74)


def test_one_address_never_has_more_than_half_of_what_there_is() -> None:
    crowd = Crowd(HttpLimits(), 1_000)

    assert sum(crowd.admit(ONE, 10) for _ in range(1_000)) == 375
    assert crowd.admit(OTHER, 10)
    crowd.leave(ONE)
    assert crowd.admit(ONE, 10)


def test_there_are_never_more_than_all() -> None:
    crowd = Crowd(HttpLimits(connections=10), 1_000)

    assert sum(crowd.admit(f"10.0.0.{host}", 10) for host in range(20)) == 10


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.1.2.3", 5), "10.1.2.3"),
        (("::ffff:10.1.2.3", 5, 0, 0), "10.1.2.3"),
        (("2001:db8::1", 5, 0, 0), "2001:db8::/64"),
        (("2001:db8::ffff:1", 5, 0, 0), "2001:db8::/64"),
        (("fe80::1%lo", 5, 0, 1), "fe80::/64"),
        ("", ""),
    ],
)
def test_addresses_that_one_client_may_have_count_as_one(address: object, peer: str) -> None:
    assert name_peer(address) == peer


def test_the_bound_on_files_is_raised_and_can_be_given_back() -> None:
    before = count_files()
    bound_files(before - 100)
    try:
        assert raise_files() == before - 100
        assert count_files() >= before
    finally:
        bound_files(before)
