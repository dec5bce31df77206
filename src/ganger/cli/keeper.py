"""The process that runs a command under a lock, and ends it with all that it has started when the lock is lost.

It is apart from the one that holds the lock, since that one may be killed or stopped, and then could end nothing. It
is told again and again until when the lock is trusted, by the boot clock that both share, and does not wait to be told
that it is lost: when the last moment that it heard of has come, or nobody is there any more to tell it another, it
kills everything below it. It is the subreaper of all that, so that nothing gets away.

It is forked before there are threads and loops, and speaks lines of JSON over a pair of sockets.
"""

import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from ganger.core.clock import Clock

_DEATH_SIGNAL: Final = 1
_SIGNALLED: Final = 128
_LINUX: Final = sys.platform == "linux"
_LONGEST: Final = 1.0
_AGAIN: Final = 0.02


def fork_keeper(clock: Clock) -> socket.socket:
    """Start the keeper; the socket by which it is told. Only where there are no threads yet."""
    here, there = socket.socketpair()
    if os.fork():
        there.close()
        return here
    here.close()
    try:
        _Keeper(there, clock).run()
    finally:
        os._exit(_SIGNALLED)


class _Keeper:
    def __init__(self, link: socket.socket, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._unread = b""
        self._trusted = 0
        self._command: subprocess.Popen[bytes] | None = None
        self._woken = self._hear_signals()

    def _hear_signals(self) -> int:
        """A terminal's Ctrl-C, and a TERM for all of a group, are for the command: handlers end with its exec."""
        woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        return woken

    def run(self) -> NoReturn:
        if _LINUX:
            from ganger.node.isolation import become_subreaper

            become_subreaper()
        while True:
            left = (self._trusted - self._clock.now()) / 1_000 if self._command is not None else _LONGEST
            if left <= 0:
                self._end({"lost": True})
            watched: list[Any] = [self._link, self._woken]
            ready, _, _ = select.select(watched, [], [], min(left, _LONGEST))
            if self._woken in ready:
                os.read(self._woken, 4_096)
            if self._link in ready:
                self._hear()
            if self._command is not None and (code := self._command.poll()) is not None:
                self._tell({"code": code if code >= 0 else _SIGNALLED - code})
                os._exit(0)

    def _hear(self) -> None:
        part = self._link.recv(1 << 16)
        if not part:
            self._end(None)
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, said: Mapping[str, Any]) -> None:
        self._trusted = said.get("trusted", self._trusted)
        if "run" in said:
            self._start(said["run"], said["environment"])
        if "signal" in said and self._command is not None:
            self._command.send_signal(said["signal"])

    def _start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            # There are no threads in this process.
            self._command = subprocess.Popen(command, env=environment, preexec_fn=_die_with_parent())  # noqa: PLW1509
        except OSError as error:
            said = "there is no such program" if error.errno == errno.ENOENT else error.strerror
            self._tell({"failed": said})
            os._exit(0)

    def _end(self, said: Mapping[str, Any] | None) -> NoReturn:
        """Kill everything below, until nothing is left, and say so."""
        while self._command is not None and self._kill():
            select.select([self._woken], [], [], _AGAIN)
        if said is not None:
            self._tell(said)
        os._exit(0)

    def _kill(self) -> bool:
        """Kill what is there, and bury the dead; False if nothing is left."""
        if not _LINUX and self._command is not None:
            self._command.kill()
            return self._command.wait() is None
        from ganger.node.guardian.tree import kill_tree, read_children

        kill_tree(read_children(os.getpid()), os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return False
        return True

    def _tell(self, said: Mapping[str, Any]) -> None:
        try:
            self._link.sendall(json.dumps(said).encode() + b"\n")
        except OSError:
            # Whoever held the lock is gone.
            return


def _die_with_parent() -> Callable[[], None] | None:
    """Between fork and exec: have the kernel kill the command if the keeper is killed."""
    if not _LINUX:
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
