"""A command that runs under a lock: started when the lock is held, killed with all that it has started when it is lost.

Everything below this process stays below it (it is their subreaper), so that nothing of the command gets away from a
lock that is lost. If this process is killed, the command is killed with it; what that has started may go on.
"""

import asyncio
import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ganger.cli.printing import tell
from ganger.core.errors import BadInput

if TYPE_CHECKING:
    from ganger.coordination.hold import Hold

LOST_EXIT: Final = 75
"""Try again: the lock was lost while the command ran."""
NOT_STARTED_EXIT: Final = 69
_DEATH_SIGNAL: Final = 1
_SIGNALLED: Final = 128
_LINUX: Final = sys.platform == "linux"


async def run_under(hold: "Hold", command: Sequence[str]) -> int:
    """Run the command and give the lock back; its exit code, 128 + n if signal n ended it, or 75 if the lock was
    lost."""
    running: list[asyncio.subprocess.Process] = []
    loop = asyncio.get_running_loop()
    # A terminal sends Ctrl-C to the command as well: what becomes of that is the command's own affair.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, lambda: _end(running, signal.SIGTERM))
    try:
        process = await _start(hold, command)
        if process is None:
            return NOT_STARTED_EXIT
        running.append(process)
        return await _watch(hold, process)
    finally:
        await hold.release()


async def _start(hold: "Hold", command: Sequence[str]) -> asyncio.subprocess.Process | None:
    from ganger.assembly.settings import find_surroundings
    from ganger.node.isolation import become_subreaper

    if _LINUX:
        become_subreaper()
    told = {"GANGER_LOCK": hold.name, "GANGER_EPOCH": str(hold.epoch)}
    try:
        return await asyncio.create_subprocess_exec(
            *command, env={**find_surroundings(), **told}, preexec_fn=_die_together() if _LINUX else None
        )
    except OSError as error:
        said = error.strerror if error.errno != errno.ENOENT else "there is no such program"
        tell(f"ganger: {command[0]} can not be run: {said}")
        return None


def _die_together() -> Callable[[], None]:
    """Between fork and exec: have the kernel kill the command when this process dies."""
    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(_SIGNALLED + signal.SIGKILL)

    return ask


async def _watch(hold: "Hold", process: asyncio.subprocess.Process) -> int:
    ending, losing = asyncio.ensure_future(process.wait()), asyncio.ensure_future(hold.ended.wait())
    await asyncio.wait([ending, losing], return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        kill_all(process)
        tell(f"ganger: the lock {hold.name!r} was lost, so the command was killed: {hold.reason}")
        await ending
        return LOST_EXIT
    losing.cancel()
    code = ending.result()
    return code if code >= 0 else _SIGNALLED - code


def kill_all(process: asyncio.subprocess.Process) -> None:
    """Kill the command and whatever descends from it."""
    if not _LINUX:
        _end([process], signal.SIGKILL)
        return
    from ganger.node.guardian.tree import kill_tree, read_children

    kill_tree(read_children(os.getpid()), os.getpid())


def _end(running: Iterable[asyncio.subprocess.Process], number: signal.Signals) -> None:
    for process in running:
        if process.returncode is None:
            process.send_signal(number)


def check_command(command: Sequence[str]) -> None:
    if not command:
        raise BadInput("name the command to run under the lock: ganger lock NAME -- COMMAND ARGUMENTS")
