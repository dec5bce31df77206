"""Tasks that are submitted if, and only if, a transaction of the application commits."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from ganger import Ganger
from ganger.client.outbox import INSERT, TABLE, Relay, read_row
from ganger.core.errors import BadInput, StoreUnavailable
from ganger.testing.inline import Inline, assert_enqueued, inline
from tests.unit.client.shop import add, app, next_year


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE)
        yield connection


@pytest.fixture
def stage() -> Iterator[Inline]:
    with inline(app, run=False) as stage:
        yield stage


def _relay(connection: sqlite3.Connection) -> Relay:
    return Relay(app, lambda: connection)


def _left(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT key, error FROM ganger_outbox").fetchall()


@pytest.mark.usefixtures("stage")
def test_a_committed_row_becomes_a_task(database: sqlite3.Connection) -> None:
    with database:
        database.execute(INSERT, app.outbox_row(next_year.using(priority=3).bind(date(2024, 1, 1))))

    assert _relay(database).move(database) == 1
    assert_enqueued(app, next_year, date(2024, 1, 1))
    assert not _left(database)
    assert _relay(database).move(database) == 0


def test_a_row_keeps_all_that_the_call_asks_for() -> None:
    call = next_year.using(queue="q", priority=3, delay=5, retries=7, requires=("gpu",), limit_key="k", description="d")
    key, body = app.outbox_row(call.bind(date(2024, 1, 1)))

    draft = read_row(key, body)

    assert (draft.queue, draft.task.priority, draft.task.delay, draft.task.timeout) == ("q", 3, 5_000, 9_000)
    assert (draft.task.requires, draft.task.limit_key, draft.task.description) == (("gpu",), "k", "d")
    assert draft.task.retry is not None
    assert draft.task.key == key


def test_a_transaction_that_is_rolled_back_leaves_nothing(stage: Inline, database: sqlite3.Connection) -> None:
    database.execute(INSERT, app.outbox_row(add.bind(1)))
    database.rollback()

    assert _relay(database).move(database) == 0
    assert not stage.drafts


class _Dying:
    """A connection whose process dies when a row is to be removed."""

    def __init__(self, below: sqlite3.Connection) -> None:
        self.below = below
        self.commits = 0

    def cursor(self) -> sqlite3.Cursor:
        return self.below.cursor()

    def commit(self) -> None:
        self.commits += 1
        if self.commits == 2:
            self.below.rollback()
            raise KeyboardInterrupt
        self.below.commit()

    def close(self) -> None:
        self.below.close()


def test_a_row_that_is_moved_twice_is_one_task(stage: Inline, database: sqlite3.Connection) -> None:
    with database:
        database.execute(INSERT, app.outbox_row(add.bind(1)))

    with pytest.raises(KeyboardInterrupt):
        _relay(database).move(_Dying(database))
    assert len(_left(database)) == 1
    assert _relay(database).move(database) == 1

    assert len(stage.drafts) == 2
    assert add.using(key=stage.drafts[0].task.key).delay(1).id == 1
    assert add.delay(1).id == 2


@pytest.mark.usefixtures("stage")
def test_a_row_that_is_no_task_is_set_aside_and_stops_nobody(database: sqlite3.Connection) -> None:
    with database:
        database.execute(INSERT, ("bad", "{}"))
        database.execute(INSERT, app.outbox_row(add.using(queue="").bind(1)))
        database.execute(INSERT, app.outbox_row(add.using(key="good").bind(2)))

    assert _relay(database).move(database) == 3
    assert sorted(error.split(":")[0] for _, error in _left(database)) == ["bad_input", "bad_name"]
    assert _relay(database).move(database) == 0
    assert_enqueued(app, add, 2)


def test_a_store_that_cannot_serve_leaves_the_rows(
    stage: Inline, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database:
        database.execute(INSERT, app.outbox_row(add.bind(1)))

    def fail(_: object) -> None:
        raise StoreUnavailable("not now")

    monkeypatch.setattr(stage, "run", fail)
    with pytest.raises(StoreUnavailable):
        _relay(database).move(database)
    assert [error for _, error in _left(database)] == [None]


def test_a_result_of_an_unfinished_graph_is_no_argument() -> None:
    with pytest.raises(BadInput, match="graph"):
        app.outbox_row(add.bind(app.graph().task(add, 1).result))


PROGRAM = """
import apsw, sqlite3, threading
from contextlib import closing
from ganger import Ganger
from ganger.client.outbox import INSERT, TABLE, Relay
from tests.unit.client import shop

opened = []
apsw.connection_hooks.append(lambda connection: opened.append(connection.filename))
with closing(sqlite3.connect("app.db")) as database, database:
    database.execute(TABLE)
    database.execute(INSERT, shop.app.outbox_row(shop.add.bind(1)))
assert not opened, opened

class Stop(threading.Event):
    def wait(self, timeout=None):
        self.set()

with Ganger("sqlite:ganger.db") as app:
    Relay(app, lambda: sqlite3.connect("app.db")).run(Stop())
    assert app.handle(1).task().kind == "function"
assert opened and not [name for name in opened if "app.db" in name], opened

with Ganger("sqlite:ganger.db") as app:
    before = len(opened)
    try:
        Relay(app, lambda: sqlite3.connect("ganger.db")).run(Stop())
    except Exception as error:
        print(error)
    assert len(opened) == before
"""


def test_no_file_is_opened_by_two_libraries_in_one_process(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])},
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert "is Ganger's own store" in ran.stdout


def test_a_relay_that_is_told_to_stop_stops() -> None:
    stop = threading.Event()
    stop.set()
    with Ganger("memory:") as idle:
        Relay(idle, lambda: sqlite3.connect(":memory:")).run(stop)
