"""The run folder of a node: where its guardian, its journal and its output are found, for their user alone."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ganger.node.guardian.mark import NONCES, Mark
from ganger.runtime.disk import has_open, is_locked

_SOCKET: Final = "guardian.sock"


class RunFolder(NamedTuple):
    """One per node name. Everything in it is readable by its user only."""

    path: str

    @property
    def lock(self) -> str:
        return f"{self.path}/guardian.pid"

    @property
    def journal(self) -> str:
        return f"{self.path}/journal"

    @property
    def log(self) -> str:
        return f"{self.path}/guardian.log"

    @property
    def cgroup(self) -> str:
        """Names the cgroup of the last guardian, so that the next one can empty it."""
        return f"{self.path}/cgroup"

    @property
    def spare(self) -> str:
        """Holds space for what is said when the disk is full."""
        return f"{self.path}/spare"

    @property
    def spool(self) -> str:
        return f"{self.path}/spool"

    def prepare(self, token: Callable[[int], bytes]) -> None:
        """Make what is missing; what is there keeps its mark."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        os.chmod(self.path, 0o700)
        os.makedirs(self.spool, mode=0o700, exist_ok=True)
        draft = f"{self.path}/mark~{token(4).hex()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{int.from_bytes(token(5), 'big') % NONCES:09x}\n")
        try:
            # Two nodes that start at once agree on the first mark: a link never replaces.
            os.link(draft, f"{self.path}/mark")
        except FileExistsError:
            return
        finally:
            os.unlink(draft)

    def read_mark(self) -> Mark:
        with open(f"{self.path}/mark", encoding="ascii") as file:
            return Mark(int(file.read(), 16))

    def find_guardian(self) -> int | None:
        """The process that guards here now; None if none is found."""
        pid = self._read_lock()
        return int(pid) if pid.isdecimal() and has_open(int(pid), Path(self.lock)) else None

    def is_named(self) -> bool:
        """Is there a guardian, or was the last one killed? One that ends in order takes its number back."""
        return bool(self._read_lock())

    def is_left(self) -> bool:
        """Was the last guardian killed, so that what it guarded may run on?"""
        return self.is_named() and not is_locked(Path(self.lock))

    def _read_lock(self) -> str:
        try:
            with open(self.lock, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""

    def connect(self) -> socket.socket:
        """OSError if no guardian listens."""
        sock = socket.socket(socket.AF_UNIX)
        # A guardian that is stopped takes no connections, and must not stop whoever tries.
        sock.setblocking(False)
        try:
            self._address(sock.connect)
        except OSError:
            sock.close()
            raise
        return sock

    def listen(self) -> socket.socket:
        """Called under the lock: a socket that is there is a dead guardian's."""
        self.remove_socket()
        sock = socket.socket(socket.AF_UNIX)
        self._address(sock.bind)
        os.chmod(f"{self.path}/{_SOCKET}", 0o600)
        sock.listen(16)
        return sock

    def remove_socket(self) -> None:
        try:
            os.unlink(f"{self.path}/{_SOCKET}")
        except FileNotFoundError:
            return

    def _address(self, use: Callable[[str], None]) -> None:
        """A socket's address is at most 107 bytes; through a descriptor of the folder any path is short."""
        fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            use(f"/proc/self/fd/{fd}/{_SOCKET}")
        finally:
            os.close(fd)
