"""What others wrote into a database, and what was set in it, found out by reading some of it."""

from collections.abc import Mapping
from typing import Any, Final

from ganger.core.clock import Entropy
from ganger.databases.mongo import Database, read_address
from ganger.engine.stores.mongo.dialect import Dialect, choose_dialect, find_dialect, read_dialect
from ganger.engine.stores.mongo.reading import STORE
from ganger.engine.stores.mongo.tables import QUEUES, TASKS

_SOME: Final = 200
_MARKS: Final = {"parameters": 1, "params": 1}


async def look(base: Any, wanted: Dialect | None) -> Dialect:
    """The dialect of the database: what is set, what is found, what is wanted. Conflict if they do not agree."""
    return choose_dialect(await read_set(base), await find(base), wanted)


async def tell_dialect(url: str, entropy: Entropy) -> Dialect | None:
    """The dialect that a database has; None if nothing says so yet. Conflict if it has both."""
    database = Database(read_address(url), entropy)
    try:
        found = await database.read(find, "looking at the database")
        written = await database.read(read_set, "looking at the database")
        return None if (written, found) == (None, None) else choose_dialect(written, found, None)
    finally:
        await database.close()


async def read_set(base: Any) -> Dialect | None:
    """What was written into the database when it was made; None if it was not made yet."""
    about = await base[STORE].find_one({"_id": "store"})
    return None if about is None else written_in(about)


def written_in(about: Mapping[str, Any]) -> Dialect:
    """What the store's own document says. One that says nothing is older than the choice."""
    return read_dialect(about.get("dialect", Dialect.PLAIN))


async def find(base: Any) -> Dialect | None:
    """The dialect of what lies there; Conflict if it is of both.

    The oldest and the newest tasks are looked at, and all queues; a large collection is not read through.
    """
    tasks = [
        task
        for order in (1, -1)
        for task in await base[TASKS.name].find({}, _MARKS, limit=_SOME, sort=[("_id", order)]).to_list()
    ]
    queues = await base[QUEUES.name].find({}, {"constructor": 1, "plugin": 1}).to_list()
    return find_dialect(tasks, queues)
