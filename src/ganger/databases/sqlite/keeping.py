"""A log that must not be read on is kept under another name, before SQLite would write over it or mix it in."""

import os
import shutil
from pathlib import Path

from ganger.core.clock import Clock
from ganger.databases.sqlite.logfile import read_log
from ganger.databases.sqlite.place import Place
from ganger.runtime.disk import opened, sync_folder, translated
from ganger.runtime.telemetry import Telemetry


def keep_damaged_log(place: Place, clock: Clock, telemetry: Telemetry) -> None:
    """Before SQLite sees it: a damaged log is copied, cut where SQLite would cease to read, and told.

    It is cut so that nobody reads on who knows from before what lay there.
    """
    found = read_log(place.log)
    if found.damage is None:
        return
    kept = place.damaged(f"wal-{clock.wall()}")
    with translated(f"keep the damaged log {place.log}"):
        shutil.copyfile(place.log, kept)
        with opened(kept, os.O_RDWR) as copy:
            os.fchmod(copy, 0o600)
            os.fsync(copy)
        sync_folder(place.folder)
        with opened(place.log, os.O_RDWR) as log:
            os.ftruncate(log, found.end)
            os.fsync(log)
    telemetry.event("log_damaged", path=str(place.log), kept=str(kept), damage=found.damage)


def leave_foreign_log(place: Place, before: tuple[int, int, int], clock: Clock, telemetry: Telemetry) -> None:
    """Another database lies where the last owner had its own, beside the log of that: SQLite would mix the two.

    `before` are the files of the last owner. Its log is kept under another name; its index is of no use to anybody.
    """
    database, log, index = before
    if not database or _number(place.database) in (database, 0):
        return
    with translated(f"part {place.database} from the log of another database"):
        if log and _number(place.log) == log:
            kept = place.damaged(f"wal-{clock.wall()}")
            place.log.rename(kept)
            telemetry.event("log_of_another_database", path=str(place.database), kept=str(kept))
        if index and _number(place.index) == index:
            place.index.unlink()


def _number(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0
