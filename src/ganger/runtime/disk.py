"""The few calls on files that large data shares: whole writes, syncs, locks, and the system's errors in our words."""

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from ganger.core.errors import StoreBroken, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

Probe = Callable[[str], None]
"""Called with the name of a step just before the step: a proof kills the process there, or raises the call's error."""


def pass_by(step: str) -> None:
    """The probe of production."""


async def run_whole(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call in a thread, and see its end even when cancelled.

    Whoever is cancelled closes its file next; closed under a running thread, the descriptor could already be another's.
    """
    job = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError as cancelled:
        await _outlast(job)
        raise cancelled from job.exception()


async def _outlast(job: "asyncio.Future[T]") -> None:
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError:
            # The caller raises the first one; a second changes nothing about the thread that still runs.
            continue


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
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
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


def sync_folder(folder: Path) -> None:
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
