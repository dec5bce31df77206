"""The few calls on files that large data shares: whole writes, syncs, locks, and the system's errors in our words."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ganger.core.errors import StoreBroken, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk has no room, or not for us."""

_TRIES: Final = 100

Probe = Callable[[str], None]
"""Called with the name of a step just before the step: a proof kills the process there, or raises the call's error."""


def pass_by(step: str) -> None:
    """The probe of production."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise the system's errors as the store's: `doing` says what failed, as in "could not <doing>"."""
    try:
        yield
    except OSError as error:
        raise _translate(error, doing) from error


def _translate(error: OSError, doing: str) -> StoreError:
    failed = f"could not {doing}: {error.strerror or error}"
    match error.errno:
        case number if number in NO_SPACE:
            return StoreFull(f"{failed}; free some space and send it again")
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return StoreReadOnly(f"{failed}; give the process the right to read and write there")
        case errno.EMFILE | errno.ENFILE | errno.ENOMEM:
            return StoreUnavailable(f"{failed}; raise the limit, or try again when there is less to do")
        case _:
            return StoreBroken(f"{failed}; look at the disk before trusting it")


def write_whole(fd: int, data: bytes | memoryview) -> None:
    """Write all of it: the system may take less than it was given."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def read_whole(fd: int, size: int, offset: int) -> bytes:
    """The bytes of that range, fewer only where the file ends."""
    parts = []
    while size > 0 and (part := os.pread(fd, size, offset)):
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor for the time of a block; a symbolic link is not followed."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def make_private(folder: Path) -> None:
    """See that the folder is there, and for its owner alone, whatever the umask is and whoever has made it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


@contextmanager
def locked_folder(folder: Path, lock: int) -> Iterator[int]:
    """Hold a lock on the folder itself, so that no file has to be made for it; closing the descriptor ends it."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        fcntl.flock(fd, lock)
        yield fd


def try_lock(fd: int) -> bool:
    """Take the file for ourselves unless anyone has it open under a lock, in this process or another."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Has any process this lock, also one that cannot be seen from here?

    Found out by taking it for a moment, shared, so that two who ask do not hinder each other. Whoever wants it for
    itself tries some times.
    """
    try:
        with opened(path, os.O_RDONLY) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def try_lock_some_times(fd: int) -> bool:
    """As `try_lock`, where others look from outside whether the lock is free: they have it for an instant."""
    for _ in range(_TRIES):
        if try_lock(fd):
            return True
        os.sched_yield()
    return False


def has_open(pid: int, path: Path) -> bool:
    """Has this process the file open? A number that was written down may be a dead one's, and another's by now."""
    with suppress(OSError):
        file, opened = path.stat(), Path(f"/proc/{pid}/fd")
        return any(_is_same(file, opened / number) for number in os.listdir(opened))
    return False


def _is_same(file: os.stat_result, path: Path) -> bool:
    # What was open a moment ago may be closed by now.
    with suppress(OSError):
        return os.path.samestat(file, path.stat())
    return False


def sync_folder(folder: Path) -> None:
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
