"""`ganger logs`: what a task wrote, and what it goes on writing."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ganger.cli.opening import run_engine, take_store
from ganger.cli.printing import tell
from ganger.cli.words import read_id

if TYPE_CHECKING:
    from ganger.core.ids import Fence, TaskId
    from ganger.engine.engine import Engine

_PIECE = 1 << 16
_LOOK_AGAIN = 1.0
"""Seconds after which a follower looks by itself: a wake-up may be lost with the connection to the owner."""


@click.command()
@take_store
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended.")
@click.option("--stream", help="Only this stream: stdout, stderr or mixedout (default: mixedout, else stdout).")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt, numbered as by `show` (default: the newest).")
@click.argument("task", type=read_id, metavar="ID")
def logs(store: str | None, follow: bool, stream: str | None, attempt: "Fence | None", task: "TaskId") -> None:
    """Print the output of a task, byte by byte as it came."""
    wrote = run_engine(store, lambda engine: Copy(engine, task, stream, attempt).run(follow))
    if not wrote:
        tell(f"task {task} has written nothing to this stream")


class Copy:
    """A copy of one stream to standard output, from its beginning."""

    def __init__(self, engine: "Engine", task: "TaskId", stream: str | None, attempt: "Fence | None") -> None:
        self._engine = engine
        self._task = task
        self._stream = stream
        self._attempt = attempt
        self._offset = 0

    async def run(self, follow: bool) -> int:
        """Copy what is there, and with `follow` what comes until the task has ended; how many bytes."""
        from ganger.engine.bell import Bell
        from ganger.engine.store import EVENTS_TOPIC

        with Bell(self._engine.store, (f"output:{self._task}", EVENTS_TOPIC)) as bell:
            while True:
                bell.rung.clear()
                ended = await self._copy()
                if ended or not follow:
                    return self._offset
                await bell.wait(_LOOK_AGAIN)

    async def _copy(self) -> bool:
        """Copy what is there now; whether nothing more can come."""
        stream = self._stream or _choose((await self._engine.look(self._task)).streams)
        while True:
            part = await self._engine.read_output(self._task, stream, self._offset, _PIECE, self._attempt)
            sys.stdout.buffer.write(part.body)
            self._offset += len(part.body)
            if not part.body:
                sys.stdout.buffer.flush()
                return part.ended


def _choose(streams: Sequence[str]) -> str:
    return next((name for name in ("mixedout", "stdout", *streams) if name in streams), "stdout")
