"""Where a database lies: its path, what stands beside it, and the places that are refused."""

import errno
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ganger.core.errors import (
    GangerError,
    StoreBroken,
    StoreFull,
    StoreMissingFolder,
    StoreNotADatabase,
    StoreOnNetworkFilesystem,
    StoreReadOnly,
)

_MOUNTS: Final = Path("/proc/self/mountinfo")
_LONGEST_NAME: Final = 70
_NETWORK: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "fuse.ceph", "fuse.davfs", "fuse.davfs2",
    "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.mfs", "fuse.rclone", "fuse.s3fs", "fuse.smb",
    "fuse.sshfs",
})  # fmt: skip


class Host(Protocol):
    """What the machine says about its disks; a test may say something else."""

    def filesystem(self, folder: Path) -> str:
        """The type of filesystem that the folder lies on, as the kernel names it; empty if unknown."""
        ...

    def free(self, folder: Path) -> int:
        """Bytes that this process may still write there."""
        ...

    def allocate(self, path: Path, size: int) -> None:
        """Make a file whose bytes are really there; OSError if they are not to be had."""
        ...


class LocalHost:
    """The machine itself."""

    def filesystem(self, folder: Path) -> str:
        return find_filesystem(_MOUNTS.read_text(errors="replace"), folder) if _MOUNTS.exists() else ""

    def free(self, folder: Path) -> int:
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize

    def allocate(self, path: Path, size: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Place:
    """The database file and its companions: all in one folder, so that they live and move together."""

    database: Path

    @classmethod
    def of(cls, path: Path) -> "Place":
        """The place that a path means, links followed, so that everyone meets at the same one."""
        return cls(Path(os.path.realpath(path)))

    @property
    def folder(self) -> Path:
        return self.database.parent

    @property
    def lock(self) -> Path:
        return self._beside("owner")

    @property
    def log(self) -> Path:
        return self._beside("wal")

    @property
    def index(self) -> Path:
        """The index of the log."""
        return self._beside("shm")

    @property
    def reserve(self) -> Path:
        return self._beside("reserve")

    def bag(self, client: bytes) -> Path:
        """Where a client keeps the letters that are not run yet."""
        return self._beside(f"bag-{client.hex()}")

    def bags(self) -> list[Path]:
        """Every bag that is there."""
        return find_bags(self.database)

    def damaged(self, what: str) -> Path:
        """Where something damaged is kept."""
        return self._beside(f"damaged-{what}")

    def find_damaged(self) -> list[Path]:
        """Everything damaged that is kept."""
        return _find_beside(self.database, "damaged-")

    @property
    def socket(self) -> Path:
        name = f"{self.database.name}-socket"
        if len(os.fsencode(name)) <= _LONGEST_NAME:
            return self.folder / name
        # A socket's address is short: a long name is told apart by its hash.
        return self.folder / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}-socket"

    def _beside(self, what: str) -> Path:
        return self.folder / f"{self.database.name}-{what}"


def find_bags(database: Path) -> list[Path]:
    """The bags beside a database."""
    return _find_beside(database, "bag-")


def _find_beside(database: Path, what: str) -> list[Path]:
    prefix = f"{database.name}-{what}"
    return sorted(database.parent / name for name in os.listdir(database.parent) if name.startswith(prefix))


def find_filesystem(mounts: str, folder: Path) -> str:
    """The type of the mount that holds a folder, from the text of mountinfo; the last of equals hides the others."""
    best, found = -1, ""
    for line in mounts.splitlines():
        mount, _, rest = line.partition(" - ")
        point = Path(_unescape(mount.split(" ")[4]))
        if (folder == point or point in folder.parents) and len(point.parts) >= best:
            best, found = len(point.parts), rest.split(" ")[0]
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), text)


def refuse_place(place: Place, host: Host) -> None:
    """Raise if no database can live here: no folder, a network filesystem, a folder in place of a file, no writing."""
    if not place.folder.is_dir():
        raise StoreMissingFolder(f"there is no folder {place.folder}: make it first", path=str(place.folder))
    filesystem = host.filesystem(place.folder)
    if filesystem in _NETWORK:
        raise StoreOnNetworkFilesystem(
            f"{place.folder} is on a network filesystem ({filesystem}), where locks cannot be trusted: "
            "put the file on a local disk",
            path=str(place.database),
            filesystem=filesystem,
        )
    if place.database.exists() and not place.database.is_file():
        raise StoreNotADatabase(f"{place.database} is not a file: name another one", path=str(place.database))
    _refuse_read_only(place)


def _refuse_read_only(place: Place) -> None:
    mounted_read_only = bool(os.statvfs(place.folder).f_flag & os.ST_RDONLY)
    for path in (place.folder, place.database):
        if path.exists() and (mounted_read_only or not os.access(path, os.W_OK)):
            raise StoreReadOnly(
                f"{path} cannot be written by this process: change its permissions or name another file",
                path=str(path),
            )


def explain(error: OSError, place: Place) -> GangerError:
    """The error of the tree for a companion file that could not be made."""
    detail = f"{place.folder}: {error.strerror}"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreFull(f"no space is left in {detail}: free some", path=str(place.database))
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreReadOnly(
            f"this process may not write in {detail}: change the permissions", path=str(place.database)
        )
    return StoreBroken(f"cannot work in {detail}", path=str(place.database))
