"""The functions that nodes run here. The store is that of the environment."""

from __future__ import annotations

import time
from pathlib import Path

from ganger import Ganger
from ganger.client.calls import Call, command

app = Ganger(upkeep=False)


@app.task
def nap(seconds: float) -> None:
    time.sleep(seconds)


@app.task
def warm(seconds: float) -> None:
    """Under a name of its own, so that a node learns nothing of the others."""
    time.sleep(seconds)


@app.task
def report(notes: str, name: str, seconds: float) -> None:
    """Sleep, and note when it began and ended."""
    note(notes, "begin", name)
    time.sleep(seconds)
    note(notes, "end", name)


def note(notes: str, edge: str, name: str) -> None:
    with Path(notes).open("a") as file:
        file.write(f"{edge} {name} {time.time():.6f}\n")


_SCRIPT = 'echo begin "$1" $EPOCHREALTIME >>"$0"; sleep "$2"; echo end "$1" $EPOCHREALTIME >>"$0"'


def call_nap(kind: str, seconds: float) -> Call[object]:
    return nap.bind(seconds) if kind == "function" else command(["sleep", str(seconds)])


def call_report(kind: str, notes: Path, name: str, seconds: float) -> Call[object]:
    if kind == "function":
        return report.bind(str(notes), name, seconds)
    return command(["bash", "-c", _SCRIPT, str(notes), name, str(seconds)])
