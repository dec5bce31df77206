"""How a step of many documents is atomic and durable on a server that only promises that for one.

A step is committed by inserting one record, numbered by what comes after the last: the number is unique, so of two
processes that read the same state and decide upon it only one gets its record in, and the other looks again. The record
has all changes of the step in it, and waits for the server's journal (`w=majority, j=true`). Only then are the changes
made in their collections, and the record is marked as applied. What can go wrong, and why nothing does:

- the process dies before the record is in: nothing has happened;
- it dies afterwards: whoever takes the next step finds a record without its mark, and makes the changes again. Each
  document has the number of the step that wrote it last, and a change asks for the one that was seen when it was
  decided, so a change that is there is not made twice, and one that comes late, from a process that was stopped in
  between, does nothing, nor does one that comes before another on which it was built;
- the server dies and forgets changes that were not in its journal yet. Its journal is kept in order, so who finds a
  mark finds what was written before it, unless the server died between a change and its mark, which nobody may notice:
  a connection is made anew without a word. So a mark names the server process (`Journal.server`) that ran before the
  record was sent, and counts only under that one: who goes by it asks for the process once more when he has read all
  that he decides upon. Under any other the last step is made again, and the one before it first. Those before that are
  certain: their changes and the record after them were written under one process, and that record is in its journal;
- a document that was removed meanwhile would come back with a late insert. Whoever finds, by a later number, that he
  was late makes the removals of the later steps again.

Nobody waits for a lock that a dead process holds, and no clock is asked. A reader may see a step half made for the
milliseconds between its record and its mark; a writer never does, since its own record would not get in.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import bson
from pymongo import DeleteOne, InsertOne, UpdateOne, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError
from pymongo.read_concern import ReadConcern

from ganger.databases.mongo.documents import CODEC
from ganger.databases.mongo.draft import DELETE, INSERT, Change, Doc
from ganger.databases.mongo.turn import TURN

STEPS: Final = "ganger_steps"
PARTS: Final = "ganger_step_parts"
SAFE: Final = WriteConcern(w="majority", j=True, wtimeout=10_000)
SOON: Final = WriteConcern(w=1)
LARGEST_PART: Final = 8 * 1024 * 1024
KEPT: Final = 1_000
"""So many records are kept, for whoever was late."""
_PATIENT_LOOKS: Final = 10
_BETWEEN_LOOKS: Final = 0.005
"""Who finds a step half made gives its maker so much time to go on before he makes it for him."""
_TURN_HELD: Final = {
    "$lookup": {
        "from": TURN,
        "pipeline": [
            {"$match": {"_id": "turn", "urgent": True, "holder": {"$gt": ""}, "$expr": {"$gte": ["$until", "$$NOW"]}}}
        ],
        "as": "turn",
    }
}
"""With the head comes who has the turn, if it is urgent for anybody."""
_DUPLICATE: Final = 11_000
_NOT_VIABLE: Final = 28
"""A stranger put something else where our attribute was: his document is left alone."""
_BY_ID: Final = "_id_"


class Head(NamedTuple):
    """Where the store is: the last step, the sequences behind it, the server's clock, and who has an urgent turn.

    `server` is the process under which the step's changes were made.
    """

    step: int
    sequences: dict[str, int]
    at: int
    server: str
    turn: str | None = None


class Record(NamedTuple):
    """A step to be. Its `seal` is what no other attempt at any step has; the sequences are those behind it.

    `server` is the process under which it was decided.
    """

    step: int
    seal: str
    changes: Sequence[Change]
    sequences: dict[str, int]
    topics: Sequence[str]
    server: str


class Journal:
    """The records of a database, and the one way to write to its collections."""

    def __init__(self, database: AsyncDatabase[Doc]) -> None:
        self._database = database
        self._steps = database[STEPS]
        self._safe = self._steps.with_options(write_concern=SAFE, read_concern=ReadConcern("majority"))
        self._soon = self._steps.with_options(write_concern=SOON)
        self._parted: set[str] = set()
        """Steps of this process that lie in parts and are not applied yet."""

    async def begin(self) -> None:
        """The record before the first."""
        start = {"applied": await self.server(), "seal": "", "sequences": {}, "topics": []}
        await self._safe.update_one({"_id": 0}, {"$setOnInsert": start}, upsert=True)

    async def server(self) -> str:
        """The process that answers, and its election: what it has not in its journal yet is there as long as both are.

        A member that loses its place and gets it again may have been told to forget something in between.
        """
        said = await self._database.command("hello")
        return f"{said['topologyVersion']['processId']} {said.get('electionId', '')}".strip()

    async def head(self) -> Head:
        """Where the store is, behind the last step, which is applied now if it was not.

        Before anything is decided upon what is read behind it, `is_certain` must say so.
        """
        for _ in range(_PATIENT_LOOKS):
            head = await self._look()
            if "applied" in head:
                return _read_head(head)
            await asyncio.sleep(_BETWEEN_LOOKS)
        return _read_head({**head, "applied": await self.repair(head["_id"])})

    async def is_certain(self, head: Head) -> bool:
        """Was all that was read since, and the head, read where the step's changes were made?

        If not they are made again.
        """
        certain = await self.server() == head.server
        if not certain:
            await self.repair(head.step)
        return certain

    async def recover(self) -> None:
        """Let that be there which a server that died may have forgotten. There may be nothing yet, not even a begin."""
        if await self.last():
            await self.is_certain(await self.head())

    async def _look(self) -> Doc:
        shown = {"applied": 1, "sequences": 1, "turn": 1, "at": {"$toLong": "$$NOW"}}
        found = await self._steps.aggregate([{"$sort": {"_id": -1}}, {"$limit": 1}, _TURN_HELD, {"$project": shown}])
        (head,) = await found.to_list()
        return head

    async def last(self) -> int:
        found = await self._steps.find_one({}, {"_id": 1}, sort=[("_id", -1)])
        return 0 if found is None else int(found["_id"])

    async def sequences(self) -> dict[str, int]:
        found = await self._steps.find_one({"applied": {"$exists": True}}, {"sequences": 1}, sort=[("_id", -1)])
        return {} if found is None else dict(found["sequences"])

    async def commit(self, record: Record) -> None:
        """Insert the record. DuplicateKeyError if another step has its number; any other error: ask `is_mine`."""
        parts = _cut(record.changes)
        if len(parts) > 1:
            await self._put_parts(record.seal, parts)
        await self._safe.insert_one(
            {
                "_id": record.step,
                "seal": record.seal,
                "parts": len(parts) if len(parts) > 1 else 0,
                "changes": parts[0] if len(parts) == 1 else b"",
                "sequences": record.sequences,
                "topics": list(record.topics),
            }
        )

    async def _put_parts(self, seal: str, parts: Sequence[bytes]) -> None:
        self._parted.add(seal)
        for number, part in enumerate(parts):
            document = {"seal": seal, "changes": part}
            await self._database[PARTS].update_one({"_id": f"{seal}:{number}"}, {"$set": document}, upsert=True)

    async def discard(self, record: Record) -> None:
        """The record did not get in, and never will: nobody needs its parts."""
        if record.seal in self._parted:
            self._parted.discard(record.seal)
            await self._database[PARTS].delete_many({"seal": record.seal})

    async def is_mine(self, record: Record) -> bool | None:
        """Is the step of that number this one, as most members of the server know it? None if there is none."""
        found = await self._safe.find_one({"_id": record.step}, {"seal": 1})
        return None if found is None else found["seal"] == record.seal

    async def apply(self, record: Record) -> None:
        """Make the changes of a committed step."""
        await self._make(record.step, record.changes)
        self._parted.discard(record.seal)
        await self._mark(record.step, record.server)
        if record.step % KEPT == 0:
            await self._forget(record.step - KEPT)

    async def repair(self, step: int) -> str:
        """Make the changes of a step that another process left, or that the server forgot; the server's name.

        The one before it comes first, and is in the journal before this one is said to be made: so it never takes more
        than these two.
        """
        server = await self.server()
        before = await self._steps.find_one({"_id": step - 1})
        if before is not None:
            await self._make(step - 1, await self._read_changes(before))
            await self._safe.update_one({"_id": step - 1}, {"$set": {"applied": server}})
        found = await self._steps.find_one({"_id": step})
        if found is not None:
            await self._make(step, await self._read_changes(found))
            await self._mark(step, server)
        return server

    async def _mark(self, step: int, server: str) -> None:
        marking = self._soon.update_one({"_id": step}, {"$set": {"applied": server}})
        _, last = await asyncio.gather(marking, self.last())
        if last > step:
            await self._remove_again(step)

    async def _read_changes(self, found: Doc) -> list[Change]:
        if not found.get("parts"):
            return _decode(found.get("changes") or b"")
        changes: list[Change] = []
        for number in range(found["parts"]):
            part = await self._database[PARTS].find_one({"_id": f"{found['seal']}:{number}"})
            changes += _decode(b"" if part is None else part["changes"])
        return changes

    async def _make(self, step: int, changes: Iterable[Change]) -> None:
        ordered = sorted(changes, key=lambda change: (change.last, change.table))
        for _, tables in groupby(ordered, key=lambda change: change.last):
            groups = [list(group) for _, group in groupby(tables, key=lambda change: change.table)]
            await asyncio.gather(*(self._write(step, group) for group in groups))

    async def _write(self, step: int, changes: list[Change]) -> None:
        collection = self._database[changes[0].table].with_options(write_concern=SOON)
        operations = [_operation(step, change) for change in changes]
        try:
            await collection.bulk_write(operations)
        except BulkWriteError as error:
            _refuse_others(error)
            # Somebody else is at it, or has been: each of the others is made for itself.
            try:
                await collection.bulk_write(operations, ordered=False)
            except BulkWriteError as again:
                _refuse_others(again)

    async def _remove_again(self, step: int) -> None:
        """This process was late: what later steps removed must not have come back with it."""
        async for found in self._steps.find({"_id": {"$gt": step}}).sort("_id", 1):
            removed = [change for change in await self._read_changes(found) if change.what == DELETE]
            await self._make(found["_id"], removed)

    async def _forget(self, step: int) -> None:
        old = await self._steps.find({"_id": {"$lt": step, "$gt": 0}, "parts": {"$gt": 0}}, {"seal": 1}).to_list()
        if old:
            seals = [found["seal"] for found in old]
            await self._database[PARTS].delete_many({"seal": {"$in": seals}})
        await self._soon.delete_many({"_id": {"$lt": step}})


def _read_head(head: Doc) -> Head:
    turns = [turn["holder"] for turn in head["turn"]]
    return Head(head["_id"], head["sequences"], head["at"], head["applied"], *turns)


def _operation(step: int, change: Change) -> InsertOne[Doc] | UpdateOne | DeleteOne:
    if change.what == INSERT:
        return InsertOne(_nest({**change.fields, change.version: step}))
    if change.what == DELETE:
        return DeleteOne({"_id": change.id, change.version: {"$not": {"$gte": step}}}, hint=_BY_ID)
    # A stranger's document has no number, and one that a stranger wrote anew has lost it.
    seen = {"_id": change.id, change.version: {"$in": [change.seen, None]}}
    fields = {**change.fields, change.version: step}
    # Left alone, the server may look for the guard's fields, which many documents share, instead of the id.
    return UpdateOne({**seen, **change.guard}, {"$set": fields}, hint=_BY_ID)


def _nest(fields: Doc) -> Doc:
    """Dotted names as documents in documents."""
    nested: Doc = {}
    for name, value in fields.items():
        outer, dot, inner = name.partition(".")
        if dot:
            nested.setdefault(outer, {})[inner] = value
        else:
            nested[name] = value
    return nested


def _refuse_others(error: BulkWriteError) -> None:
    said: list[dict[str, Any]] = (error.details or {}).get("writeErrors", [])
    if any(each.get("code") not in (_DUPLICATE, _NOT_VIABLE) for each in said) or not said:
        raise error


def _cut(changes: Sequence[Change]) -> list[bytes]:
    """The changes as bytes, in parts that a document can hold."""
    whole = bson.encode({"changes": [list(change) for change in changes]})
    if len(whole) <= LARGEST_PART or len(changes) < 2:
        return [whole]
    middle = len(changes) // 2
    return [*_cut(changes[:middle]), *_cut(changes[middle:])]


def _decode(part: bytes) -> list[Change]:
    if not part:
        return []
    return [Change(*change) for change in bson.decode(part, CODEC)["changes"]]
