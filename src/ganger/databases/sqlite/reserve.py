"""Space kept for results: a file of a few megabytes that is given up when the disk is full.

A full disk must refuse new work and still record what became of the old. So while there is space, some of it is held
in a file beside the database. When a write fails for lack of space, the file is removed: what it held is enough for
the units that do not ask for space, and those that do are refused until the reserve could be made again. The refusal
begins early, as soon as less than the reserve's own size is free, so that the reserve itself is seldom touched.
"""

from contextlib import suppress
from pathlib import Path

from ganger.core.clock import Moment
from ganger.databases.sqlite.limits import Limits
from ganger.databases.sqlite.place import Host, Place
from ganger.databases.sqlite.probes import Probe


class Reserve:
    """`full` says that only the reserve is left, or not even that."""

    __slots__ = ("_folder", "_held", "_host", "_limits", "_looked", "_place", "_probe", "full")

    def __init__(self, place: Place, host: Host, limits: Limits, probe: Probe) -> None:
        self._place = place
        # Made once: a path takes longer to make than to ask about.
        self._folder = place.folder
        self._host = host
        self._limits = limits
        self._probe = probe
        self._held = _is_whole(place.reserve, limits.reserve_bytes)
        self._looked: Moment | None = None
        self.full = False

    def look(self, now: Moment, owed: int = 0) -> None:
        """See how much is free, at most every half second, and hold or refuse accordingly."""
        if self._looked is None or now - self._looked >= self._limits.space_check_ms:
            self._looked = now
            self._judge(self._measure() - owed)

    def _measure(self) -> int:
        try:
            return self._host.free(self._folder)
        except OSError:
            return 0  # a disk that does not answer has nothing to give

    def _judge(self, free: int) -> None:
        size = self._limits.reserve_bytes
        if self._held:
            # A quarter more to come back than to go: a disk at the edge must not flicker.
            self.full = free < (size + size // 4 if self.full else size)
        else:
            self.full = free < 2 * size or not self._hold()

    def _hold(self) -> bool:
        try:
            self._host.allocate(self._place.reserve, self._limits.reserve_bytes)
        except OSError:
            with suppress(OSError):
                self._place.reserve.unlink()
            return False
        self._held = True
        self._probe("reserve.held")
        return True

    def release(self) -> bool:
        """Give the space up because a write found none; False if there was nothing to give."""
        self.full = True
        if not self._held:
            return False
        self._held = False
        try:
            self._place.reserve.unlink(missing_ok=True)
        except OSError:
            return False
        self._probe("reserve.released")
        return True


def _is_whole(path: Path, size: int) -> bool:
    """Whether an earlier owner left its reserve; a crash may have left a piece of one."""
    return path.exists() and path.stat().st_size >= size and path.stat().st_blocks * 512 >= size
