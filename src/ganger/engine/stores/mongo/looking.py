"""What others wrote into a database, found out by reading some of it."""

from typing import Any, Final

from ganger.core.errors import Conflict
from ganger.engine.stores.mongo.dialect import Dialect, find_dialect
from ganger.engine.stores.mongo.tables import QUEUES, TASKS

_SOME: Final = 200
_MARKS: Final = {"parameters": 1, "params": 1}


async def check_dialect(base: Any) -> None:
    """Conflict for a database whose documents are of the later dialect, or of both: its tasks would not be understood.

    The oldest and the newest tasks are looked at, and all queues; a large collection is not read through.
    """
    tasks = [
        task
        for order in (1, -1)
        for task in await base[TASKS.name].find({}, _MARKS, limit=_SOME, sort=[("_id", order)]).to_list()
    ]
    queues = await base[QUEUES.name].find({}, {"constructor": 1, "plugin": 1}).to_list()
    if find_dialect(tasks, queues) is Dialect.LATER:
        raise Conflict(
            "the database has documents of the later Disbatch dialect (params, plugin, threads), which this store does "
            "not write: use another database, and the Disbatch routes of a server to fill it"
        )
