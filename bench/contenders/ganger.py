"""Ganger on one SQLite file: `ganger up` with one slot, and so one warm process for functions; `delay` and `send`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import apsw

from bench.contender import Contender
from bench.contenders.ganger_tasks import run_node, send, submit, submit_in_bulk, use_store
from bench.place import find_place

_FILE = Path(find_place().folder) / "ganger.db"
_STORE = use_store(f"sqlite:{_FILE}")


def has_settled(tasks: int) -> bool:
    done: int | None = _open_reader().execute("SELECT sum(n) FROM tally WHERE status = 1").get
    return done == tasks


@cache
def _open_reader() -> apsw.Connection:
    return apsw.Connection(str(_FILE), flags=apsw.SQLITE_OPEN_READONLY)


CONTENDER = Contender(
    worker=run_node(_STORE),
    submit=submit,
    submit_in_bulk=submit_in_bulk,
    has_settled=has_settled,
    send=send,
)
