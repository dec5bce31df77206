"""How long a program takes that only begins: bare Python, `import ganger`, and `ganger ls`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.contender import script
from bench.place import ROOT

_LISTED = 50


def time_startups(folder: Path, *, times: int) -> tuple[float, float, float]:
    """The median milliseconds of each, taken in turns; the first run of each, which may compile, does not count."""
    store = f"sqlite:{folder / 'ganger.db'}"
    _fill(store)
    commands = (
        (sys.executable, "-c", "pass"),
        (sys.executable, "-c", "import ganger"),
        (script("ganger"), "ls", "--store", store),
    )
    for command in commands:
        _time(command)
    taken = [[_time(command) for command in commands] for _ in range(times)]
    bare, imported, listed = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
    return bare, imported, listed


def _fill(store: str) -> None:
    from ganger import Ganger
    from ganger.client import command

    with Ganger(store) as app:
        app.send([command(["true"])] * _LISTED)


def _time(command: Sequence[str]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    return time.perf_counter() - began
