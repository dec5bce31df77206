"""The servers as programs of their own: those that echo, and Ganger's, alone or with a node."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.contender import python, script
from bench.http.load import Target
from bench.place import ROOT

_STOP = 15.0
_HOST = "127.0.0.1"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
_TOKEN = re.compile(r"the administrator's token was written to (.+)")


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    target: Target
    pid: int


@contextmanager
def run_echo(app: str) -> Iterator[Running]:
    with _run(python("bench.http.echo", app), "stdout") as (process, said):
        yield Running(Target(_HOST, int(said.readline())), process.pid)


@contextmanager
def run_ganger(folder: Path, *, node: bool = False) -> Iterator[Running]:
    """`ganger server`, or `ganger up` with two slots, on a SQLite file of that folder."""
    more = ("--slots", "2", "--quiet", "--name", "bench") if node else ()
    store = f"sqlite:{folder / 'ganger.db'}"
    words = (script("ganger"), "up" if node else "server", "--store", store, "--listen", f"{_HOST}:0", *more)
    with _run(words, "stderr") as (process, said):
        yield Running(_find(said), process.pid)


def _find(said: IO[str]) -> Target:
    """Where it serves, and with which token, by the lines that it prints."""
    port = 0
    for line in said:
        if (told := _ADDRESS.search(line)) is not None:
            port = int(told[1])
        elif (told := _TOKEN.search(line)) is not None:
            return Target(_HOST, port, Path(told[1].strip()).read_text().strip())
    raise RuntimeError("the server ended before it served")


@contextmanager
def _run(words: Sequence[str], said: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    heard = {said: subprocess.PIPE}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, cwd=ROOT, text=True, **heard)  # type: ignore[call-overload]
    try:
        yield process, getattr(process, said)
    finally:
        # In order, so that a guardian ends as well.
        process.terminate()
        process.wait(_STOP)
        getattr(process, said).close()
