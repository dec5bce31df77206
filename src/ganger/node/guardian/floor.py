"""Whose processes are left: every orphan below the guardian, by the attempt that it belongs to.

A process whose parent died is the guardian's own child, and bears the mark of its attempt. One that took off every mark
is a *stray*: it may belong to any attempt that ran when it was first seen, so it lives as long as one of those does,
and not a moment longer.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ganger.node.guardian.mark import Mark
from ganger.node.guardian.messages import Key
from ganger.node.guardian.tree import kill_tree

_CHUNK: Final = 1 << 16
STRAY: Final = 0
OVER: Final = -1
"""Serials of no attempt: of a process without a mark, and of one whose attempt is over."""

Orphans = Mapping[int, list[int]]
"""Living orphans by serial."""


class Floor:
    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._own = os.getpid()
        # Orphans are given to our first thread, which is also the one that spawns.
        self._children = os.open(f"/proc/{self._own}/task/{self._own}/children", os.O_RDONLY | os.O_CLOEXEC)
        self._serials: dict[int, int] = {}
        self._suspects: dict[int, set[int]] = {}

    def look(self, mains: Collection[int], running: Mapping[Key, int]) -> Orphans:
        """Reap the dead orphans and tell the living ones. `mains` are the attempts' own processes, which are reaped
        elsewhere; `running` has the serial of each attempt that is not over.
        """
        found: dict[int, list[int]] = {}
        for pid in self._list_children():
            if pid not in mains and not self._reap(pid):
                found.setdefault(self._serial(pid, running), []).append(pid)
        if over := found.pop(OVER, None):
            kill_tree(over, self._own)
        if strays := found.pop(STRAY, None):
            self._clear_strays(strays, set(running.values()))
        return found

    def _list_children(self) -> list[int]:
        text = b""
        while part := os.pread(self._children, _CHUNK, len(text)):
            text += part
        return [int(pid) for pid in text.split()]

    @property
    def has_strays(self) -> bool:
        return bool(self._suspects)

    def _reap(self, pid: int) -> bool:
        reaped, _ = os.waitpid(pid, os.WNOHANG)
        if reaped:
            self._serials.pop(pid, None)
            self._suspects.pop(pid, None)
        return bool(reaped)

    def _serial(self, pid: int, running: Mapping[Key, int]) -> int:
        """A process cannot change whose it is, and its pid is its own until we reap it: one look is enough."""
        serial = self._serials.get(pid)
        if serial is None:
            serial = self._serials[pid] = self._find_serial(pid, running)
        return serial

    def _find_serial(self, pid: int, running: Mapping[Key, int]) -> int:
        serial = self._mark.serial(pid)
        if serial is None and (key := self._mark.owner(pid)) is not None:
            serial = running.get(key, OVER)
        if serial is None:
            return STRAY
        return serial if serial in running.values() else OVER

    def _clear_strays(self, strays: Iterable[int], running: set[int]) -> None:
        for pid in strays:
            suspects = self._suspects.setdefault(pid, set(running))
            suspects &= running
            if not suspects:
                kill_tree([pid], self._own)
