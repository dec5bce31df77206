"""The key of a store's tokens: made by the first node that works on it, in a file for one user alone.

Two nodes may start at once, and a machine may stop in the middle of the first write. So the file is locked while it is
made, and one that is too short to be a key is made anew. To void every token at once, stop the nodes and remove it.
"""

import fcntl
import os
from pathlib import Path

from ganger.assembly.location import Location
from ganger.core.clock import Entropy
from ganger.core.errors import NotAuthenticated
from ganger.core.token import KEY_BYTES
from ganger.runtime.disk import opened, sync_folder, translated, write_whole


def open_key(location: Location | None, entropy: Entropy) -> bytes:
    """The key of the store; made if there is none. A store without files has one that ends with this process."""
    if location is None:
        return entropy.token(KEY_BYTES)
    path = location.key
    with translated(f"keep the key {path}"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            return _read(fd) or _make(fd, path, entropy)
        finally:
            os.close(fd)


def _read(fd: int) -> bytes:
    found = os.pread(fd, KEY_BYTES, 0)
    return found if len(found) == KEY_BYTES else b""


def _make(fd: int, path: Path, entropy: Entropy) -> bytes:
    key = entropy.token(KEY_BYTES)
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    write_whole(fd, key)
    os.fsync(fd)
    sync_folder(path.parent)
    return key


def read_key(location: Location) -> bytes:
    """The key of a store on which a node has worked; NotAuthenticated if there is none."""
    path = location.key
    with translated(f"read the key {path}"):
        key = _read_file(path)
    if not key:
        raise NotAuthenticated(f"there is no key at {path}: a node makes it when it starts", path=str(path))
    return key


def _read_file(path: Path) -> bytes:
    try:
        with opened(path, os.O_RDONLY) as fd:
            return _read(fd)
    except FileNotFoundError:
        return b""
