"""The folder of a node: what makes the next process of the same name the same node."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ganger.core.clock import Entropy
from ganger.core.errors import NodeTaken
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.node.functions.note import read_last
from ganger.node.functions.options import FunctionOptions
from ganger.node.guardian.folder import RunFolder
from ganger.runtime.disk import has_open, is_locked, make_private, translated, try_lock_some_times

FUNCTIONS: Final = "functions"
"""What its processes that execute functions leave is in the folder of this name."""

_TOKEN_BYTES: Final = 16


class NodeFolder:
    """One per node, for one live process: it has the node's token, and a number that grows with each process."""

    def __init__(self, path: Path, lock: int, token: str, epoch: int) -> None:
        self.path = path
        self.token = token
        self.epoch = epoch
        self._lock = lock

    @classmethod
    def open(cls, path: Path, entropy: Entropy) -> "NodeFolder":
        """Make it if it is not there. NodeTaken: another process of this machine has it. Raises StoreError."""
        with translated(f"use the node's folder {path}"):
            make_private(path)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if not try_lock_some_times(lock):
                os.close(lock)
                raise NodeTaken(f"another process runs the node of {path}: stop it, or use another name")
            token = _read(path / "token") or entropy.token(_TOKEN_BYTES).hex()
            epoch = int(_read(path / "epoch") or 0) + 1
            _write(path / "token", token)
            _write(path / "epoch", str(epoch))
            _write(path / "pid", str(os.getpid()))
        return cls(path, lock, token, epoch)

    def note_node(self, node: NodeId) -> None:
        """Write down under which registration this process is known: whoever finds it dead can tell what it held."""
        with translated(f"use the node's folder {self.path}"):
            _write(self.path / "node", str(node))

    def close(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def find_process(path: Path) -> int | None:
    """The process that has the node of this folder now; None if there is none.

    Whoever has the number in the folder must have the lock open.
    """
    pid = _read(path / "pid")
    return int(pid) if pid.isdecimal() and has_open(int(pid), path / "lock") else None


class Neighbour(NamedTuple):
    """Another node's folder, looked at from outside."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def find_process(self) -> int | None:
        return find_process(self.path)

    def read_node(self) -> NodeId | None:
        number = _read(self.path / "node")
        return NodeId(int(number)) if number.isdecimal() else None

    def is_taken(self) -> bool:
        return is_locked(self.path / "lock")

    def read_epoch(self) -> int:
        return read_epoch(self.path)

    def read_last(self) -> frozenset[tuple[TaskId, Fence]] | None:
        return read_last(FunctionOptions(self.path / FUNCTIONS).notes)

    def list_runs(self) -> list[RunFolder]:
        return [RunFolder(str(path.parent)) for path in sorted(self.path.glob("*/mark"))]


def locate_nodes(database: Path) -> Path:
    """Where the nodes of a store have their folders: beside its file."""
    path = database.absolute()
    return path.with_name(f"{path.name}-nodes")


def make_nodes(folder: Path) -> None:
    """See that the folder of nodes is there, for their user alone: their tokens are in it, and what tasks write."""
    with translated(f"use the folder of nodes {folder}"):
        make_private(folder)


def list_neighbours(folder: Path) -> Iterator[Neighbour]:
    """The nodes of this user that keep their folders in this one."""
    with suppress(FileNotFoundError):
        yield from (Neighbour(path) for path in sorted(folder.iterdir()) if _is_ours(path / "lock"))


def _is_ours(path: Path) -> bool:
    # What is another user's may not be looked into.
    with suppress(OSError):
        return path.stat().st_uid == os.geteuid()
    return False


def read_epoch(path: Path) -> int:
    """How many processes the node of this folder has had."""
    return int(_read(path / "epoch") or 0)


def _read(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text("ascii").strip()
    return ""


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}~")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(fd)
    draft.rename(path)
