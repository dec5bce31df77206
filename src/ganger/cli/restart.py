"""`ganger node restart`: a node of this machine starts anew, while its commands run on."""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import tell
from ganger.cli.words import read_duration
from ganger.core.errors import BadInput, NodeNotFound

if TYPE_CHECKING:
    from ganger.engine.engine import Engine

LATE_EXIT = 124
_LOOK_AGAIN = 0.1


@click.command()
@take_store
@click.option("--timeout", type=read_duration, default="60s", metavar="DURATION", help="Give up waiting (60s).")
@click.argument("name", metavar="NODE")
def restart(store: str | None, timeout: int, name: str) -> None:
    """Start a node of this machine anew, with the program as it is installed now, and wait until it is back.

    Its commands run on and are its own again. Functions that run may finish in its grace (5 s if none was given).
    """
    folder = _find_folder(store, name)
    process = _find_process(folder, name)
    if not run_engine(store, lambda engine: _restart(engine, folder, name, (process, timeout))):
        tell(f"ganger: node {name} is not back yet; what it told is where its output goes")
        sys.exit(LATE_EXIT)
    tell(f"node {name} is back, as process {process}")


def _find_folder(store: str | None, name: str) -> Path:
    from ganger.assembly.node import locate_folder
    from ganger.assembly.settings import load
    from ganger.core import names

    folder = locate_folder(load(Path.cwd(), store=store), names.check("node", name))
    if folder is None:
        raise BadInput("nodes of this store end with their process: there is nothing that could be started anew")
    return folder


def _find_process(folder: Path, name: str) -> int:
    from ganger.assembly.folder import find_process

    process = find_process(folder)
    if process is None:
        raise NodeNotFound(f"no process of this machine runs a node called {name!r:.80} on this store", name=name)
    if not _heeds_hang_up(process):
        raise BadInput(f"process {process} of node {name} would die of HUP: it is no `ganger up`, or just starts")
    return process


def _heeds_hang_up(process: int) -> bool:
    said = Path(f"/proc/{process}/status").read_text("ascii", "replace")
    caught = next((line.split()[1] for line in said.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGHUP - 1) & 1)


async def _restart(engine: "Engine", folder: Path, name: str, asked: tuple[int, int]) -> bool:
    """Ask the process, and wait until another one of the same node has registered; False if it does not."""
    import asyncio
    import os

    from ganger.assembly.folder import read_epoch

    (process, timeout), before = asked, read_epoch(folder)
    os.kill(process, signal.SIGHUP)
    try:
        async with asyncio.timeout(timeout / 1000):
            while read_epoch(folder) == before or not await _is_back(engine, folder, name):  # noqa: ASYNC110
                # Another process makes the file: nothing here could be told of it.
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        return False
    return True


async def _is_back(engine: "Engine", folder: Path, name: str) -> bool:
    """It has registered since its folder was opened anew, and its lease is not that of the handover any more."""
    from ganger.runtime.clock import SystemClock

    opened = (folder / "epoch").stat().st_mtime_ns // 1_000_000
    now = SystemClock().now()
    here = [node for node in await engine.nodes.all() if node.here and node.name == name]
    return any(node.seen >= opened and now < node.until <= now + node.lease for node in here)
