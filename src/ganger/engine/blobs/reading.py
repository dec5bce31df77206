"""An object's file, open for reading: pinned by a lock as long as it is open, verified block by block."""

import fcntl
import hashlib
from contextlib import ExitStack
from pathlib import Path

from ganger.core.errors import BlobCorrupt
from ganger.engine.blob import BlobHash, BlobRef
from ganger.engine.blobs.blocks import BLOCK, Digest
from ganger.engine.blobs.folder import opened_object, seal_of
from ganger.engine.blobs.seal import Seal
from ganger.runtime.disk import read_whole, translated


class Reading:
    """One open object. It is made without touching the disk, so that a cancelled read knows what to close."""

    def __init__(self, path: Path, name: BlobHash) -> None:
        self._path = path
        self._name = name
        self._held = ExitStack()
        self._open: tuple[int, Seal] | None = None

    def open(self) -> BlobRef:
        with translated(f"open blob {self._name}"):
            fd = self._held.enter_context(opened_object(self._path, self._name))
            fcntl.flock(fd, fcntl.LOCK_SH)
            seal = seal_of(fd, self._name)
        self._open = fd, seal
        return seal.ref

    def take(self, number: int) -> bytes:
        """A block that has the sum it was put with."""
        seal, block = self._read(number)
        found = hashlib.sha256(block).digest()
        if found != seal.sum(number):
            raise BlobCorrupt(f"blob {self._name} is damaged in block {number} of 1 MiB", hash=self._name)
        return block

    def compare(self, whole: Digest) -> None:
        """All of it was taken: it must have the hash too, whatever the sums say."""
        if whole.hash != self._name:
            raise BlobCorrupt(f"blob {self._name} is damaged: its content has the hash {whole.hash}", hash=self._name)

    def close(self) -> None:
        """Let the object go. May be called again."""
        self._open = None
        self._held.close()

    def _read(self, number: int) -> tuple[Seal, bytes]:
        if self._open is None:
            raise ValueError("an object is opened before it is read, and not read after it is closed")
        fd, seal = self._open
        start = number * BLOCK
        with translated(f"read blob {self._name}"):
            return seal, read_whole(fd, min(BLOCK, seal.ref.size - start), start)
