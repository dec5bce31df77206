"""A program that is run for a job, and ends with the worker that runs it.

What can go wrong, and why this is right:

The worker is killed, so that it cannot end what it runs. A watchman of its own session stands beside each program, and
hears from the worker through a pipe. What it hears last is that the program is over; if it hears nothing more before
that, the worker is gone, and it kills the group of the program. A signal that the kernel sends with the death of the
parent would reach the program alone, and not what the program has started.

The worker is killed between the two starts. The program waits at a gate until its watchman is there: a shell that
becomes the program when it is given a line, and ends when there is none to come.

The watchman is killed as well. Then nobody is left to end the program: that takes somebody who looks for both.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_SHELL: Final = "/bin/sh"
_GATE: Final = 'read -r _ && exec "$@" <"$0"'
_WATCH: Final = 'read -r _ || kill -s KILL -- "-$0"'
_WORD: Final = b"\n"


class Streams(NamedTuple):
    """What a program reads, and where what it writes goes."""

    given: Path
    out: BinaryIO
    told: BinaryIO


async def run_program(words: Sequence[str], streams: Streams) -> int:
    """Its exit code, negative if a signal ended it; nothing of its group is left. OSError if it cannot be run."""
    if shutil.which(words[0]) is None:
        raise FileNotFoundError("there is no such program, or it is not executable")
    program = await asyncio.create_subprocess_exec(
        _SHELL, "-c", _GATE, str(streams.given), *words,
        stdin=asyncio.subprocess.PIPE, stdout=streams.out, stderr=streams.told, start_new_session=True,
    )  # fmt: skip
    watchman: asyncio.subprocess.Process | None = None
    try:
        watchman = await _post_watchman(program.pid)
        _say(program)
        return await program.wait()
    finally:
        # What it left in its session goes with it, whether it ended or was given up.
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        await program.wait()
        if watchman is not None:
            _say(watchman)
            await watchman.wait()


async def _post_watchman(group: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        _SHELL, "-c", _WATCH, str(group),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def _say(process: asyncio.subprocess.Process) -> None:
    """The one word that it waits for."""
    assert process.stdin is not None
    process.stdin.write(_WORD)
    process.stdin.close()
