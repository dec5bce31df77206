"""A worker process of a load, alive while the load is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.place import ROOT

_STOP = 15.0

Running = Callable[[], bool]


@contextmanager
def working(words: Sequence[str], log: Path) -> Iterator[Running]:
    """The worker, alive while the context is; what it wrote is told when something goes wrong."""
    with log.open("ab") as file:
        worker = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT)
    try:
        yield partial(_runs, worker)
    except Exception as error:
        error.add_note("\n".join(log.read_text(errors="replace").splitlines()[-20:]))
        raise
    finally:
        _stop(worker)


def _runs(worker: subprocess.Popen[bytes]) -> bool:
    return worker.poll() is None


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """Ask it to end, so that what it has started ends as well; one that does not follow is killed."""
    worker.terminate()
    try:
        worker.wait(_STOP)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
