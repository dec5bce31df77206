"""What the lock file says about the owner."""

import os

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
