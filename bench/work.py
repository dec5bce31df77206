"""Run one piece of measured work in a fresh process, so that no load inherits another's memory, threads or caches."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

Values = tuple[float, ...]

_PROVIDERS = {
    "bench.commands": "bench/commands.py is not there",
    "bench.ganger_engine": "bench/ganger_engine.py is not there",
}
_OF_THE_GROUP = {
    "asyncpg": "asyncpg",
    "celery": "Celery",
    "dramatiq": "Dramatiq",
    "huey": "Huey",
    "pgqueuer": "PgQueuer",
    "procrastinate": "Procrastinate",
    "psycopg": "psycopg",
    "pymongo": "pymongo",
    "redis": "the client of Redis",
    "rq": "RQ",
    "starlette": "Starlette",
    "taskiq": "taskiq",
    "taskiq_redis": "taskiq's broker for Redis",
    "uvloop": "uvloop",
}


class NotMeasuredError(Exception):
    """A figure could not be taken; the message says in one line why, or what to install."""


@dataclass(frozen=True, slots=True)
class Work:
    """A function named `module:function`, called as `function(folder, **arguments)` in a process of its own.

    `kept` names a folder that works of one run share; without it the folder is fresh, and removed afterwards.
    """

    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kept: str | None = None
    timeout: float = 300.0


def resolve(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def run_apart(work: Work, place: Path) -> Values:
    """The values that the work returned; its process, and every process that it started, is gone afterwards."""
    with _folder(work, place) as folder:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=_perform, args=(work, folder, sender))
        process.start()
        sender.close()
        try:
            return _receive(work, receiver)
        finally:
            _end_group(process)
            receiver.close()


@contextmanager
def _folder(work: Work, place: Path) -> Iterator[Path]:
    if work.kept is not None:
        folder = place / work.kept
        folder.mkdir(exist_ok=True)
        yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix="load-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _perform(work: Work, folder: Path, answer: Connection) -> None:
    os.setpgid(0, 0)
    try:
        answer.send(("values", as_values(resolve(work.target)(folder, **work.arguments))))
    except ModuleNotFoundError as missing:
        answer.send(("missing", missing.name))
    except Exception as error:
        traceback.print_exc()
        answer.send(("failed", repr(error)))
    answer.close()
    # The group is ended by the parent; waiting for it keeps the group's id from being used again before that.
    signal.pause()


def as_values(returned: float | Values | None) -> Values:
    if returned is None:
        return ()
    return returned if isinstance(returned, tuple) else (returned,)


def _receive(work: Work, receiver: Connection) -> Values:
    if not receiver.poll(work.timeout):
        raise NotMeasuredError(f"{work.target} did not end within {work.timeout:g} s")
    try:
        verdict, content = receiver.recv()
    except EOFError:
        raise NotMeasuredError(f"{work.target} died without an answer") from None
    match verdict:
        case "values":
            values: Values = content
            return values
        case "missing":
            raise NotMeasuredError(explain_missing(content))
        case _:
            raise NotMeasuredError(f"{work.target} failed: {content}")


def explain_missing(module: str) -> str:
    if module in _PROVIDERS:
        return _PROVIDERS[module]
    title = _OF_THE_GROUP.get(module.partition(".")[0])
    return f"the module {module} is missing" if title is None else f"{title} is missing: run `uv sync --group bench`"


def _end_group(process: BaseProcess) -> None:
    assert process.pid is not None
    # One that does not lead its group yet has no children either, so ending it alone is enough.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
