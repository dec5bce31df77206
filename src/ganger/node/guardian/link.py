"""The node's end of the connection to its guardian."""

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, cast

from ganger.core.errors import FormatTooNew, GangerError, NodeGone
from ganger.node.guardian.messages import (
    BadFrame,
    Frames,
    FromGuardian,
    FromNode,
    Hello,
    Ping,
    Refused,
    Welcome,
    pack,
    read_from_guardian,
)

_PATIENCE: Final = 20.0
_BEATS: Final = 4
_CREDENTIALS: Final = struct.Struct("3i")


class Link(asyncio.Protocol):
    """Frames in and out. `lost` is done when the connection is; `protocol` is what both sides speak."""

    def __init__(self, hear: Callable[[Sequence[FromGuardian]], None], lose: "Callable[[Link], None]") -> None:
        loop = asyncio.get_running_loop()
        self._hear = hear
        self._lose = lose
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._greeted: asyncio.Future[Welcome] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._refused: GangerError | OSError | None = None
        self.is_silent = False
        self.protocol = 0

    async def greet(self, hello: Hello) -> None:
        """NodeGone: another node is master. FormatTooNew: there is no common protocol. OSError: nobody is there.

        A guardian that does not answer is put down. It may say welcome and send us away before we have heard either.
        """
        self.send([hello])
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._greeted
        except TimeoutError:
            self.put_down()
            raise
        if self._refused is not None:
            raise self._refused
        if self.lost.done():
            raise ConnectionResetError("the guardian hung up")

    async def watch(self, beat: float) -> None:
        """Return when the guardian has said nothing for several beats. What lay unread while this process was stopped
        is read before the next one.
        """
        missed = 0
        while missed < _BEATS:
            self.is_silent = True
            self.send([Ping()])
            await asyncio.sleep(beat)
            missed = missed + 1 if self.is_silent else 0

    def put_down(self) -> None:
        """Kill the guardian: one that is stopped keeps no lease and tells no end. The next one clears up after it."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is not None:
            pid, _, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def send(self, messages: Sequence[FromNode]) -> bool:
        """False if the connection is no more."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(pack(messages))
        return True

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.is_silent = False
        try:
            messages = [message for body in self._frames.feed(data) for message in read_from_guardian(body)]
        except BadFrame:
            # A new connection begins with a listing, so nothing that was lost here stays unknown.
            return self.close()
        if messages and not self._greeted.done():
            self._answer(messages[0])
        self._refused = next((_explain(message) for message in messages if isinstance(message, Refused)), self._refused)
        return self._hear(messages)

    def _answer(self, first: FromGuardian) -> None:
        if isinstance(first, Welcome):
            self.protocol = first.protocol
            self._greeted.set_result(first)
        else:
            self._refuse(_explain(first))

    def _refuse(self, error: Exception) -> None:
        self._greeted.set_exception(error)
        # The one who greets may have stopped waiting.
        self._greeted.exception()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._greeted.done():
            self._refuse(ConnectionResetError("the guardian hung up"))
        self.lost.set_result(None)
        self._lose(self)


def _explain(first: FromGuardian) -> GangerError | OSError:
    if not isinstance(first, Refused):
        return ConnectionResetError("the guardian did not say welcome")
    return FormatTooNew(first.text) if first.why == "protocol" else NodeGone(first.text)
