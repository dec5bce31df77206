"""Two SQLite file systems for proofs: one records for `PowerLog`, one fails on demand.

Both sit on another file system (the default one, or each other) and pass every call on, so write-ahead logging, locks
and several connections work as always. Two things escape them. The shared-memory index of the log (`-shm`) is opened
by the file system below, not through a file object: it cannot be recorded, which is right since no reboot keeps it,
and its calls cannot be failed. And an error raised here reaches the statement that caused the call even where SQLite
by itself would go on: an automatic checkpoint that fails after a commit raises from that commit, which stands. Whoever
audits takes such a commit as unknown.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

import apsw

from ganger.testing.power import FolderSynced, PowerLog, Removed, Synced, Truncated, Wrote

Call = Literal["xOpen", "xRead", "xWrite", "xSync", "xTruncate", "xFileSize", "xLock", "xDelete", "xAccess"]
CALLS: Final[tuple[Call, ...]] = get_args(Call)

_IO_ERRORS: Final[dict[Call, int]] = {
    "xOpen": apsw.SQLITE_CANTOPEN,
    "xRead": apsw.SQLITE_IOERR_READ,
    "xWrite": apsw.SQLITE_IOERR_WRITE,
    "xSync": apsw.SQLITE_IOERR_FSYNC,
    "xTruncate": apsw.SQLITE_IOERR_TRUNCATE,
    "xFileSize": apsw.SQLITE_IOERR_FSTAT,
    "xLock": apsw.SQLITE_IOERR_LOCK,
    "xDelete": apsw.SQLITE_IOERR_DELETE,
    "xAccess": apsw.SQLITE_IOERR_ACCESS,
}
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL

FileName = str | apsw.URIFilename | None


class PowerVfs(apsw.VFS):
    """Records in a `PowerLog` what SQLite does to the files below the log's folder. Keep it while files are open."""

    def __init__(self, name: str, log: PowerLog, *, base: str = "") -> None:
        super().__init__(name, base)
        self.name = name
        self._log = log
        self._base = base

    def xOpen(self, name: FileName, flags: list[int]) -> apsw.VFSFile:
        recorded = self._log.name(Path(_text(name))) if name else None
        if recorded is None:
            return apsw.VFSFile(self._base, name, flags)
        return _PowerFile(self._base, name, flags, self._log, recorded)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        recorded = self._log.name(Path(filename))
        if recorded is not None:
            self._log.record(Removed(recorded))
            if syncdir:
                self._log.record(FolderSynced(Path(recorded).parent.as_posix()))


class _PowerFile(apsw.VFSFile):
    def __init__(self, base: str, name: FileName, flags: list[int], log: PowerLog, recorded: str) -> None:
        existed = (log.folder / recorded).exists()
        super().__init__(base, name, flags)
        self._log = log
        self._name = recorded
        # SQLite syncs the folder with the first sync of a journal that it may have created, and at no other time.
        self._syncs_folder = bool(flags[0] & _JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        log.meet(recorded, existed=existed)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._log.record(Wrote(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._log.record(Truncated(self._name, newsize))

    def xSync(self, flags: int) -> None:
        since = len(self._log)
        super().xSync(flags)
        self._log.record(Synced(self._name, since))
        if self._syncs_folder:
            self._syncs_folder = False
            self._log.record(FolderSynced(Path(self._name).parent.as_posix()))


@dataclass(frozen=True, slots=True)
class Fault:
    """Which calls fail, and how."""

    call: Call | None = None
    """The kind of call that is counted and failed; None: any of `CALLS`."""

    error: int | None = None
    """The SQLite result code, extended or not, such as `apsw.SQLITE_FULL`; None: the I/O error of the call's kind."""

    at: int = 1
    """The first call that fails, counted from 1 when the fault is armed."""

    times: int | None = 1
    """How many calls fail in a row; None: all, until healed."""

    short: bool = False
    """A write that fails has first written half of its bytes."""

    suffix: str = ""
    """Only files whose name ends so are counted, such as `-wal`."""

    def raised_by(self, call: Call) -> Exception:
        return apsw.exception_for(_IO_ERRORS[call] if self.error is None else self.error)


class FaultVfs(apsw.VFS):
    """Passes every call on until a fault is armed; then counts calls and fails those that the fault names.

    The error reaches the program as SQLite's own would: `apsw.IOError`, `apsw.FullError` or `apsw.CantOpenError` with
    the extended code. `calls` is how many calls were counted since the last `arm`, `fired` how many of them failed.
    Safe from several threads. Keep it while files are open.
    """

    def __init__(self, name: str, fault: Fault | None = None, *, base: str = "") -> None:
        super().__init__(name, base)
        self.name = name
        self.base = base
        self._lock = threading.Lock()
        self._fault = fault
        self.calls = 0
        self.fired = 0

    def arm(self, fault: Fault) -> None:
        """Replace the fault and count from the beginning."""
        with self._lock:
            self._fault, self.calls, self.fired = fault, 0, 0

    def heal(self) -> None:
        """Fail nothing any more; the counts stay."""
        with self._lock:
            self._fault = None

    def strike(self, call: Call, name: str) -> Fault | None:
        """Count one call; the fault if this call is to fail."""
        with self._lock:
            fault = self._fault
            if fault is None or fault.call not in (None, call) or not name.endswith(fault.suffix):
                return None
            self.calls += 1
            past = self.calls - fault.at
            if past < 0 or (fault.times is not None and past >= fault.times):
                return None
            self.fired += 1
            return fault

    def check(self, call: Call, name: str) -> None:
        fault = self.strike(call, name)
        if fault is not None:
            raise fault.raised_by(call)

    def xOpen(self, name: FileName, flags: list[int]) -> apsw.VFSFile:
        self.check("xOpen", _text(name))
        return _FaultFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.check("xDelete", filename)
        super().xDelete(filename, syncdir)

    def xAccess(self, pathname: str, flags: int) -> bool:
        self.check("xAccess", pathname)
        return super().xAccess(pathname, flags)


class _FaultFile(apsw.VFSFile):
    def __init__(self, vfs: FaultVfs, name: FileName, flags: list[int]) -> None:
        super().__init__(vfs.base, name, flags)
        self._vfs = vfs
        self._name = _text(name)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._vfs.check("xRead", self._name)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        fault = self._vfs.strike("xWrite", self._name)
        if fault is None or fault.short:
            super().xWrite(data if fault is None else data[: len(data) // 2], offset)
        if fault is not None:
            raise fault.raised_by("xWrite")

    def xSync(self, flags: int) -> None:
        self._vfs.check("xSync", self._name)
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self._vfs.check("xTruncate", self._name)
        super().xTruncate(newsize)

    def xFileSize(self) -> int:
        self._vfs.check("xFileSize", self._name)
        return super().xFileSize()

    def xLock(self, level: int) -> None:
        self._vfs.check("xLock", self._name)
        super().xLock(level)


def fail_each_call(vfs: FaultVfs, fault: Fault, scenario: Callable[[int], None], *, limit: int = 2_000) -> int:
    """Run the scenario with call 1 failing, then with call 2, until it passes untouched; how many runs were struck.

    The scenario is given the number of the call, starts from a fresh file, and checks itself what must hold after.
    """
    for number in range(1, limit + 1):
        vfs.arm(replace(fault, at=number))
        scenario(number)
        if not vfs.fired:
            return number - 1
    return limit


def _text(name: FileName) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else name or ""
