"""The life of a node's process: what signals, an operator's drain and the service manager make of it.

| signal | means |
|---|---|
| INT, TERM | drain: take nothing new, finish what runs, end; a second one ends what runs |
| USR1 | end now and leave commands running: the next node of this name goes on with them |
| HUP | the same, and start anew in place, with the program as it is installed now |

A terminal that is closed sends HUP too: then nobody wants a new process, and it is taken for USR1.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Final

from ganger.cli.printing import tell

if TYPE_CHECKING:
    from ganger.assembly.settings import Settings
    from ganger.node.node import Node
    from ganger.runtime.notify import Notifier


class Ending(Enum):
    """How the process ends: it has drained, it leaves what runs, or it leaves it and starts anew."""

    DRAIN = "drain"
    LEAVE = "leave"
    RESTART = "restart"


_LEAVING: Final = frozenset({Ending.LEAVE, Ending.RESTART})


class Calls:
    """The signals that came, in their order."""

    def __init__(self) -> None:
        self._came: asyncio.Queue[Ending] = asyncio.Queue()
        self._had_terminal = sys.stderr.isatty()

    def heed(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._came.put_nowait, Ending.DRAIN)
        loop.add_signal_handler(signal.SIGUSR1, self._came.put_nowait, Ending.LEAVE)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def _hang_up(self) -> None:
        is_closed = self._had_terminal and not sys.stderr.isatty()
        self._came.put_nowait(Ending.LEAVE if is_closed else Ending.RESTART)

    async def next(self, or_until: Awaitable[object]) -> Ending | None:
        """The next signal; None if what is awaited besides came first."""
        coming = asyncio.ensure_future(self._came.get())
        other = asyncio.ensure_future(or_until)
        try:
            await asyncio.wait([coming, other], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not coming.done():
                coming.cancel()
        return coming.result() if coming.done() and not coming.cancelled() else None


async def serve(node: "Node", calls: Calls, notifier: "Notifier") -> Ending:
    """Let the node work until somebody wants its end, and see it through."""
    notifier.tell("READY=1", "STATUS=takes tasks")
    first = await calls.next(node.retired.wait())
    if first is not None and first in _LEAVING:
        return await _leave(node, first, notifier)
    notifier.tell("STOPPING=1", "STATUS=finishes what runs")
    say("finishing what runs; press Ctrl-C again to end it now" if first else "an operator drained it: it ends")
    draining = asyncio.ensure_future(node.drain())
    second = await calls.next(draining)
    if second is not None and second in _LEAVING:
        return await _leave(node, second, notifier)
    if second is None:
        await draining
    else:
        say("ending what runs; it goes back to its queues")
        await node.stop()
    return Ending.DRAIN


async def _leave(node: "Node", ending: Ending, notifier: "Notifier") -> Ending:
    notifier.tell("STATUS=starts anew" if ending is Ending.RESTART else "STOPPING=1")
    say("starting anew; commands run on" if ending is Ending.RESTART else "ending; commands run on, for the next node")
    await node.stop(leave_running=True)
    return ending


def say(message: str) -> None:
    """A message for whoever watches; a terminal that was closed has nobody who does."""
    with suppress(OSError):
        tell(message)


class Doorstep:
    """The socket of the server, kept for the program that starts anew in this process."""

    def __init__(self) -> None:
        self._number: int | None = None
        self.files: int | None = None

    @contextmanager
    def bind(self, settings: "Settings", *, insecure: bool) -> Iterator[socket.socket]:
        """The socket on which the server listens; its address stays taken until the process ends.

        From now on this process may have as many files open as the machine allows; `files` is how many it was before.
        """
        from ganger.assembly.listening import bind_server
        from ganger.runtime.descriptors import raise_files

        with bind_server(settings, insecure=insecure) as sock:
            self.files = raise_files()
            self._number = os.dup(sock.fileno())
            yield sock

    def start_anew(self, execute: Callable[[str, list[str], dict[str, str]], object]) -> None:
        """Put the program, as it is installed now, in the place of this process: same number, arguments and folder."""
        from ganger.assembly.listening import leave_socket
        from ganger.assembly.settings import find_surroundings
        from ganger.runtime.descriptors import bound_files

        if self.files is not None:
            bound_files(self.files)
        left = {} if self._number is None else leave_socket(self._number)
        execute(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**find_surroundings(), **left})
