"""The mark by which a process is known as part of an attempt, whatever it does to its parents, session and names.

It is borne twice. GANGER_MARK in the environment is there for people to see, and is lost by whoever starts a program
with a clean environment. The other one is a resource limit that nobody uses: the soft bound of real-time run time, set
to a number of centuries that carries our number. Every descendant inherits it through fork, exec and setuid, anyone may
read it in /proc/<pid>/limits, and programs leave it alone.
"""

import os
from typing import Final, NamedTuple

SERIALS: Final = 1 << 26
NONCES: Final = 1 << 36
VARIABLE: Final = "GANGER_MARK"
_HEAD: Final = 1 << 62
_LIMIT: Final = b"Max realtime timeout"
_LARGEST_ENVIRONMENT: Final = 1 << 22


class Mark(NamedTuple):
    """The marks of one node's run folder: they outlive the guardian, so that the next one knows its children."""

    nonce: int

    def limit(self, serial: int) -> int:
        return _HEAD | self.nonce << 26 | serial

    def variable(self, task: int, fence: int) -> str:
        return f"{self.nonce:09x}:{task}:{fence}"

    def serial(self, pid: int) -> int | None:
        """The serial in a process's limit, if the limit is one of ours."""
        value = _read_limit(pid)
        return value % SERIALS if value is not None and value >> 26 == self.limit(0) >> 26 else None

    def owner(self, pid: int) -> tuple[int, int] | None:
        """The task and fence in a process's environment, if it is marked there."""
        head = f"{VARIABLE}={self.nonce:09x}:".encode()
        found = next((it for it in _read_environment(pid) if it.startswith(head)), None)
        if found is None:
            return None
        task, _, fence = found[len(head) :].partition(b":")
        return (int(task), int(fence)) if task.isdigit() and fence.isdigit() else (0, 0)

    def is_borne_by(self, pid: int) -> bool:
        return self.serial(pid) is not None or self.owner(pid) is not None


def _read_limit(pid: int) -> int | None:
    text = read_process(pid, "limits", 8192)
    at = text.find(_LIMIT)
    if at < 0:
        return None
    soft = text[at + len(_LIMIT) :].split(None, 1)[0]
    return int(soft) if soft.isdigit() else None


def _read_environment(pid: int) -> list[bytes]:
    return read_process(pid, "environ", _LARGEST_ENVIRONMENT).split(b"\0")


def read_process(pid: int, name: str, most: int) -> bytes:
    """A file of /proc about a process; nothing if the process is gone or not for us to look into."""
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    try:
        return _read_on(fd, most)
    except (ProcessLookupError, PermissionError):
        return b""
    finally:
        os.close(fd)


def _read_on(fd: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(fd, min(most, 1 << 16))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
