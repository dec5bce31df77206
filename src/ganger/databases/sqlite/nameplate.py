"""What the lock file says about the owner."""

import os
from pathlib import Path

import msgspec

from ganger.core.clock import Wall
from ganger.databases.sqlite.place import Place


class Nameplate(msgspec.Struct, frozen=True):
    """For people, and for an heir who must know whether the disk failed."""

    pid: int
    protocol: int
    minimum: int
    since: Wall
    sound: bool = True
    files: tuple[int, int, int] = (0, 0, 0)
    """The numbers of the database, its log and the log's index: if one is another's, they do not belong together."""

    def names_another(self, place: Place) -> bool:
        """Is the database that lies there another than the one it was signed for? Then the log beside it is not its."""
        database, log, _ = self.files
        return bool(database and log) and _number(place.database) not in (database, 0) and _number(place.log) == log

    def lives(self) -> bool:
        """Is there a process of this number?"""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def read_nameplate(place: Place) -> Nameplate | None:
    """Who sits, or sat last, on the seat; None if the plate is blank."""
    try:
        return msgspec.json.decode(place.lock.read_bytes(), type=Nameplate)
    except (OSError, msgspec.MsgspecError):
        return None


def _number(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
