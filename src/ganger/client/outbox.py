"""Tasks that are submitted if, and only if, a transaction of the application commits.

An application that writes to its own database and then submits a task can die in between; the other way round the task
may run for a row that never came to be. So the task is written as a row of a table in the application's own database,
with its own driver and in its own transaction: an *outbox*. A relay, a process of its own, moves the rows to Ganger. A
row is removed only when its task is stored, and a row that is moved twice, because the relay died in between, becomes
one task, because the row's key is the task's key. That holds as long as the task exists: keep finished tasks longer
than a relay may be down.

Two SQLite libraries in one process that open one file break each other's locks: closing the file in one drops the locks
of the other. Ganger has a library of its own. So it opens no file of an application, and the relay is handed a
connection: it speaks to whatever driver the application has. It refuses one that has Ganger's own store open, and asks
before Ganger opens that.

    def connect() -> sqlite3.Connection:
        return sqlite3.connect("app.db")

    with Ganger("sqlite:ganger.db") as app:
        Relay(app, connect).run(stop)
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ganger.client.app import App
from ganger.client.calls import Call, draft
from ganger.client.transport import Draft
from ganger.core.clock import Entropy
from ganger.core.errors import BadInput, Conflict, GangerError
from ganger.core.span import Span, to_seconds
from ganger.wire.letters import read_letter, write_letter

TABLE: Final = """CREATE TABLE IF NOT EXISTS ganger_outbox (
    key VARCHAR(200) NOT NULL PRIMARY KEY,
    body TEXT NOT NULL,
    error TEXT
)"""
"""The table, in words that every SQL database knows. Create it once, in the application's own database."""

INSERT: Final = "INSERT INTO ganger_outbox (key, body) VALUES (?, ?)"
"""For drivers whose parameters are question marks; the values are those of a `Row`."""

_SELECT: Final = "SELECT key, body FROM ganger_outbox WHERE error IS NULL LIMIT 500"
_DELETE: Final = "DELETE FROM ganger_outbox WHERE key = ?"
_SET_ASIDE: Final = "UPDATE ganger_outbox SET error = ? WHERE key = ?"


class Row(NamedTuple):
    """What is inserted: the key, and the task as JSON."""

    key: str
    body: str


def row_for(call: Call[Any], entropy: Entropy) -> Row:
    """The row for a call. Its key is the call's own, or a fresh one that nobody else draws."""
    made = draft(call)
    return Row(made.task.key or f"outbox-{entropy.token(16).hex()}", write_letter(made.queue, made.task))


def read_row(key: str, body: str) -> Draft:
    """The task of a row. BadInput: it is none."""
    return Draft(*read_letter(key, body, "outbox"))


class Cursor(Protocol):
    """Of a database driver, as PEP 249 has it."""

    def execute(self, operation: str, parameters: Sequence[Any] = ..., /) -> object: ...

    def fetchall(self) -> Iterable[Any]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """Of a database driver, as PEP 249 has it."""

    def cursor(self) -> Cursor: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Relay:
    """Moves the rows of an outbox to an app. Run it in a process of its own; several at once do no harm.

    `mark` is how the driver writes a parameter. The order in which rows are moved is the database's own.
    """

    def __init__(self, app: App, connect: Callable[[], Connection], *, mark: str = "?") -> None:
        self._app = app
        self._connect = connect
        self._delete = _DELETE.replace("?", mark)
        self._set_aside = _SET_ASIDE.replace("?", mark)

    def run(self, stop: threading.Event, every: Span = 1.0) -> None:
        """Move rows until told to stop; with nothing to move, look again after so long.

        Raises what the driver raises, and StoreError: no row is lost by it, so start the process again.
        """
        pause = to_seconds(every, "every")
        with closing(self._connect()) as connection:
            self._refuse_own_file(connection)
            while not stop.is_set():
                if not self.move(connection):
                    stop.wait(pause)

    def move(self, connection: Connection) -> int:
        """Move some rows; how many were dealt with. A row that can never be a task is set aside with the reason."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(_SELECT)
            rows = [Row(str(key), str(body)) for key, body in cursor.fetchall()]
            # The reading transaction ends here: the application must not wait for Ganger's disk.
            connection.commit()
            refused = self._submit(rows)
            for row in rows:
                if row.key in refused:
                    cursor.execute(self._set_aside, (refused[row.key], row.key))
                else:
                    cursor.execute(self._delete, (row.key,))
            connection.commit()
        return len(rows)

    def _submit(self, rows: Sequence[Row]) -> dict[str, str]:
        """Submit them together, or one by one if one of them spoils it; those that are refused, with the reason."""
        if not rows:
            return {}
        try:
            self._send(rows)
        except (BadInput, Conflict):
            return {row.key: reason for row in rows if (reason := self._try(row)) is not None}
        return {}

    def _try(self, row: Row) -> str | None:
        try:
            self._send([row])
        except (BadInput, Conflict) as error:
            return _tell(error)
        return None

    def _send(self, rows: Sequence[Row]) -> None:
        drafts = [read_row(row.key, row.body) for row in rows]
        self._app.bridge.run(lambda transport: transport.submit(drafts))

    def _refuse_own_file(self, connection: Connection) -> None:
        own = self._app.file
        if own is None or not own.exists() or "sqlite" not in type(connection).__module__:
            return
        with closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA database_list")
            files = [Path(row[2]) for row in cursor.fetchall() if row[2]]
        for file in files:
            if file.exists() and file.samefile(own):
                raise BadInput(f"{file} is Ganger's own store: an outbox lies in the application's database")


def _tell(error: GangerError) -> str:
    return f"{error.code}: {error.message}"
