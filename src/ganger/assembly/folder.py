"""The folder of a node: what makes the next process of the same name the same node."""

import fcntl
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
from ganger.runtime.disk import opened, translated, try_lock

FUNCTIONS: Final = "functions"
"""What its processes that execute functions leave is in the folder of this name."""

_TOKEN_BYTES: Final = 16
_TRIES: Final = 100


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
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if not _try_some_times(lock):
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


def _try_some_times(lock: int) -> bool:
    """Whoever looks from outside whether the lock is free has it for an instant."""
    for _ in range(_TRIES):
        if try_lock(lock):
            return True
        os.sched_yield()
    return False


def find_process(path: Path) -> int | None:
    """The process that has the node of this folder now; None if there is none.

    The number in the folder may be a dead one's, and another process's by now: whoever has it must have the lock open.
    """
    pid = _read(path / "pid")
    if not pid.isdecimal():
        return None
    with suppress(OSError):
        lock, opened = (path / "lock").stat(), Path(f"/proc/{pid}/fd")
        return int(pid) if any(_is_same(lock, opened / number) for number in os.listdir(opened)) else None
    return None


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
        """Found out by taking the lock for a moment, shared, so that two who ask do not hinder each other."""
        try:
            with opened(self.path / "lock", os.O_RDONLY) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def read_epoch(self) -> int:
        return read_epoch(self.path)

    def read_last(self) -> frozenset[tuple[TaskId, Fence]] | None:
        return read_last(FunctionOptions(self.path / FUNCTIONS).notes)


def locate_nodes(database: Path) -> Path:
    """Where the nodes of a store have their folders: beside its file."""
    path = database.absolute()
    return path.with_name(f"{path.name}-nodes")


def list_neighbours(folder: Path) -> Iterator[Neighbour]:
    """The nodes that keep their folders in this one."""
    with suppress(FileNotFoundError):
        yield from (Neighbour(path) for path in sorted(folder.iterdir()) if (path / "lock").exists())


def _is_same(file: os.stat_result, path: Path) -> bool:
    # What was open a moment ago may be closed by now.
    with suppress(OSError):
        return os.path.samestat(file, path.stat())
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
