"""Who descends from whom, by /proc, and how to end a whole tree of processes.

The list of our own children is exact: a child leaves it when we reap it and never before, and everyone who loses its
parent below us joins it. The lists of others change while they are read, so a tree is frozen before it is killed: all
that are seen are stopped, and looked at again, until nobody new is seen. A stopped process cannot fork.

A pid that another process reaps may be another program's a moment later. So a signal goes through a descriptor of the
process, and only after a look, with the descriptor open, that it still has the parent it was found under.
"""

import os
import signal
from collections.abc import Iterable
from typing import Final

from ganger.node.guardian.mark import Mark, read_process

_ROUNDS: Final = 50
"""A tree that still grows after so many looks is killed as far as it is known; the next round finds the rest."""

Tree = dict[int, int]
"""Processes, each with its parent, as they were found."""


def read_children(pid: int) -> list[int]:
    """The children of a process, dead ones that nobody reaped included."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [child for thread in threads for child in read_children_of_thread(pid, thread)]


def read_children_of_thread(pid: int, thread: str) -> list[int]:
    return [int(child) for child in read_process(pid, f"task/{thread}/children", 1 << 24).split()]


def read_parent(pid: int) -> int | None:
    """The parent of a process; None if the process is gone or only waits to be reaped."""
    stat = read_process(pid, "stat", 4096)
    # The name in the second field may hold anything, brackets and spaces too.
    fields = stat[stat.rfind(b")") + 2 :].split(None, 2)
    return int(fields[1]) if len(fields) > 1 and fields[0] not in (b"Z", b"X") else None


def walk(roots: Iterable[int], parent: int) -> Tree:
    """The roots, which are children of `parent`, and all that descends from them."""
    found = dict.fromkeys(roots, parent)
    open_ends = list(found)
    while open_ends:
        pid = open_ends.pop()
        for child in read_children(pid):
            if child not in found:
                found[child] = pid
                open_ends.append(child)
    return found


def send(tree: Tree, number: int) -> list[int]:
    """Signal every process of a tree that still stands where it was found; those that we may not signal are told."""
    return [pid for pid, parent in tree.items() if not _send(pid, parent, number)]


def _send(pid: int, parent: int, number: int) -> bool:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if read_parent(pid) in (parent, os.getpid()):
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(fd)
    return True


def kill_tree(roots: Iterable[int], parent: int) -> list[int]:
    """Stop all, until nobody new is seen, then kill them; those that we may not kill are told."""
    roots = list(roots)
    stopped: Tree = {}
    for _ in range(_ROUNDS):
        fresh = {pid: above for pid, above in walk(roots, parent).items() if pid not in stopped}
        if not fresh:
            break
        send(fresh, signal.SIGSTOP)
        stopped |= fresh
    # Children first: whoever loses its parent stands somewhere else than it was found.
    return send(dict(reversed(stopped.items())), signal.SIGKILL)


def find_marked(mark: Mark) -> list[int]:
    """Every living process of the machine that bears the mark: a look at all of them, for when parents are no guide."""
    own = os.getpid()
    return [pid for pid in _list_all() if pid != own and read_parent(pid) is not None and mark.is_borne_by(pid)]


def _list_all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
