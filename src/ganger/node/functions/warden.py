"""Watches one process that executes functions, ends it when it must end, and leaves nothing of it behind.

What can go wrong, and why this is right:

- *The node is stopped, or hangs.* Its leases run out, and another node is given the tasks. The note says until when the
  leases can be trusted; the warden sleeps until then, looks whether the node has moved that, and if not it kills.
- *The node is gone.* Nobody is left to take the results. The lifeline is a pipe whose other end the node alone has:
  when that closes, by a wish or by a death, the warden kills.
- *The function holds the interpreter's lock* in a long call of a C library. A thread of the same process could not see
  that the lease was renewed, nor that it ended; a timer of the kernel could kill, but not be moved. So the watch is
  kept by another process, which executes nothing of anybody's and has nothing to wait for but this.
- *The function has started processes.* The warden is their reaper: whoever loses its parent becomes the warden's child,
  and when the process ends all of them are killed. The warden itself ends last, so its end is proof of a clean floor.
- *The warden is killed.* The process dies with it: the kernel is asked for that before anything else. What the process
  itself had started may survive this.
- *The machine was suspended.* The boot clock went on; no sleep is longer than half a second without a look at it.

Processes that a function leaves behind while it returns live on until the warm process is recycled: they may be a pool
that the next function uses.
"""

import os
import select
import signal
import sys
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from typing import Final

from ganger.core.clock import Clock
from ganger.node.functions.charge import Charge
from ganger.node.functions.note import Cause, Note
from ganger.node.guardian.tree import kill_tree, read_children
from ganger.node.isolation import become_subreaper

GLANCE: Final = 500
IDLE_GLANCE: Final = 50
_FIRST_PAUSE: Final = 1
_LONGEST_PAUSE: Final = 200
_SET_PARENT_DEATH_SIGNAL: Final = 1


def bind_to_parent(parent: int) -> None:
    """Die with the parent. To be called in a child right after its birth."""
    if sys.platform != "linux":
        return
    CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(charge: Charge, clock: Clock, worker: int) -> int:
    """Return when the worker has ended and nothing of it is left: its exit code, as a shell would tell it."""
    note = Note.open(Path(charge.note))
    cause = _wait(charge, clock, note, worker)
    if cause is not Cause.ITSELF:
        os.kill(worker, signal.SIGKILL)
    _, ended = os.waitpid(worker, 0)
    _sweep()
    note.bury(cause, ended)
    return os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else 128 + os.WTERMSIG(ended)


def _wait(charge: Charge, clock: Clock, note: Note, worker: int) -> Cause:
    poll = select.poll()
    poll.register(charge.lifeline, select.POLLIN)
    with _exit_seen_by(poll, worker):
        while True:
            left = note.trust - clock.now()
            if left <= 0 and note.executing():
                return Cause.TRUST
            if poll.poll(min(left, GLANCE) if left > 0 else IDLE_GLANCE):
                return Cause.ITSELF if _has_ended(worker) else Cause.NODE
            _reap_strangers(worker)
            if _has_ended(worker):
                return Cause.ITSELF


class _exit_seen_by:
    """While this is open the end of a process wakes the poll, where the system can tell it."""

    def __init__(self, poll: "select.poll", pid: int) -> None:
        self._fd = os.pidfd_open(pid) if sys.platform == "linux" else None
        if self._fd is not None:
            poll.register(self._fd, select.POLLIN)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)


def _has_ended(worker: int) -> bool:
    """Look without reaping: its pid stays its own until we are done."""
    return os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap_strangers(worker: int) -> None:
    """Orphans below us that ended by themselves."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if ended.si_pid == worker:
            return
        os.waitpid(ended.si_pid, 0)


def _sweep() -> None:
    """Kill whatever became our child, and what that leaves, until nobody is left. Who cannot die is waited for."""
    own, pause, bed = os.getpid(), _FIRST_PAUSE, select.poll()
    while strays := read_children(own):
        kill_tree(strays, own)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if read_children(own):
            bed.poll(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def start_watch() -> None:
    """What the warden does before it has a child."""
    if sys.platform == "linux":
        become_subreaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever stops the node stops us through it: a terminal's interrupt is not for us.
        signal.signal(number, signal.SIG_IGN)
