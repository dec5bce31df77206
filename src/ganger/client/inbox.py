"""Tasks that are submitted in a transaction of the application, over its own connection to the database of the store.

Where the application's tables and Ganger's are in one PostgreSQL database, no relay is needed: a task is a row in the
store's *inbox*, written by the application's own transaction. If that commits, the nodes are woken and the row becomes
a task; if it is rolled back, there never was one. The application does not wait for Ganger, and Ganger's nodes do not
wait for the application, however long its transaction is.

    async with connection.transaction():
        await connection.execute("INSERT INTO customer VALUES ($1)", name)
        await app.using(connection).asend([send_mail.bind(name)])
"""

import inspect
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from ganger.client.calls import Call, draft
from ganger.core.clock import Entropy
from ganger.core.errors import BadInput, DuplicateKey
from ganger.core.task import OnConflict
from ganger.wire.letters import write_letter

_PUT: Final = """WITH letter AS (
    SELECT key, body FROM unnest({keys}::text[], {bodies}::text[]) AS row (key, body)
    WHERE NOT EXISTS (SELECT 1 FROM {schema}.task_key WHERE task_key.key = row.key)
), put AS (
    INSERT INTO {schema}.inbox (key, body) SELECT key, body FROM letter ON CONFLICT (key) DO NOTHING RETURNING key
), told AS MATERIALIZED (
    SELECT pg_notify('{channel}', 'inbox *')
)
SELECT key FROM put, told"""


class Inbox:
    """The inbox of a store in the database of this connection, which stays the application's own.

    A connection of asyncpg or of psycopg's async kind takes `asend`; one that follows PEP 249 (psycopg, psycopg2)
    takes `send`. Nothing is committed here. Both give the keys of the tasks, drawn where a call has none.

    A key that belongs to a task already makes no other one: a call that says `on_conflict="refuse"` raises DuplicateKey
    then. If two transactions write one key at the same time, the second waits for the first.
    """

    def __init__(self, schema: str, channel: str, connection: Any, entropy: Entropy) -> None:
        self._names = {"schema": schema, "channel": channel}
        self._connection = connection
        self._entropy = entropy

    def send(self, calls: Sequence[Call[Any]]) -> list[str]:
        """Write the calls into the transaction that is open."""
        if self._is_asyncpg() or inspect.iscoroutinefunction(getattr(self._connection, "commit", None)):
            raise BadInput("this connection is one for async code: await asend(...)")
        keys, bodies = self._write(calls)
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(_PUT.format(keys="%s", bodies="%s", **self._names), (keys, bodies))
            return _check_put(calls, keys, [row[0] for row in cursor.fetchall()])

    async def asend(self, calls: Sequence[Call[Any]]) -> list[str]:
        """As `send`, over a connection for async code."""
        keys, bodies = self._write(calls)
        if self._is_asyncpg():
            rows = await self._connection.fetch(_PUT.format(keys="$1", bodies="$2", **self._names), keys, bodies)
        elif inspect.iscoroutinefunction(getattr(self._connection, "commit", None)):
            put = _PUT.format(keys="%s", bodies="%s", **self._names)
            rows = await (await self._connection.execute(put, (keys, bodies))).fetchall()
        else:
            raise BadInput("this connection is none for async code: call send(...)")
        return _check_put(calls, keys, [row[0] for row in rows])

    def _is_asyncpg(self) -> bool:
        return type(self._connection).__module__.partition(".")[0] == "asyncpg"

    def _write(self, calls: Sequence[Call[Any]]) -> tuple[list[str], list[str]]:
        drafts = [draft(call) for call in calls]
        keys = [made.task.key or f"inbox-{self._entropy.token(16).hex()}" for made in drafts]
        return keys, [write_letter(made.queue, made.task) for made in drafts]


def _check_put(calls: Sequence[Call[Any]], keys: list[str], put: Sequence[str]) -> list[str]:
    """Refuse a key that somebody else has, where the call does not ask for the task that has it."""
    there = set(put)
    for call, key in zip(calls, keys, strict=True):
        if key not in there and call.options.on_conflict != OnConflict.RETURN:
            raise DuplicateKey(
                f"the key {key!r} belongs to another task; use another key, or ask for the existing task", key=key
            )
    return keys
