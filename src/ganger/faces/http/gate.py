"""Where connections come in: they are counted by the address that they come from, and refused before they cost much.

What can go wrong, and why this is right:

- *One address opens connections without end*, and says nothing on them. Each address has so many and no more; whoever
  comes beyond that is closed in the moment in which the kernel hands it over, before there is a buffer, a handshake or
  a clock for it. All others are served as if it were not there.
- *Many addresses are one client's.* An IPv6 client has a whole /64 for itself: that counts as one address.
- *The descriptors are used up*, and the node and the store in this process cannot open a file any more. The kernel
  gives the lowest number that is free: a connection that was given one of the highest is refused, so those are left.
- *A handshake of TLS is never finished*, or a websocket takes the connection over. What is counted is the socket, from
  the accept until it is closed, whoever has it by then.
- *A storm of connections keeps the loop from all else.* Only a few are taken in one turn of it.
"""

import asyncio
import ipaddress
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from ganger.faces.http.limits import HttpLimits
from ganger.runtime.descriptors import count_files
from ganger.runtime.telemetry import Telemetry

_AT_ONCE: Final = 16
_RESERVE: Final = 1_024
"""So many descriptors are left to the node and the store, or a quarter of all if that is less."""

_PAUSE: Final = 0.1
"""Seconds until the next try, if there was no descriptor at all."""

_TELL: Final = 10.0
"""Seconds between two words about refusals."""

_RESET: Final = struct.pack("ii", 1, 0)
_WIDE: Final = 64


class Line(socket.socket):
    """An accepted connection that says once that it is closed. Some loops close its descriptor themselves: they detach
    it when they do.
    """

    closed: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        self._tell()

    def detach(self) -> int:
        number = super().detach()
        self._tell()
        return number

    def _tell(self) -> None:
        told, self.closed = self.closed, None
        if told is not None:
            told()


def name_peer(address: Any) -> str:
    """What counts as one address: an IPv4 address, or the /64 in which an IPv6 address lies."""
    host = str(address[0]).partition("%")[0] if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return host
    found = ipaddress.IPv6Address(host)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((found, _WIDE), strict=False))


class Crowd:
    """How many connections there are, of each address and in all. `highest`: descriptors from there on stay free."""

    def __init__(self, limits: HttpLimits, files: int) -> None:
        self.highest = files - min(_RESERVE, files // 4)
        self.most = min(limits.connections, self.highest)
        self.of_each = min(limits.of_address, self.most // 2)
        self._here: Counter[str] = Counter()
        self._all = 0

    def admit(self, peer: str, number: int) -> bool:
        """May one with this descriptor come in? If so it is counted."""
        if self._all >= self.most or number >= self.highest or self._here[peer] >= self.of_each:
            return False
        self._here[peer] += 1
        self._all += 1
        return True

    def leave(self, peer: str) -> None:
        self._all -= 1
        self._here[peer] -= 1
        if not self._here[peer]:
            del self._here[peer]


class Gate:
    """Takes connections from a socket that listens, for protocols that `make` makes, between `open` and `close`."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        limits: HttpLimits,
        telemetry: Telemetry,
    ) -> None:
        self._sock = sock
        self._make = make
        self._tls = tls
        self._patience = limits.head_time
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self._crowd = Crowd(limits, count_files())
        self._beginning: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._refused: Counter[str] = Counter()

    def open(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        if self._later is not None:
            self._later.cancel()
        for task in self._beginning:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                came, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            peer = name_peer(address)
            if self._crowd.admit(peer, came.fileno()):
                self._let_in(came, peer)
            else:
                self._refuse(came, peer)

    def _rest(self, error: OSError) -> None:
        """There is no descriptor, or no memory: those who wait are not gone, and it does not help to look at once."""
        self._telemetry.event("accept_failed", error=str(error))
        self._loop.remove_reader(self._sock)
        self._later = self._loop.call_later(_PAUSE, self.open)

    def _refuse(self, came: socket.socket, peer: str) -> None:
        # A reset leaves nothing of it, not even a connection that waits for its last packets.
        came.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        came.close()
        self._note(peer)

    def _let_in(self, came: socket.socket, peer: str) -> None:
        line = Line(came.family, came.type, came.proto, fileno=came.detach())
        line.closed = lambda: self._crowd.leave(peer)
        line.setblocking(False)
        task = self._loop.create_task(self._begin(line))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, line: Line) -> None:
        patience = None if self._tls is None else self._patience
        try:
            await self._loop.connect_accepted_socket(self._make, line, ssl=self._tls, ssl_handshake_timeout=patience)
        except OSError:
            # It has gone, or does not speak TLS: nobody is there to be told.
            line.close()
        except BaseException:
            line.close()
            raise

    def _note(self, peer: str) -> None:
        """Refusals are told together, every few seconds at most."""
        if not self._refused:
            self._loop.call_later(_TELL, self._tell)
            self._telemetry.event("connections_refused", number=1, peer=peer, limit=self._crowd.of_each)
        self._refused[peer] += 1

    def _tell(self) -> None:
        peer = self._refused.most_common(1)[0][0]
        self._telemetry.event("connections_refused", number=self._refused.total(), peer=peer, limit=self._crowd.of_each)
        self._refused.clear()
