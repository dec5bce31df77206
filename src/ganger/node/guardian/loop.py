"""The guardian's eyes: descriptors that are watched, and what is done when one has something to say."""

import select
import signal
import socket
from collections.abc import Callable
from typing import Final

IN: Final = select.EPOLLIN
OUT: Final = select.EPOLLOUT
ONCE: Final = select.EPOLLIN | select.EPOLLONESHOT

Handler = Callable[[], None]


class Eyes:
    """A thin epoll. Signals come in as bytes on a socket, so that none is lost between two looks."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._inlet, self._outlet = socket.socketpair()
        self._signals: set[int] = set()

    def catch(self, *numbers: signal.Signals) -> None:
        for end in (self._inlet, self._outlet):
            end.setblocking(False)
        signal.set_wakeup_fd(self._outlet.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _note)
        self.watch(self._inlet.fileno(), self._take_signals)

    def watch(self, fd: int, handler: Handler, events: int = IN) -> None:
        if fd in self._handlers:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        """Call it before the descriptor is closed. A program that is being started may hold a copy for a moment longer,
        and as long as it does the kernel would go on to tell of it.
        """
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def let_go(self, fd: int) -> None:
        """End the watch of a descriptor that was watched `ONCE` and has spoken: it is silent until it is closed."""
        self._handlers.pop(fd, None)

    def look(self, timeout: float) -> set[int]:
        """Wait for something to happen, and have it handled. Returns the signals that came."""
        for fd, _ in self._epoll.poll(timeout):
            # A handler may have ended the watch of one that comes after it.
            handler = self._handlers.get(fd)
            if handler is not None:
                handler()
        came, self._signals = self._signals, set()
        return came

    def _take_signals(self) -> None:
        self._signals |= set(self._inlet.recv(4096))

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._epoll.close()
        self._inlet.close()
        self._outlet.close()


def _note(number: int, frame: object) -> None:
    """The byte on the socket says it; a handler must be there for it to be sent."""
