"""A connected unix socket that carries frames and never blocks."""

import array
import os
import socket
from typing import Final

from ganger.databases.sqlite.wire import Frame, Parser, pack

_CHUNK: Final = 1 << 16
_CLOEXEC: Final[int] = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_MOST_DESCRIPTORS: Final = 4


class Gone(Exception):
    """The other side is not there any more."""


class Stream:
    """Frames out are kept until the socket takes them; frames in come as they are complete."""

    __slots__ = ("_out", "_parser", "descriptors", "sock")

    def __init__(self, sock: socket.socket, largest: int) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.descriptors: list[int] = []
        self._parser = Parser(largest + 4096)
        self._out = bytearray()

    @property
    def unsent(self) -> int:
        return len(self._out)

    def add(self, frame: Frame) -> None:
        """Put a frame behind what is not sent yet; `flush` sends."""
        self._out += pack(frame)

    def add_packed(self, frame: bytes) -> None:
        """As `add`, of one that is packed already."""
        self._out += frame

    def flush(self) -> bool:
        """Send what the socket takes; True when nothing is left."""
        try:
            while self._out:
                del self._out[: self.sock.send(self._out[: 16 * _CHUNK] if len(self._out) > 16 * _CHUNK else self._out)]
        except BlockingIOError:
            return False
        except OSError as error:
            raise Gone(str(error)) from error
        return True

    def receive(self) -> list[Frame]:
        """The frames that came in; nothing if there was nothing to read. Malformed bytes raise."""
        try:
            data = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Gone(str(error)) from error
        return self._take(data)

    def receive_with_descriptors(self) -> list[Frame]:
        """As `receive`, and descriptors that came along are kept in `descriptors`."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(_CHUNK, socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4), _CLOEXEC)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Gone(str(error)) from error
        for level, kind, carried in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._keep(carried)
        return self._take(data)

    def _keep(self, carried: bytes) -> None:
        received = array.array("i")
        received.frombytes(carried[: len(carried) - len(carried) % received.itemsize])
        for descriptor in received:
            os.set_inheritable(descriptor, False)
            self.descriptors.append(descriptor)

    def _take(self, data: bytes) -> list[Frame]:
        if not data:
            raise Gone("the connection was closed")
        return self._parser.feed(data)

    def close(self) -> None:
        """Idempotent. Descriptors that nobody took are closed too."""
        self.sock.close()
        while self.descriptors:
            os.close(self.descriptors.pop())
