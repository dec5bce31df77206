"""`ganger logs`: what a task wrote, and what it goes on writing."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import tell
from ganger.cli.words import read_id

if TYPE_CHECKING:
    from ganger.core.ids import Fence, TaskId
    from ganger.engine.engine import Engine

MIXED: Final = "mixedout"
_PIECE = 1 << 16


@click.command()
@take_store
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended; stderr is kept apart.")
@click.option("--stream", help="Only this stream: stdout, stderr, mixedout or log (default: all that it wrote).")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt, numbered as by `show` (default: the newest).")
@click.argument("task", type=read_id, metavar="ID")
def logs(store: str | None, follow: bool, stream: str | None, attempt: "Fence | None", task: "TaskId") -> None:
    """Print the output of a task, byte by byte as it came."""
    if follow:
        wrote = run_engine(store, lambda engine: follow_output(engine, task, stream, attempt))
    else:
        wrote = run_engine(store, lambda engine: copy_output(engine, task, stream, attempt))
    if not wrote:
        tell(f"task {task} has written nothing" + (f" to {stream}" if stream else ""))


async def follow_output(
    engine: "Engine", task: "TaskId", stream: str | None = None, attempt: "Fence | None" = None
) -> int:
    """Copy what is there and what comes until the task has ended; how many bytes. Standard error is kept apart."""
    from contextlib import aclosing

    from ganger.engine.live import SAID

    wrote = 0
    async with aclosing(engine.follow_output(task, (stream,) if stream else SAID, fence=attempt)) as pieces:
        async for piece in pieces:
            place = sys.stderr if piece.stream == "stderr" and not stream else sys.stdout
            place.buffer.write(piece.body)
            place.buffer.flush()
            wrote += len(piece.body)
    # What strangers execute may have kept its streams together only.
    return wrote if wrote or stream else await copy_output(engine, task, MIXED, attempt)


async def copy_output(engine: "Engine", task: "TaskId", stream: str | None, attempt: "Fence | None") -> int:
    """Copy what is there; how many bytes."""
    chosen = stream or _choose((await engine.look(task)).streams)
    offset = 0
    while body := (await engine.read_output(task, chosen, offset, _PIECE, attempt)).body:
        sys.stdout.buffer.write(body)
        offset += len(body)
    sys.stdout.buffer.flush()
    return offset


def _choose(streams: Sequence[str]) -> str:
    return next((name for name in (MIXED, "stdout", *streams) if name in streams), "stdout")
