"""How an attempt's own process ended, and what it used: read while the kernel still keeps it."""

import ctypes
import os
import signal
from typing import Final

from ganger.node.guardian.attempt import Attempt
from ganger.node.guardian.mark import read_process
from ganger.node.guardian.messages import Usage

_LIBC: Final = ctypes.CDLL(None)
_WAITID: Final = {"x86_64": 247, "aarch64": 95, "riscv64": 95, "s390x": 281, "ppc64le": 272}.get(os.uname().machine)
_P_PID: Final = 1
_USAGE: Final = ctypes.c_long * 36
"""As much as any `struct rusage` takes; the first five numbers are the CPU times and the largest size of memory."""


def is_dead(attempt: Attempt) -> bool:
    """Has its own process ended? Asked without reaping it."""
    return os.waitid(os.P_PID, attempt.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def note_death(attempt: Attempt) -> None:
    """Take the exit code or signal without reaping, and what is to blame if it used too much."""
    found = os.waitid(os.P_PID, attempt.pid, os.WEXITED | os.WNOWAIT)
    if found is None:
        raise RuntimeError(f"process {attempt.pid} is not dead")
    if found.si_code == os.CLD_EXITED:
        attempt.code = found.si_status
    else:
        attempt.signal = found.si_status
        _blame_limits(attempt)
    attempt.usage = _read_usage(attempt.pid)
    attempt.ended = True


def _blame_limits(attempt: Attempt) -> None:
    caps = attempt.order.caps
    killed = attempt.signal == signal.SIGKILL
    if caps.cpu is not None and (attempt.signal == signal.SIGXCPU or (killed and _cpu_time(attempt.pid) >= caps.cpu)):
        attempt.blame("limit", f"used more than its {caps.cpu} s of CPU time")
    if killed and caps.memory is not None and attempt.cell is not None and attempt.cell.ran_out_of_memory():
        attempt.blame("limit", f"used more than its {caps.memory} bytes of memory")


def _cpu_time(pid: int) -> float:
    stat = read_process(pid, "stat", 4096)
    fields = stat[stat.rfind(b")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0


def _read_usage(pid: int) -> Usage:
    """What Python gives only to who reaps; nothing on a machine whose number for the call we do not know."""
    used = _USAGE()
    if _WAITID is None or _LIBC.syscall(_WAITID, _P_PID, pid, None, os.WEXITED | os.WNOWAIT, used):
        return Usage()
    user, system = used[0] * 1000 + used[1] // 1000, used[2] * 1000 + used[3] // 1000
    return Usage(user, system, used[4] * 1024)


def reap(attempt: Attempt) -> None:
    os.waitpid(attempt.pid, 0)
    if attempt.pidfd >= 0:
        os.close(attempt.pidfd)
