"""A gate that one passes at a time, for the moment between a count and a write that goes by it.

Steps are decided in parallel and only one gets in; but what is written ahead of a step is there for all to see, whoever
gets in. Two that count the same free places at once would both take them. Who dies behind the gate is passed over.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from pymongo import ReturnDocument, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from ganger.databases.mongo.turn import TURN

_LENGTH: Final = 10_000
"""Milliseconds after which whoever is behind the gate is taken to be dead."""
_LOOKS: Final = 20
_PAUSE: Final = 0.005


@asynccontextmanager
async def pass_alone(database: AsyncDatabase[dict[str, Any]], name: str, me: str) -> AsyncIterator[bool]:
    """Be the only one behind the gate of this name; False if somebody else was there all the time."""
    gates = database[TURN].with_options(write_concern=WriteConcern(w=1))
    passed = await _pass(gates, name, me)
    try:
        yield passed
    finally:
        if passed:
            # A server that is gone need not hear of it: the gate opens by itself.
            with suppress(PyMongoError):
                await gates.update_one({"_id": name, "holder": me}, {"$set": {"holder": None}})


async def _pass(gates: Any, name: str, me: str) -> bool:
    is_free = {"$or": [{"$not": ["$holder"]}, {"$lt": ["$until", "$$NOW"]}]}
    until = {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": _LENGTH}}
    mine = {"holder": {"$cond": [is_free, me, "$holder"]}, "until": {"$cond": [is_free, until, "$until"]}}
    for _ in range(_LOOKS):
        found = await gates.find_one_and_update(
            {"_id": name}, [{"$set": mine}], upsert=True, return_document=ReturnDocument.AFTER
        )
        if found["holder"] == me:
            return True
        await asyncio.sleep(_PAUSE)
    return False
