"""The folder of a node: what makes the next process of the same name the same node."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from ganger.core.clock import Entropy
from ganger.core.errors import NodeTaken
from ganger.runtime.disk import translated, try_lock

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
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if not try_lock(lock):
                os.close(lock)
                raise NodeTaken(f"another process runs the node of {path}: stop it, or use another name")
            token = _read(path / "token") or entropy.token(_TOKEN_BYTES).hex()
            epoch = int(_read(path / "epoch") or 0) + 1
            _write(path / "token", token)
            _write(path / "epoch", str(epoch))
            _write(path / "pid", str(os.getpid()))
        return cls(path, lock, token, epoch)

    def close(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


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
