"""What a guardian does before it takes a single order: end what a former one left behind, and say what became of it.

A neighbour does the same, and no more, for a node that is gone with its guardian.

A guardian that was killed leaves processes that nobody watches: their time-outs, their leases, their output. They are
found by the cgroup and by the mark, stopped so that they cannot fork, killed, and waited for. Their attempts are told
as lost. Ends that the former guardian had noted, and that no node has acknowledged, are told as they were.
"""

import os
import select
import signal
from typing import Final

import msgspec

from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.journal import Journal, Past, read_past
from ganger.node.guardian.mark import Mark
from ganger.node.guardian.messages import LOST, End, Key
from ganger.node.guardian.taps import look
from ganger.node.guardian.tree import find_marked
from ganger.node.isolation import is_populated, kill_cgroups, remove_cgroups
from ganger.runtime.disk import try_lock_some_times

_ROUNDS: Final = 50
_PAUSE: Final = 250


class Taken(Exception):
    """Another guardian lives in the run folder."""


def lock_folder(folder: RunFolder) -> int:
    """The lock is the file's own, and falls with the process, however that ends. Raises Taken."""
    fd = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if not try_lock_some_times(fd):
        os.close(fd)
        raise Taken(f"another guardian keeps {folder.path}")
    return fd


def recover(folder: RunFolder, mark: Mark) -> tuple[Journal, Past]:
    """Called under the lock: what runs is ended, and the journal written anew."""
    past = settle_past(read_past(folder.journal), clear(folder, mark), folder)
    journal = Journal(folder.journal)
    journal.renew([], past.ended.values())
    return journal, past


def sweep(folder: RunFolder) -> None:
    """End what a guardian that was killed left, and have its lock file say that there is nothing more to do.

    Its number stays there until then, so that others do it if we are killed. Raises Taken, NewerFormat, OSError.
    """
    lock = lock_folder(folder)
    try:
        journal, _ = recover(folder, folder.read_mark())
        journal.close()
        os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def clear(folder: RunFolder, mark: Mark) -> set[Key]:
    """Kill what a former guardian left and return when it is gone, however long that takes: whose it was."""
    cgroup = _read_cgroup(folder)
    owners: set[Key] = set()
    while (left := _freeze(mark, owners)) or (cgroup and is_populated(cgroup)):
        if cgroup:
            kill_cgroups(cgroup)
        _kill(left, mark)
    if cgroup:
        remove_cgroups(cgroup)
    return owners


def _freeze(mark: Mark, owners: set[Key]) -> list[int]:
    """Stop all that bear the mark, until no new one is seen."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in find_marked(mark) if pid not in stopped]
        if not fresh:
            break
        owners |= {owner for pid in fresh if (owner := mark.owner(pid))}
        for pid in fresh:
            _signal(pid, mark, signal.SIGSTOP)
        stopped |= set(fresh)
    return sorted(stopped)


def _kill(pids: list[int], mark: Mark) -> None:
    """Kill them, and wait a while for them to be gone."""
    poll = select.poll()
    held = [fd for pid in pids if (fd := _signal(pid, mark, signal.SIGKILL, keep=True)) >= 0]
    for fd in held:
        poll.register(fd, select.POLLIN)
    for _ in held or [0]:
        if not poll.poll(_PAUSE):
            break
    for fd in held:
        os.close(fd)


def _signal(pid: int, mark: Mark, number: int, keep: bool = False) -> int:
    """Signal the process if it bears the mark while we hold it. Its descriptor, if that is to be kept; else -1."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    try:
        if mark.is_borne_by(pid):
            signal.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        # Gone, or not ours to signal: the next look tells which.
        keep = False
    if keep:
        return fd
    os.close(fd)
    return -1


def _read_cgroup(folder: RunFolder) -> str | None:
    try:
        with open(folder.cgroup, encoding="utf-8") as file:
            return file.read().strip() or None
    except FileNotFoundError:
        return None


def settle_past(past: Past, owners: set[Key], folder: RunFolder) -> Past:
    """Every attempt of the past has ended now: as it was noted, or lost."""
    serial = past.serial
    begun = {key: record.serial for key, record in past.begun.items()}
    for key in sorted(owners - past.ended.keys() - begun.keys() - {(0, 0)}):
        serial = begun[key] = serial + 1
    lost = {key: End(*key, "lost", LOST, serial=number) for key, number in begun.items()}
    ended = {key: _with_streams(end, folder) for key, end in (past.ended | lost).items()}
    return Past({}, ended)


def _with_streams(end: End, folder: RunFolder) -> End:
    return msgspec.structs.replace(end, streams=look(folder.spool, end.key))
