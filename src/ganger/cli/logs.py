"""`ganger logs`: what a task wrote, and what it goes on writing."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import clean_lines, tell
from ganger.cli.words import read_id
from ganger.core.state import Status
from ganger.core.task import Kind

if TYPE_CHECKING:
    from ganger.core.ids import Fence, TaskId
    from ganger.engine.engine import Engine
    from ganger.engine.store import Look

MIXED: Final = "mixedout"
_PIECE = 1 << 16


@click.command()
@take_store
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended; stderr is kept apart.")
@click.option("--stream", help="Only this stream: stdout, stderr, mixedout or log (default: all that it wrote).")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt, numbered as by `show` (default: the newest).")
@click.argument("task", type=read_id, metavar="ID")
def logs(store: str | None, follow: bool, stream: str | None, attempt: "Fence | None", task: "TaskId") -> None:
    """Print the output of a task, byte by byte as it came; of a function that failed also what it raised."""
    wrote, cut = run_engine(store, lambda engine: _copy(engine, task, stream, attempt, follow=follow))
    if cut:
        tell(cut)
    elif not wrote:
        tell(f"task {task} has written nothing" + (f" to {stream}" if stream else ""))


async def _copy(
    engine: "Engine", task: "TaskId", stream: str | None, attempt: "Fence | None", *, follow: bool
) -> tuple[int, str]:
    """How many bytes were copied, and what is missing."""
    from ganger.cli.cuts import find_cut

    copy = follow_output if follow else copy_output
    wrote = await copy(engine, task, stream, attempt)
    look = await engine.look(task)
    cut = await find_cut(engine, look, attempt)
    return wrote, cut.say((stream,) if stream else _choose(tuple(cut.streams)))


async def follow_output(
    engine: "Engine", task: "TaskId", stream: str | None = None, attempt: "Fence | None" = None
) -> int:
    """Copy what is there and what comes until the task has ended; how many bytes. Standard error is kept apart."""
    from contextlib import aclosing

    from ganger.engine.live import SAID

    wrote = 0
    async with aclosing(engine.follow_output(task, (stream,) if stream else SAID, fence=attempt)) as pieces:
        async for piece in pieces:
            wrote += _write(piece.stream, piece.body, apart=not stream)
    # What strangers execute may have kept its streams together only.
    return wrote if wrote or stream else await copy_output(engine, task, MIXED, attempt)


async def copy_output(engine: "Engine", task: "TaskId", stream: str | None, attempt: "Fence | None") -> int:
    """Copy what is there, of a task that runs what it has written so far; how many bytes.

    Without a stream that is both streams as they came if they were kept so, else each by itself; and of a function that
    did not succeed, the traceback.
    """
    from ganger.core.state import LEASED

    look = await engine.look(task)
    if look.task.status in LEASED and attempt in {None, look.task.fence}:
        return await _copy_so_far(engine, task, stream)
    chosen = (stream,) if stream else _choose(look.streams)
    wrote = 0
    for name in chosen:
        wrote += await _copy_stream(engine, task, name, attempt, apart=not stream)
    if stream or look.task.kind != Kind.FUNCTION:
        return wrote
    return wrote + _tell_failure(look, attempt)


async def _copy_so_far(engine: "Engine", task: "TaskId", stream: str | None) -> int:
    from contextlib import aclosing

    from ganger.engine.live import SAID, take_so_far

    wrote = 0
    async with aclosing(engine.follow_output(task, (stream,) if stream else SAID)) as pieces:
        async for piece in take_so_far(pieces):
            wrote += _write(piece.stream, piece.body, apart=not stream)
    return wrote


async def _copy_stream(engine: "Engine", task: "TaskId", stream: str, attempt: "Fence | None", *, apart: bool) -> int:
    offset = 0
    while body := (await engine.read_output(task, stream, offset, _PIECE, attempt)).body:
        offset += _write(stream, body, apart=apart)
    return offset


def _write(stream: str, body: bytes, *, apart: bool) -> int:
    place = sys.stderr if stream == "stderr" and apart else sys.stdout
    place.buffer.write(body)
    place.buffer.flush()
    return len(body)


def _tell_failure(look: "Look", attempt: "Fence | None") -> int:
    """Print what a function raised, in its newest attempt or in this one."""
    reasons = [each.reason for each in look.attempts if attempt in {None, each.fence}]
    reason = next(filter(None, reversed(reasons)), None) if reasons else look.task.reason
    if not reason or look.task.status == Status.SUCCEEDED:
        return 0
    click.echo(clean_lines(reason.rstrip("\n")), err=True)
    return len(reason)


def _choose(streams: Sequence[str]) -> tuple[str, ...]:
    """All that was said: as it came, if it was kept together, else stream by stream."""
    if MIXED in streams:
        return (MIXED,)
    known = [name for name in ("stdout", "stderr", "log") if name in streams]
    return (*known, *(name for name in streams if name not in known))
