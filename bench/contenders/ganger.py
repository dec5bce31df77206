"""Ganger on one SQLite file: `ganger up` with one slot, and so one warm process for functions; `delay` and `send`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import apsw

from bench import tally
from bench.contender import Body, Contender, chunks, script
from bench.place import find_place
from ganger import Ganger

_FILE = Path(find_place().folder) / "ganger.db"
_STORE = f"sqlite:{_FILE}"

app = Ganger(_STORE, upkeep=False)


@app.task
def note() -> None:
    tally.note()


@app.task
def stamp() -> None:
    tally.stamp()


def submit(body: Body, turns: Iterable[object]) -> None:
    with app:
        _connect()
        task = note if body == "note" else stamp
        for _ in turns:
            task.delay()


def submit_in_bulk(tasks: int) -> None:
    with app:
        for size in chunks(tasks):
            app.send([note.bind()] * size)


def _connect() -> None:
    """Open the store before the first task, as an application has that has submitted before."""
    app.wait([], 0)


def has_settled(tasks: int) -> bool:
    done: int | None = _open_reader().execute("SELECT sum(n) FROM tally WHERE status = 1").get
    return done == tasks


@cache
def _open_reader() -> apsw.Connection:
    return apsw.Connection(str(_FILE), flags=apsw.SQLITE_OPEN_READONLY)


CONTENDER = Contender(
    worker=(script("ganger"), "up", "--store", _STORE, "--name", "bench", "--slots", "1", "--quiet"),
    submit=submit,
    submit_in_bulk=submit_in_bulk,
    has_settled=has_settled,
)
