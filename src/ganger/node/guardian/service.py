"""One guardian's life: lock, clear, listen, keep, and end when there is nobody to keep anything for."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, assert_never

from ganger.core.clock import Clock
from ganger.node.guardian.attempt import NEVER
from ganger.node.guardian.books import Books
from ganger.node.guardian.floor import Floor
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.journal import Journal
from ganger.node.guardian.keep import Keep, Tell, Tools
from ganger.node.guardian.loop import Eyes
from ganger.node.guardian.mark import Mark
from ganger.node.guardian.master import Door
from ganger.node.guardian.messages import (
    Fault,
    Forget,
    FromGuardian,
    Order,
    Shutdown,
    Start,
    Stop,
    Stuck,
    Trust,
    Watch,
)
from ganger.node.guardian.recovery import lock_folder, recover
from ganger.node.guardian.spare import Spare
from ganger.node.guardian.spawn import Spawner
from ganger.node.isolation import Cgroups, Isolation, become_subreaper, find_cgroups

GLANCE: Final = 250
"""While anything runs, the clocks are looked at so often (ms): a wait does not count the time the machine slept."""


HOLD: Final = 4
"""So many ms the node may be told later while there are orders at hand, and it is not needed for the next one."""


class Charge(NamedTuple):
    """What a guardian is told at its start: where, the most bytes of a stream, how long to stay for nobody (ms).

    `files`: how many programs may have open; 0: as many as it was given itself.
    """

    folder: RunFolder
    cap: int
    linger: int
    isolation: Isolation
    files: int = 0


def guard(charge: Charge, clock: Clock, ready: Callable[[], None]) -> None:
    """Live one guardian's life. `ready` is called when nodes can connect."""
    _refuse_machine()
    lock = lock_folder(charge.folder)
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    become_subreaper()
    mark = charge.folder.read_mark()
    journal, past = recover(charge.folder, mark)
    cgroups = _open_cgroups(charge, mark)
    eyes = Eyes()
    eyes.catch(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    door = Door(charge.folder.listen(), eyes, cgroups is not None)
    books = Books(journal, past)
    spawner = Spawner(mark, cgroups, charge.isolation is Isolation.CGROUP)
    spare = Spare(charge.folder.spare)
    tools = Tools(charge.folder.spool, spare, charge.cap, clock, eyes, Floor(mark), spawner, books)
    keep = Keep(tools, past.serial, _loudly(door.tell))
    ready()
    Watchman(charge, clock, eyes, door, keep).serve()
    spare.release()
    _close(charge, journal, cgroups, keep)
    # The node sees the connection end when there is nothing left of us but the lock, which goes with the process.
    door.close()
    eyes.close()
    # Whoever finds the number without its process knows that we were killed.
    os.ftruncate(lock, 0)
    os.close(lock)


def _refuse_machine() -> None:
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        raise OSError("the guardian needs Linux with /proc that lists children (CONFIG_PROC_CHILDREN)")


def _loudly(tell: Tell) -> Tell:
    """Trouble is told to the node if there is one, and to the log whether there is one or not."""

    def tell_loudly(message: FromGuardian) -> None:
        if isinstance(message, Stuck | Fault):
            # The log lies on the same disk, and must not be what ends us.
            with suppress(OSError):
                sys.stderr.write(f"{message}\n")
                sys.stderr.flush()
        tell(message)

    return tell_loudly


def _open_cgroups(charge: Charge, mark: Mark) -> Cgroups | None:
    if charge.isolation == Isolation.MARK:
        return None
    cgroups = find_cgroups(f"ganger-{mark.nonce:09x}")
    if cgroups is None and charge.isolation == Isolation.CGROUP:
        raise OSError("no cgroup (v2) may be made here: run the node in a delegated one, or set isolation to auto")
    # The umask is the commands', and not for what is ours.
    fd = os.open(charge.folder.cgroup, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(cgroups.path if cgroups else "")
    return cgroups


def _close(charge: Charge, journal: Journal, cgroups: Cgroups | None, keep: Keep) -> None:
    charge.folder.remove_socket()
    if keep.is_idle:
        os.unlink(charge.folder.journal)
    else:
        os.fdatasync(journal.fileno())
    journal.close()
    if cgroups is not None:
        cgroups.close()


class Watchman:
    """The loop."""

    def __init__(self, charge: Charge, clock: Clock, eyes: Eyes, door: Door, keep: Keep) -> None:
        self._linger = charge.linger
        self._clock = clock
        self._eyes = eyes
        self._door = door
        self._keep = keep
        self._is_closing = False
        self._quiet_since = clock.now()
        self._tell_by = NEVER
        door.serve(self._obey, keep.listing)

    def serve(self) -> None:
        while not self._is_done():
            signals = self._eyes.look(self._wait() / 1000)
            if signals & {signal.SIGTERM, signal.SIGINT}:
                self._close("the guardian was told to end")
            self._keep.turn(signal.SIGCHLD in signals)
            self._tell()

    def _tell(self) -> None:
        """Tell the node what there is to tell. What happens to short programs within a moment goes together."""
        if not self._door.has_news:
            return
        now = self._clock.now()
        self._tell_by = min(self._tell_by, now + HOLD)
        if now >= self._tell_by or not self._keep.is_supplied:
            self._tell_by = NEVER
            self._door.flush()

    def _is_done(self) -> bool:
        if self._is_closing:
            return not self._keep.is_running
        if self._door.has_master or self._keep.is_running:
            self._quiet_since = self._clock.now()
            return False
        # Ends that nobody has acknowledged are safe in the journal: the next guardian tells them.
        return self._clock.now() - self._quiet_since >= self._linger

    def _wait(self) -> int:
        longest = GLANCE if self._keep.is_running else max(self._linger, GLANCE)
        return max(0, min(self._keep.wait(), longest, self._tell_by - self._clock.now()))

    def _close(self, text: str) -> None:
        self._is_closing = True
        self._keep.stop_all("shutdown", text)

    def _leave(self, kill: bool) -> None:
        self._linger = 0
        if kill:
            self._close("the node was closed")

    def _obey(self, order: Order) -> None:
        match order:
            case Start():
                self._keep.start(order)
            case Stop():
                self._keep.stop(order)
            case Trust(until=until):
                self._keep.trust(until)
            case Watch(task=task, fence=fence):
                self._keep.watch((task, fence))
            case Forget(keys=keys):
                self._keep.forget(keys)
            case Shutdown(kill=kill):
                self._leave(kill)
            case _:
                assert_never(order)
