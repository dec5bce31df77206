"""Start a program in its own session, marked, in its cell, with its limits; and say in plain words why it cannot be.

Most programs are started by posix_spawn, which borrows our memory instead of copying it and costs a third of a fork.
What it cannot set (working directory, mark, cgroup, open files) the guardian sets on itself for that moment; it has one
thread, so nobody else sees it. Limits that could not be taken back from ourselves need a fork.
"""

import errno
import fcntl
import os
import resource
import signal
import struct
from typing import Final, NamedTuple, NoReturn

from ganger.node.guardian.mark import VARIABLE, Mark
from ganger.node.guardian.messages import Start
from ganger.node.isolation import Bounds, Cell, Cgroups, confine

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_PLAIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SCRIPT: Final = 3
_DEFAULTED: Final = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD,
)  # fmt: skip
_ERRNO: Final = struct.Struct("i")
_MACHINE: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO})


class CannotStart(Exception):
    """The program is at fault: `code` is what a shell would exit with, None if a shell has none."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Ports(NamedTuple):
    """The descriptors that the program gets: what it reads, where it writes, and its script."""

    stdin: int
    stdout: int
    stderr: int
    script: int | None = None

    def numbered(self) -> list[tuple[int, int]]:
        pairs = [(self.stdin, 0), (self.stdout, 1), (self.stderr, 2)]
        return pairs if self.script is None else [*pairs, (self.script, _SCRIPT)]


class Program(NamedTuple):
    path: str
    argv: list[str]
    environment: dict[str, str]
    ports: Ports
    bounds: Bounds


class Spawner:
    """Starts programs for one guardian."""

    def __init__(self, mark: Mark, cgroups: Cgroups | None, is_strict: bool) -> None:
        self._mark = mark
        self._cgroups = cgroups
        self._is_strict = is_strict
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._real_time = resource.getrlimit(resource.RLIMIT_RTTIME)
        # Each attempt needs a few descriptors of ours; programs get the bound that we were given.
        self._take_files(self._files[1])

    def lend_cell(self, order: Start) -> Cell | None:
        """What it is born in: a cell where that is insisted on, or where its memory is bounded."""
        if self._cgroups is None or not (self._is_strict or order.caps.memory is not None):
            return None
        return self._cgroups.lend()

    def lodge(self, pid: int) -> Cell | None:
        """A cell for a process that runs already. OSError: it stays where it is."""
        if self._cgroups is None:
            return None
        cell = self._cgroups.lend()
        try:
            cell.admit(pid)
        except OSError:
            self._cgroups.give_back(cell)
            raise
        return cell

    def give_back(self, cell: Cell | None) -> None:
        if self._cgroups is not None and cell is not None:
            self._cgroups.give_back(cell)

    def spawn(self, order: Start, serial: int, cell: Cell | None, writers: list[int]) -> int:
        """The pid of the program. CannotStart: the task is at fault. OSError: the machine is."""
        environment = order.environment | {VARIABLE: self._mark.variable(order.task, order.fence)}
        stdin = None if order.stdin is None else _hold(order.stdin)
        script = None if order.script is None else _hold(order.script)
        try:
            _enter(order.cwd)
            path = find_program(order.argv[0] if order.argv else "", environment.get("PATH", _PLAIN_PATH))
            ports = Ports(self._null if stdin is None else stdin, writers[0], writers[-1], script)
            return self._bear(Program(path, order.argv, environment, ports, _bound(order, cell)), serial, cell)
        finally:
            # Whoever stands in a folder keeps its filesystem from being unmounted.
            os.chdir("/")
            for fd in (stdin, script):
                if fd is not None:
                    os.close(fd)

    def _bear(self, program: Program, serial: int, cell: Cell | None) -> int:
        """For a moment we are what the program shall be: marked, in its cell, with fewer files."""
        resource.setrlimit(resource.RLIMIT_RTTIME, (self._mark.limit(serial), self._real_time[1]))
        self._take_files(self._files[0])
        try:
            if cell is not None:
                cell.enter()
            return _launch(program)
        finally:
            if cell is not None and self._cgroups is not None:
                self._cgroups.leave()
            self._take_files(self._files[1])
            resource.setrlimit(resource.RLIMIT_RTTIME, self._real_time)

    def _take_files(self, soft: int) -> None:
        if self._files[0] != self._files[1]:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, self._files[1]))


def _bound(order: Start, cell: Cell | None) -> Bounds:
    caps = order.caps
    memory = caps.memory
    if memory is not None and cell is not None and cell.bound_memory(memory):
        memory = None
    return Bounds(caps.cpu, memory, caps.files)


def _hold(text: bytes) -> int:
    """A descriptor from which the text can be read: a file in memory, so that nobody has to feed a pipe."""
    writer = os.memfd_create("ganger", os.MFD_CLOEXEC)
    try:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(writer, rest) :]
        return os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writer)


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except (FileNotFoundError, NotADirectoryError):
        raise CannotStart(None, f"there is no working directory {cwd}: make it, or name another one") from None
    except PermissionError:
        raise CannotStart(None, f"the working directory {cwd} may not be entered: change its permissions") from None
    except (OSError, ValueError) as error:
        raise CannotStart(None, f"the working directory {cwd!r} cannot be used: {error}") from None


def find_program(name: str, path: str) -> str:
    """Where a program is: as named if that is a path, else the first of that name in PATH that may be executed."""
    if not name or "\0" in name:
        raise CannotStart(NOT_FOUND, "the command names no program: give one as the first of argv")
    if "/" in name:
        return name
    places = [f"{folder or '.'}/{name}" for folder in path.split(":")]
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return place
    found = next(filter(os.path.isfile, places), None)
    if found is None:
        raise CannotStart(NOT_FOUND, f"there is no program {name} in PATH ({path}): install it, or name it by its path")
    return found


def _explain(error: OSError, path: str) -> CannotStart:
    match error.errno:
        case errno.ENOENT if not os.path.exists(path):
            return CannotStart(NOT_FOUND, f"there is no program {path}: install it, or name another one")
        case errno.ENOENT:
            return CannotStart(
                NOT_EXECUTABLE, f"{path} cannot be started: the interpreter in its first line is missing"
            )
        case errno.EACCES | errno.EPERM:
            return CannotStart(NOT_EXECUTABLE, f"{path} may not be executed: it needs the permission (chmod +x)")
        case errno.ENOEXEC:
            return CannotStart(NOT_EXECUTABLE, f"{path} is not a program, and has no #! line that names one")
        case errno.E2BIG:
            return CannotStart(NOT_EXECUTABLE, f"{path} was given more arguments and environment than the system takes")
        case _:
            return CannotStart(NOT_EXECUTABLE, f"{path} cannot be started: {error.strerror}")


def _launch(program: Program) -> int:
    try:
        return _fork(program) if program.bounds else _spawn(program)
    except ValueError as error:
        raise CannotStart(NOT_EXECUTABLE, f"{program.path} cannot be started: {error}") from error
    except OSError as error:
        if error.errno in _MACHINE:
            raise
        raise _explain(error, program.path) from error


def _spawn(program: Program) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in program.ports.numbered()]
    return os.posix_spawn(
        program.path,
        program.argv,
        program.environment,
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULTED,
    )


def _fork(program: Program) -> int:
    """As posix_spawn, with limits: the child's errno comes through a pipe that a successful exec closes."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(reader, "rb") as errors:
        try:
            pid = os.fork()
            if pid == 0:
                _become(program, writer)
        finally:
            os.close(writer)
        told = errors.read(_ERRNO.size)
    if told:
        os.waitpid(pid, 0)
        number = _ERRNO.unpack(told)[0]
        raise OSError(number, os.strerror(number))
    return pid


def _become(program: Program, errors: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        for number in _DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        errors = _place(program.ports, errors)
        confine(program.bounds)
        os.execve(program.path, program.argv, program.environment)
    except OSError as error:
        os.write(errors, _ERRNO.pack(error.errno or errno.EIO))
    except ValueError:
        os.write(errors, _ERRNO.pack(errno.EINVAL))
    finally:
        os._exit(NOT_FOUND)


def _place(ports: Ports, errors: int) -> int:
    """Put the descriptors where the program expects them; none that is still needed may lie in the way."""
    lifted = [(_lift(source), target) for source, target in ports.numbered()]
    errors = _lift(errors)
    for source, target in lifted:
        os.dup2(source, target, inheritable=True)
    return errors


def _lift(fd: int) -> int:
    """A copy of a descriptor above those that a program is given."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SCRIPT + 1)
