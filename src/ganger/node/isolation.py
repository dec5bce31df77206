"""Walls around an attempt, as far as the machine lets us build them.

A child that daemonises leaves its session, its process group and its parent behind; so none of those tells reliably
whose it is. What does:

- *The subreaper.* Whoever loses its parent becomes our child. Nothing below us can get out from below us by forking.
- *The cgroup*, where the machine allows one: what is in it bears its children into it. To be born in it is certain and
  dear: the one who spawns enters it just before, and leaves it after. To be moved in later is cheaper, and leaves out
  whom it bore until then; that is for those who go on, beside a mark that leaves out nobody.
- *Limits* are inherited by everything below, and only ever lowered.

A cgroup is used only where nobody else claims to manage it: systemd owns the tree that it runs, except for what it has
marked as delegated.
"""

import ctypes
import os
import resource
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

_SET_CHILD_SUBREAPER: Final = 36
_SYSTEMD: Final = "/run/systemd/system"
_SPARE_CELLS: Final = 32
_DELEGATED: Final = ("trusted.delegate", "user.delegate")


class Isolation(StrEnum):
    """Which walls are asked for: `auto` takes cgroups where they are allowed, `mark` never; `cgroup` insists on them,
    and everything is born in one.
    """

    AUTO = "auto"
    MARK = "mark"
    CGROUP = "cgroup"


def become_subreaper() -> None:
    """Every orphan below this process becomes its child."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"cannot become a subreaper: {os.strerror(code)}")


class Bounds(NamedTuple):
    """Limits of a process and all below it: seconds of CPU time, bytes of memory, open files. None is none."""

    cpu: int | None = None
    memory: int | None = None
    files: int | None = None

    def __bool__(self) -> bool:
        return any(bound is not None for bound in self)


def confine(bounds: Bounds) -> None:
    """Lower this process's limits; called between fork and exec."""
    if bounds.cpu is not None:
        # SIGXCPU says why; whoever ignores it is killed a second later.
        _lower(resource.RLIMIT_CPU, bounds.cpu, bounds.cpu + 1)
    if bounds.memory is not None:
        _lower(resource.RLIMIT_AS, bounds.memory, bounds.memory)
    if bounds.files is not None:
        _lower(resource.RLIMIT_NOFILE, bounds.files, bounds.files)


def _lower(what: int, soft: int, hard: int) -> None:
    _, top = resource.getrlimit(what)
    if top != resource.RLIM_INFINITY:
        soft, hard = min(soft, top), min(hard, top)
    resource.setrlimit(what, (soft, hard))


class Cell:
    """The cgroup of one attempt. Its files stay open: each is used several times in the life of every attempt."""

    __slots__ = ("_events", "_path", "_procs", "is_plain")

    def __init__(self, path: str) -> None:
        self._path = path
        os.mkdir(path)
        self._procs = os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._events = os.open(f"{path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        self.is_plain = True

    def bound_memory(self, most: int) -> bool:
        """False if the machine lets us bound no memory here."""
        try:
            _write(f"{self._path}/memory.max", str(most))
        except FileNotFoundError:
            return False
        self.is_plain = False
        return True

    def enter(self) -> None:
        """Move this process in, so that what it spawns is born there."""
        os.write(self._procs, b"0")

    def admit(self, pid: int) -> None:
        """Move a process in. Whom it bore before stays outside. A process that has ended is let be."""
        with suppress(ProcessLookupError):
            os.write(self._procs, str(pid).encode())

    def members(self) -> list[int]:
        return [int(line) for line in _read(f"{self._path}/cgroup.procs").split()]

    def kill(self) -> None:
        """All at once, those being forked at this moment too."""
        _write(f"{self._path}/cgroup.kill", "1")

    def is_empty(self) -> bool:
        return b"populated 0" in os.pread(self._events, 4096, 0)

    def ran_out_of_memory(self) -> bool:
        try:
            events = _read(f"{self._path}/memory.events")
        except FileNotFoundError:
            return False
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in events.splitlines())

    def is_as_new(self) -> bool:
        """Nobody is in it, nobody has frozen it, bounded it, or made cgroups inside: a folder has a link per folder."""
        events = os.pread(self._events, 4096, 0)
        clean = b"populated 0" in events and b"frozen 0" in events
        return clean and self.is_plain and os.stat(self._path).st_nlink == 2

    def remove(self) -> None:
        os.close(self._procs)
        os.close(self._events)
        _remove_tree(self._path)


class Cgroups:
    """The folder of cells of one guardian, below the cgroup that the guardian itself lives in."""

    def __init__(self, home: str, name: str) -> None:
        self.path = f"{home}/{name}"
        self._home = os.open(f"{home}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._free: list[Cell] = []
        self._made = 0
        os.makedirs(self.path, exist_ok=True)
        for folder in (home, self.path):
            # Controllers are a gain and no need: without them limits are kept by rlimits.
            with suppress(OSError):
                _write(f"{folder}/cgroup.subtree_control", "+memory")

    def lend(self) -> Cell:
        """An empty cell."""
        if self._free:
            return self._free.pop()
        self._made += 1
        return Cell(f"{self.path}/{self._made}")

    def give_back(self, cell: Cell) -> None:
        """The cell is empty again. Making one costs more than using it, so a few are kept."""
        if len(self._free) < _SPARE_CELLS and cell.is_as_new():
            self._free.append(cell)
        else:
            cell.remove()

    def leave(self) -> None:
        """Move this process back home. RuntimeError: it must not go on, or it would be killed with its children."""
        try:
            os.write(self._home, b"0")
        except OSError as error:
            raise RuntimeError(f"cannot go back to the own cgroup: {error}") from error

    def close(self) -> None:
        """Every cell must be empty."""
        for cell in self._free:
            cell.remove()
        os.close(self._home)
        _remove_tree(self.path)


def find_cgroups(name: str) -> Cgroups | None:
    """The cgroups that this process may make, tried out; None where there are none to be had."""
    home = _find_home()
    if home is None or not _is_ours(home):
        return None
    try:
        cgroups = Cgroups(home, name)
        _try_out(cgroups)
    except OSError:
        return None
    return cgroups


def _try_out(cgroups: Cgroups) -> None:
    cell = cgroups.lend()
    try:
        cell.enter()
        cgroups.leave()
        cell.kill()
    finally:
        cell.remove()


def _find_home() -> str | None:
    """The folder of this process's own cgroup (v2), if that is mounted anywhere."""
    try:
        own = next(line[3:] for line in _read("/proc/self/cgroup").splitlines() if line.startswith("0::"))
        mount = next(it for it in _read("/proc/self/mountinfo").splitlines() if " - cgroup2 " in it)
    except (OSError, StopIteration):
        return None
    home = os.path.normpath(f"{mount.split(' ')[4]}/{own}")
    return home if os.path.exists(f"{home}/cgroup.procs") else None


def _is_ours(home: str) -> bool:
    if not os.path.isdir(_SYSTEMD):
        return True
    return any(_has_attribute(home, name) for name in _DELEGATED)


def _has_attribute(path: str, name: str) -> bool:
    try:
        return os.getxattr(path, name) == b"1"
    except OSError:
        return False


def kill_cgroups(path: str) -> None:
    """End everything in the cells that another guardian left there."""
    with suppress(FileNotFoundError):
        _write(f"{path}/cgroup.kill", "1")


def is_populated(path: str) -> bool:
    try:
        return "populated 1" in _read(f"{path}/cgroup.events")
    except FileNotFoundError:
        return False


def remove_cgroups(path: str) -> None:
    with suppress(FileNotFoundError):
        _remove_tree(path)


def _remove_tree(path: str) -> None:
    for name in _subfolders(path):
        _remove_tree(f"{path}/{name}")
    os.rmdir(path)


def _subfolders(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    # One write is one command to the kernel: no buffer may split it.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
