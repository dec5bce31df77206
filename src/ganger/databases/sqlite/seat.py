"""The seat of the owner: the lock beside the database, and the socket on which the owner is asked.

Whoever holds the lock owns the file. The lock is a flock, which the kernel takes away from a dead process whatever
it died of, and which belongs to an open file and not to a process: handing the descriptor to another process hands
over the lock, with no moment in which nobody or both have it. The listening socket travels with it, so those who
connect meanwhile wait in its queue and are never refused. For the same reason the lock is never unlocked, only
closed: an unlock would take it from the heir as well.

The socket file is replaced by the holder of the lock alone. Nobody can connect between its creation and the change of
its mode to 0600, because it listens only afterwards; and both sides look at the user on the other end.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from ganger.databases.sqlite.nameplate import Nameplate
from ganger.databases.sqlite.place import Place, explain

_LONGEST_ADDRESS: Final = 100
_BACKLOG: Final = 1024
_CREDENTIALS: Final = struct.Struct("3i")


class Seat:
    """The lock and the listening socket. Closing the last copy of the lock frees the seat."""

    __slots__ = ("_address", "_lock", "listener", "place")

    def __init__(self, place: Place, lock: int, listener: socket.socket | None = None) -> None:
        self.place = place
        self._lock = lock
        self._address = _number(place.socket)
        self.listener = listener

    def listen(self) -> socket.socket:
        """The socket on which others reach this owner; one that was handed over goes on."""
        if self.listener is None:
            self.listener = _listen(self.place)
            self._address = _number(self.place.socket)
        return self.listener

    def sign(self, plate: Nameplate) -> None:
        """Say who sits here. A full disk may keep the plate blank: the lock holds without it."""
        text = msgspec.json.encode(plate) + b"\n"
        with contextlib.suppress(OSError):
            os.pwrite(self._lock, text, 0)
            os.ftruncate(self._lock, len(text))

    def is_ours(self) -> bool:
        """Does the name of the lock file still lead to the file that is locked?"""
        try:
            return self._lock >= 0 and os.path.samestat(os.stat(self.place.lock), os.fstat(self._lock))
        except OSError:
            return False

    def can_be_reached(self) -> bool:
        """Does the name of the socket still lead to the one on which this process listens?"""
        return self._address != 0 and _number(self.place.socket) == self._address

    def pass_on(self, to: socket.socket, frame: bytes) -> None:
        """Hand the lock and the listening socket to the process at the other end; close this copy afterwards."""
        socket.send_fds(to, [frame], [self._lock, self.listen().fileno()])

    def leave(self) -> None:
        """Free the seat; idempotent. The socket file goes first: once the lock is free it may be another owner's."""
        if self.is_ours():
            with contextlib.suppress(OSError):
                self.place.socket.unlink()
        self.close()

    def close(self) -> None:
        """Idempotent."""
        lock, self._lock = self._lock, -1
        if self.listener is not None:
            self.listener.close()
        if lock >= 0:
            os.close(lock)


def _number(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def take_seat(place: Place) -> Seat | None:
    """The seat, if it is free."""
    try:
        lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise explain(error, place) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            return None
        raise explain(error, place) from error
    seat = Seat(place, lock)
    if not seat.is_ours():
        # It was removed between the opening and the lock: whoever comes next would find another.
        seat.close()
        return None
    return seat


def receive_seat(place: Place, descriptors: list[int]) -> Seat:
    """The seat that the owner handed over: the lock and the listening socket."""
    lock, listener = descriptors
    descriptors.clear()
    return Seat(place, lock, socket.socket(fileno=listener))


def connect(place: Place, seconds: float) -> socket.socket | None:
    """A connection to the owner, or None if nobody listens yet."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(seconds)
    try:
        with _address(place.socket) as address:
            sock.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError, TimeoutError):
        sock.close()
        return None
    except OSError as error:
        sock.close()
        raise explain(error, place) from error
    return sock


def is_trusted(sock: socket.socket, place: Place) -> bool:
    """Whether the process at the other end runs as this user, as root, or as the owner of the database file."""
    user = peer_user(sock)
    trusted = {os.geteuid(), 0}
    if place.database.exists():
        trusted.add(place.database.stat().st_uid)
    return user is None or user in trusted


def peer_user(sock: socket.socket) -> int | None:
    """The user at the other end; None where the system does not tell, and the mode of the socket file must do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(user)


def _listen(place: Place) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        place.socket.unlink(missing_ok=True)
        with _address(place.socket) as address:
            sock.bind(address)
        place.socket.chmod(0o600)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise explain(error, place) from error
    return sock


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name for the socket that fits into a socket's address, also where the path itself does not."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
