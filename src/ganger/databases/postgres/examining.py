"""How a PostgreSQL server and a schema in it are, for whoever is asked whether they are well. Nothing is changed."""

import asyncio
import contextlib
from typing import Any, Final, NamedTuple

import asyncpg

from ganger.core.clock import Clock
from ganger.databases.postgres.address import Address, read_address
from ganger.databases.postgres.errors import translate
from ganger.databases.postgres.statements import Q

_TIMEOUT: Final = 10.0
_PATIENCE: Final = 3.0
"""Seconds within which a notification comes, if any does."""


class Table(NamedTuple):
    """A table with its indexes: rows that count and rows that are dead, as the server reckons, and bytes."""

    name: str
    live: int
    dead: int
    size: int


class Oldest(NamedTuple):
    """The transaction of the database that has been open for longest: no dead row that it could see is cleared away."""

    pid: int
    program: str
    seconds: int


class Examined(NamedTuple):
    """`ahead` is by how many ms the server's clock is ahead of this machine's, and `doubt` how wrong that may be.

    `heard` is how many ms a notification took; None if it did not come.
    """

    version: str
    newest: int
    fsync: bool
    autovacuum: bool
    ahead: int
    doubt: int
    heard: int | None
    tables: tuple[Table, ...]
    oldest: Oldest | None


async def examine(url: str, clock: Clock) -> Examined:
    """Look at the server and the schema that a URL names. StoreError if it cannot be reached or read."""
    address = read_address(url)
    try:
        async with _connected(address) as connection:
            return await _look(connection, address, clock)
    except Exception as error:
        raise translate(error, "examining the database") from error


@contextlib.asynccontextmanager
async def _connected(address: Address) -> Any:
    settings = {"search_path": address.schema, "application_name": "ganger doctor"}
    connection = await asyncpg.connect(
        address.url, timeout=_TIMEOUT, command_timeout=_TIMEOUT, server_settings=settings
    )
    try:
        yield connection
    finally:
        await connection.close()


async def _look(connection: Any, address: Address, clock: Clock) -> Examined:
    before = clock.wall()
    server = await connection.fetchrow(Q.examine_clock)
    after = clock.wall()
    tables = await connection.fetch(Q.examine_tables, address.schema)
    oldest = await connection.fetchrow(Q.examine_oldest)
    return Examined(
        server["version"],
        await connection.fetchval(Q.examine_schema),
        server["fsync"],
        server["autovacuum"],
        server["wall"] - (before + after) // 2,
        (after - before + 1) // 2,
        await _listen(connection, address, clock),
        tuple(Table(row["name"], row["live"], row["dead"], row["size"]) for row in tables),
        None if oldest is None else Oldest(oldest["pid"], oldest["program"], oldest["age"]),
    )


async def _listen(connection: Any, address: Address, clock: Clock) -> int | None:
    """How long a notification takes from one connection to another, on a channel where nobody else listens."""
    channel, heard = f"{address.channel}_doctor", asyncio.Event()
    await connection.add_listener(channel, lambda *_: heard.set())
    async with _connected(address) as teller:
        begun = clock.now()
        await teller.execute(Q.notify, channel, "doctor", ["here"])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await heard.wait()
    return clock.now() - begun if heard.is_set() else None
