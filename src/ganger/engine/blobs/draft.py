"""Content on its way into the folder: written aside, synced, and only then given its name.

What can go wrong, and why this is right. The order is: write, sync the file, rename, sync the folder, return. A crash
before the rename leaves a file without a name, which the sweep removes; after it the file under the name is whole,
because it was synced before; after the return it cannot be gone, because the name was synced too. A failed sync is
not tried again: the file is dropped, and the next put writes a new one from the start.

A draft always takes the name, also where an object bears it already. So no put relies on bytes or on a name that an
earlier one may not have brought to the disk, a damaged object is replaced by a good one, and the object is young
again. Who reads the old file goes on reading it.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Final

from ganger.engine.blob import Birth, BlobRef
from ganger.engine.blobs.blocks import Digest
from ganger.engine.blobs.seal import Seal, pack_seal
from ganger.runtime.disk import Probe, locked_folder, translated, write_whole

PROBES: Final = (
    "blob.create",
    "blob.write",
    "blob.seal",
    "blob.sync",
    "blob.rename",
    "blob.sync_folder",
    "blob.stored",
)

_AHEAD: Final = 1 << 20
"""So many bytes are written before the disk is given them: one sync of a large file would hold up everybody's."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Draft:
    """One file being written. Making it does not touch the disk, so that a cancelled put knows what to clear away."""

    def __init__(self, path: Path, probe: Probe) -> None:
        self._path = path
        self._probe = probe
        self._digest = Digest()
        self._sums = bytearray()
        self._ahead = 0
        self._fd: int | None = None
        self._unnamed = False

    def add_first(self, block: bytes | memoryview) -> None:
        """Append the first block, which is often the only one: its sum is the hash so far."""
        self._append(block, self._digest.add(block))

    def add(self, block: bytes | memoryview) -> None:
        """Append another block; all but the last are of the full size. Its part of the hash is made by `follow`."""
        self._append(block, hashlib.sha256(block).digest())

    def follow(self, block: bytes | memoryview) -> None:
        """Take a block into the hash, in order; beside `add`, in another thread: both take as long."""
        self._digest.follow(block)

    def _append(self, block: bytes | memoryview, found: bytes) -> None:
        with translated("write a blob"):
            fd = self._open()
            self._sums += found
            self._probe("blob.write")
            write_whole(fd, block)
            self._ahead += len(block)

    def is_ahead(self) -> bool:
        """Is the disk to be given what was written? True once for so much of it, and never while a block is added."""
        if self._ahead <= _AHEAD:
            return False
        self._ahead = 0
        return True

    def write_out(self) -> None:
        """Bring what was written to the disk; blocks may be added meanwhile, in another thread."""
        with translated("write a blob"):
            self._probe("blob.sync")
            os.fdatasync(self._open())

    def publish(self, shelves: Path, birth: Birth) -> BlobRef:
        """Make it durable under its name, in the shelf that its hash begins with."""
        ref = BlobRef(self._digest.hash, self._digest.size)
        with translated("store a blob"):
            self._finish(Seal(ref, birth, bytes(self._sums)))
            self._rename(shelves / ref.hash[:2], ref.hash[2:])
        self._probe("blob.stored")
        return ref

    def _finish(self, seal: Seal) -> None:
        fd = self._open()
        self._probe("blob.seal")
        write_whole(fd, pack_seal(seal))
        self._probe("blob.sync")
        os.fsync(fd)

    def _rename(self, shelf: Path, name: str) -> None:
        # Shared among writers; a removal takes it alone, so it cannot judge one file by its age and unlink another.
        with locked_folder(shelf, fcntl.LOCK_SH) as folder:
            self._probe("blob.rename")
            os.rename(self._path, name, dst_dir_fd=folder)
            self._unnamed = False
            self._probe("blob.sync_folder")
            os.fsync(folder)

    def _open(self) -> int:
        if self._fd is None:
            self._probe("blob.create")
            self._fd = os.open(self._path, _CREATE, 0o600)
            self._unnamed = True
            # It tells a sweep that the writer lives, and ends with the process; shared, so that no reader waits for it.
            fcntl.flock(self._fd, fcntl.LOCK_SH)
        return self._fd

    def close(self) -> None:
        """Let go of the file, and of its bytes if it got no name. May be called again."""
        fd, self._fd = self._fd, None
        unnamed, self._unnamed = self._unnamed, False
        try:
            if unnamed:
                self._path.unlink(missing_ok=True)
        finally:
            if fd is not None:
                os.close(fd)
