"""Who may command: the node with the highest epoch, over a socket that only its own user can reach.

A node that was stopped and comes back finds that another has taken over: its connection was closed, and it is refused
when it connects again. So no order of a former node is followed, whenever it arrives.
"""

import os
import socket
import struct
from collections.abc import Callable
from typing import Final

from ganger.node.guardian.loop import IN, OUT, Eyes
from ganger.node.guardian.messages import (
    BadFrame,
    Frames,
    FromGuardian,
    FromNode,
    Grew,
    Hello,
    Listing,
    Order,
    Ping,
    Pong,
    Refused,
    Welcome,
    agree,
    pack,
    read_from_node,
)

_CHUNK: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("3i")
_PATIENCE: Final = 1 << 20
"""With so much unsent, a node that does not read is not told how streams grow: the newest state is enough later."""

Take = Callable[[Order], None]


class Peer:
    """A connection, master or not yet."""

    def __init__(self, sock: socket.socket, eyes: Eyes, take: "Callable[[Peer, list[FromNode]], None]") -> None:
        sock.setblocking(False)
        self._sock = sock
        self._eyes = eyes
        self._take = take
        self._frames = Frames()
        self._unsent = bytearray()
        self._is_blocked = False
        self.is_open = True
        eyes.watch(sock.fileno(), self._talk)

    @property
    def is_behind(self) -> bool:
        return len(self._unsent) > _PATIENCE

    def send(self, messages: list[FromGuardian]) -> None:
        if self.is_open:
            self._unsent += pack(messages)
            self._flush()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._eyes.unwatch(self._sock.fileno())
            self._sock.close()

    def _talk(self) -> None:
        self._flush()
        if self.is_open:
            self._hear()

    def _hear(self) -> None:
        try:
            data = self._sock.recv(_CHUNK)
            bodies = self._frames.feed(data)
            messages = [message for body in bodies for message in read_from_node(body)]
        except BlockingIOError:
            return
        except (OSError, BadFrame):
            # Whoever breaks the protocol or the connection says hello again; what runs does not depend on it.
            data = b""
        if data:
            self._take(self, messages)
        else:
            self.close()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            self._wait_to_send(True)
        except OSError:
            self.close()
        else:
            self._wait_to_send(False)

    def _wait_to_send(self, is_blocked: bool) -> None:
        if self._is_blocked != is_blocked:
            self._is_blocked = is_blocked
            self._eyes.watch(self._sock.fileno(), self._talk, IN | OUT if is_blocked else IN)


class Door:
    """Listens, lets one master in, and carries its orders to whoever takes them."""

    def __init__(self, listener: socket.socket, eyes: Eyes, cgroups: bool) -> None:
        self._listener = listener
        self._eyes = eyes
        self._cgroups = cgroups
        self._take: Take = _ignore
        self._list: Callable[[], Listing] = _list_nothing
        self._epoch = -1
        self._master: Peer | None = None
        self._out: list[FromGuardian] = []
        listener.setblocking(False)
        eyes.watch(listener.fileno(), self._accept)

    def serve(self, take: Take, listing: Callable[[], Listing]) -> None:
        self._take, self._list = take, listing

    @property
    def has_master(self) -> bool:
        return self._master is not None and self._master.is_open

    @property
    def has_news(self) -> bool:
        return bool(self._out)

    def tell(self, message: FromGuardian) -> None:
        """Goes out with the next `flush`; with nobody there it is dropped, and the next master gets a listing."""
        if self._master is None or not self._master.is_open:
            return
        if not (self._master.is_behind and isinstance(message, Grew)):
            self._out.append(message)

    def flush(self) -> None:
        out, self._out = self._out, []
        if out and self._master is not None:
            self._master.send(out)

    def close(self) -> None:
        self._eyes.unwatch(self._listener.fileno())
        self._listener.close()
        if self._master is not None:
            self._master.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        if _is_ours(sock):
            Peer(sock, self._eyes, self._hear)
        else:
            sock.close()

    def _hear(self, peer: Peer, messages: list[FromNode]) -> None:
        for message in messages:
            if isinstance(message, Hello):
                self._greet(peer, message)
            elif peer is self._master:
                self._serve(message)
            else:
                peer.close()

    def _serve(self, message: Ping | Order) -> None:
        if isinstance(message, Ping):
            self.tell(Pong())
        else:
            self._take(message)

    def _greet(self, peer: Peer, hello: Hello) -> None:
        protocol = agree(hello.newest, hello.oldest)
        if protocol is None:
            self._refuse(peer, "protocol", f"the guardian does not speak protocol {hello.oldest} to {hello.newest}")
        elif hello.epoch < self._epoch:
            self._refuse(peer, "epoch", f"a node with epoch {self._epoch} has taken over from {hello.epoch}")
        else:
            self._crown(peer, hello.epoch, protocol)

    def _refuse(self, peer: Peer, why: str, text: str) -> None:
        peer.send([Refused(why, text)])
        peer.close()

    def _crown(self, peer: Peer, epoch: int, protocol: int) -> None:
        former, self._master = self._master, peer
        if former is not None and former is not peer:
            self._refuse(former, "epoch", f"a node with epoch {epoch} has taken over from {self._epoch}")
        self._epoch = epoch
        self._out.clear()
        peer.send([Welcome(epoch, protocol, os.getpid(), self._cgroups), self._list()])


def _is_ours(sock: socket.socket) -> bool:
    """The folder lets nobody else in; this is for a folder whose permissions somebody has loosened."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] in (0, os.geteuid())


def _ignore(order: Order) -> None:
    """Nobody takes orders before `serve`."""


def _list_nothing() -> Listing:
    return Listing([], [])
