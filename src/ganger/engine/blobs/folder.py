"""The folder behind `FileBlobs`, in blocking calls: its layout, and what is removed from it.

    format                  the version of this layout, written last: where it is, the rest is there
    objects/ab/cdef...      the content whose hash is abcdef..., and its seal
    drafts/                 content that is being written

Readers, writers and the collector may be of different processes; what keeps them apart are advisory locks of the
system, which a process that dies cannot leave behind. A reader holds a shared lock on the object, a writer on its
draft. Who removes takes the object for itself and, against a put of the same content, the shelf on which it lies.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ganger.core.clock import Clock
from ganger.core.errors import BlobCorrupt, BlobMissing, FormatTooNew, StoreBroken, StoreMissingFolder
from ganger.engine.blob import BlobHash, BlobRef, parse_hash
from ganger.engine.blobs.seal import Seal, read_seal
from ganger.runtime.disk import Probe, locked_folder, opened, read_whole, sync_folder, translated, try_lock

FORMAT: Final = 1

_FORMAT_LINE: Final = re.compile(r"ganger blobs (\d{1,9})\n", re.ASCII)
_NAME: Final = re.compile(r"[0-9a-f]{62}", re.ASCII)
_DRAFT: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SHELVES: Final = tuple(f"{number:02x}" for number in range(256))


class Folder:
    def __init__(self, root: Path, clock: Clock, probe: Probe) -> None:
        self.objects = root / "objects"
        self.drafts = root / "drafts"
        self.shelves = _SHELVES
        self._clock = clock
        self._probe = probe

    def path(self, name: BlobHash) -> Path:
        parse_hash(name)
        return self.objects / name[:2] / name[2:]

    def measure(self, name: BlobHash) -> BlobRef:
        with translated(f"open blob {name}"), opened_object(self.path(name), name) as fd:
            return seal_of(fd, name).ref

    def delete(self, name: BlobHash, older_than: int) -> bool:
        path = self.path(name)
        with translated(f"delete blob {name}"), locked_folder(path.parent, fcntl.LOCK_EX) as shelf:
            try:
                with opened_object(path, name) as fd:
                    return try_lock(fd) and self._age(fd, name) >= older_than and self._unlink(path.name, shelf)
            except BlobMissing:
                return False

    def _unlink(self, name: str, shelf: int) -> bool:
        self._probe("blob.unlink")
        os.unlink(name, dir_fd=shelf)
        self._probe("blob.sync_unlink")
        os.fsync(shelf)
        return True

    def list(self, shelf: str, older_than: int) -> tuple[BlobHash, ...]:
        with translated("list the blobs"):
            names = [BlobHash(shelf + name) for name in os.listdir(self.objects / shelf) if _NAME.fullmatch(name)]
            return tuple(name for name in names if self._is_older(name, older_than))

    def _is_older(self, name: BlobHash, older_than: int) -> bool:
        try:
            with opened_object(self.path(name), name) as fd:
                return self._age(fd, name) >= older_than
        except BlobMissing:
            # Removed since the shelf was listed.
            return False

    def _age(self, fd: int, name: BlobHash) -> int:
        try:
            return seal_of(fd, name).birth.age(self._clock)
        except BlobCorrupt:
            # What is damaged must be collectable too, and the file's own time is all that is left to go by.
            return self._age_of_file(fd)

    def _age_of_file(self, fd: int) -> int:
        return self._clock.wall() - os.fstat(fd).st_mtime_ns // 1_000_000

    def sweep(self, older_than: int) -> int:
        with translated("sweep the drafts"):
            names = filter(_DRAFT.fullmatch, os.listdir(self.drafts))
            return sum(self._sweep_draft(self.drafts / name, older_than) for name in names)

    def _sweep_draft(self, path: Path, older_than: int) -> bool:
        try:
            with opened(path, os.O_RDONLY) as fd:
                left = try_lock(fd) and self._age_of_file(fd) >= older_than
                if left:
                    path.unlink()
                return left
        except FileNotFoundError:
            # Its writer gave it a name, or another sweep was here first.
            return False


@contextmanager
def opened_object(path: Path, name: BlobHash) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise BlobMissing(
            f"blob {name} is not here: it was never put, or collected when no row named it", hash=name
        ) from error
    try:
        yield fd
    finally:
        os.close(fd)


def seal_of(fd: int, name: BlobHash) -> Seal:
    return read_seal(name, os.fstat(fd).st_size, lambda size, offset: read_whole(fd, size, offset))


def prepare(root: Path, token: str) -> None:
    """Make the folder unless it is there. Several processes may do so at once; each finishes what another began."""
    with translated(f"open the blob folder {root}"):
        version = _read_version(root / "format")
        if version is None:
            _lay_out(root, token)
        elif version > FORMAT:
            raise FormatTooNew(
                f"{root} has format {version} and this version knows {FORMAT}: upgrade before opening it",
                found=version,
                known=FORMAT,
            )


def _read_version(path: Path) -> int | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    if not (line := _FORMAT_LINE.fullmatch(text)):
        raise StoreBroken(f"{path} is not the format file of a blob folder: restore it, or choose another folder")
    return int(line[1])


def _lay_out(root: Path, token: str) -> None:
    if not root.parent.is_dir():
        raise StoreMissingFolder(f"{root.parent} is not a folder: make it first", path=str(root.parent))
    drafts, objects = root / "drafts", root / "objects"
    for folder in (root, drafts, objects, *(objects / shelf for shelf in _SHELVES)):
        folder.mkdir(mode=0o700, exist_ok=True)
    for folder in (objects, root, root.parent):
        sync_folder(folder)
    _write_version(root, drafts / token)


def _write_version(root: Path, draft: Path) -> None:
    with draft.open("x") as file:
        file.write(f"ganger blobs {FORMAT}\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, root / "format")
    sync_folder(root)
