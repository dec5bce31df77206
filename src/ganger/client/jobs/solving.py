"""How a job is solved: by a function of this process, or by a program that is run for it.

Both find the payload in a file and leave the result in another, so that neither size nor kind matters to the rest.
"""

import asyncio
import inspect
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ganger.client.jobs.program import Streams, run_program

PAYLOAD: Final = "{payload}"
RESULT: Final = "{result}"
_SHOWN: Final = 64 << 10
"""So many bytes of what a program wrote last are told when it fails."""

Report = Callable[[float | None, str | None], None]
"""Tells how far the job is: percent, and a text. It may be called from any thread."""


class Job(NamedTuple):
    """Where the payload is, where the result goes, and how to tell the progress."""

    payload: Path
    result: Path
    report: Report


class Unsolved(Exception):
    """The job failed: a sentence for people, and what there is to read about it."""

    def __init__(self, info: str, logs: str | None = None) -> None:
        super().__init__(info)
        self.info = info
        self.logs = logs


class Solver(Protocol):
    """Solves jobs, one at a time."""

    async def solve(self, job: Job) -> None:
        """Leave the result in its file. Raises Unsolved. When it is cancelled nothing of it goes on, if that can be."""
        ...


class FunctionSolver:
    """Calls a function with the payload; with its progress too, if it takes a second argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._reports = len(inspect.signature(function).parameters) > 1

    async def solve(self, job: Job) -> None:
        try:
            result = await self._call(await asyncio.to_thread(job.payload.read_bytes), job.report)
        except Exception as error:
            raise Unsolved(f"{type(error).__name__}: {error}", traceback.format_exc()) from error
        if not isinstance(result, bytes | bytearray | memoryview | None):
            raise Unsolved(f"the function returned {type(result).__name__}; return bytes")
        await asyncio.to_thread(job.result.write_bytes, result or b"")

    async def _call(self, payload: bytes, report: Report) -> Any:
        given = (payload, report) if self._reports else (payload,)
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*given)
        return await asyncio.to_thread(self._function, *given)


class ProgramSolver:
    """Runs a program for each job. `{payload}` and `{result}` in its words are the files.

    Without the one it reads the payload from its standard input, without the other its output is the result.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._reads_file = any(PAYLOAD in word for word in words)
        self._writes_file = any(RESULT in word for word in words)

    async def solve(self, job: Job) -> None:
        log = job.result.with_name("log")
        code = await self._run(job, log)
        if code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise Unsolved(f"{self._words[0]} {how}", _read_end(log))
        if not job.result.exists():
            raise Unsolved(f"{self._words[0]} left no result", _read_end(log))

    async def _run(self, job: Job, log: Path) -> int:
        words = [word.replace(PAYLOAD, str(job.payload)).replace(RESULT, str(job.result)) for word in self._words]
        with self._open_streams(job, log) as streams:
            try:
                return await run_program(words, streams)
            except OSError as error:
                raise Unsolved(f"{words[0]} cannot be run: {error.strerror or error}") from error

    @contextmanager
    def _open_streams(self, job: Job, log: Path) -> Iterator[Streams]:
        """What the program reads and writes, where its words do not say so."""
        given = Path(os.devnull) if self._reads_file else job.payload
        out = log if self._writes_file else job.result
        with open(out, "wb") as stdout, open(log, "ab") as stderr:
            yield Streams(given, stdout, stderr)


def _read_end(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _SHOWN))
        return file.read().decode("utf-8", "replace")
