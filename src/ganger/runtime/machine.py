"""How busy and how full this machine is."""

import os
from pathlib import Path
from typing import Final, NamedTuple

_MEMORY: Final = Path("/proc/meminfo")


class Machine(NamedTuple):
    """`load` over the last minute; bytes of memory in use, of so many. What cannot be found out is 0."""

    load: float = 0.0
    memory: int = 0
    size: int = 0


def feel_machine() -> Machine:
    """The machine at this instant. It reads one small file of the kernel."""
    try:
        load, said = os.getloadavg()[0], _MEMORY.read_text("ascii")
    except OSError:
        return Machine()
    found = dict(line.split()[:2] for line in said.splitlines() if len(line.split()) > 1)
    size, free = (int(found.get(name, 0)) * 1024 for name in ("MemTotal:", "MemAvailable:"))
    return Machine(round(load, 2), size - free, size)
