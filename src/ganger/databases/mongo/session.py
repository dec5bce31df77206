"""One step as those see it who take part in it."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.asynchronous.database import AsyncDatabase

from ganger.databases.mongo.draft import Doc, Draft, Wording
from ganger.databases.mongo.gate import pass_alone
from ganger.databases.mongo.journal import SOON, Head

PENDING: Final = "ganger.pending"
PENDED: Final = "ganger.pended"
_TAKEN: Final = ("status", "node", "mtime")
"""What is written when a document is taken."""


class LookAgain(Exception):
    """What the step went by is not so any more."""


@dataclass(slots=True)
class Session:
    """Where the store is, what is read and written, and what will be told.

    `grabs` say how that is taken back which was written ahead of the step.
    """

    database: AsyncDatabase[Doc]
    head: Head
    seal: str
    wording: Wording
    draft: Draft = field(init=False)
    topics: dict[str, None] = field(default_factory=dict)
    grabs: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draft = Draft(self.database, self.wording)

    def draw(self, sequence: str) -> int:
        """The next number of a sequence, from 1 on."""
        return self.add(sequence, 1)

    def add(self, sequence: str, n: int) -> int:
        self.head.sequences[sequence] = self.last(sequence) + n
        return self.last(sequence)

    def last(self, sequence: str) -> int:
        return self.head.sequences.get(sequence, 0)

    async def find(
        self,
        table: str,
        where: Doc,
        most: int = 0,
        fields: Sequence[str] = (),
        order: tuple[tuple[str, int], ...] = (),
    ) -> list[Doc]:
        """Documents, or some fields of them, as they lie there, whatever the step has written."""
        found = self.database[table].find(where, list(fields) or None).limit(most)
        return await (found.sort(list(order)) if order else found).to_list()

    async def set_fields(self, table: str, id: Any, fields: Doc) -> None:
        """Write what nothing depends on, at once: the step may be decided anew, and this with it."""
        await self.database[table].with_options(write_concern=SOON).update_one({"_id": id}, {"$set": fields})

    async def count(self, table: str, where: Doc) -> int:
        """How many documents there are, as they lie there, whatever the step has written."""
        return await self.database[table].count_documents(where)

    async def distinct(self, table: str, name: str, where: Doc) -> list[Any]:
        """The values of a field, as they lie there, whatever the step has written."""
        return await self.database[table].distinct(name, where)

    async def count_by(self, table: str, outer: str, inner: str) -> dict[Any, dict[Any, int]]:
        """How many documents have each pair of values of two fields. Lists and the like are all told as None."""
        group = {"_id": {"outer": f"${outer}", "inner": f"${inner}"}, "n": {"$sum": 1}}
        counted: dict[Any, dict[Any, int]] = {}
        async for one in await self.database[table].aggregate([{"$group": group}]):
            by_inner = counted.setdefault(_plain(one["_id"].get("outer")), {})
            inner = _plain(one["_id"].get("inner"))
            by_inner[inner] = by_inner.get(inner, 0) + one["n"]
        return counted

    def alone(self, name: str) -> AbstractAsyncContextManager[bool]:
        """Count and grab as the only one under this name; False if another was at it all the time."""
        return pass_alone(self.database, name, self.seal)

    async def grab(self, table: str, where: Doc, fields: Doc, order: tuple[tuple[str, int], ...]) -> Doc | None:
        """Take a document ahead of the step, marked with its seal; as it was before, or None if there is none."""
        taken = {**fields, PENDING: self.seal, PENDED: self.head.at}
        collection = self.database[table].with_options(write_concern=SOON)
        found: Doc | None = await collection.find_one_and_update(where, {"$set": taken}, sort=list(order))
        if found is not None:
            self.grabs.append(partial(self._give_back, table, [found]))
        return found

    async def grab_many(
        self, table: str, where: Doc, fields: Doc, order: tuple[tuple[str, int], ...], most: int
    ) -> list[Doc]:
        """Take several documents ahead of the step, the first in this order, each on the condition of one by itself.

        As they were before. Others may take some of them meanwhile: then there are fewer, and none if all went so.
        The journal has what was taken.
        """
        collection = self.database[table]
        seen = await collection.find(where, [*_TAKEN, "ganger"]).sort(list(order)).limit(most).to_list()
        if not seen:
            return []
        before = {document["_id"]: document for document in seen}
        chosen = {"_id": {"$in": list(before)}}
        self.grabs.append(partial(self._give_back, table, seen))
        taken = {**fields, PENDING: self.seal, PENDED: self.head.at}
        await collection.update_many({**where, **chosen}, {"$set": taken})
        found = await collection.find({**chosen, PENDING: self.seal}).sort(list(order)).to_list()
        return [_as_before(document, before[document["_id"]]) for document in found]

    async def _give_back(self, table: str, before: Sequence[Doc]) -> None:
        """Each as it was, to the byte: also when it was last changed, and whether it had what is ours."""
        if before:
            await self.database[table].bulk_write([_restoring(self.seal, document) for document in before])

    async def put_back(self, table: str, document: Doc) -> None:
        """One of what was grabbed is not wanted; as it was before."""
        await self._give_back(table, [document])

    async def make_sure(self, table: str, grabbed: int) -> None:
        """Let the journal have what was grabbed; LookAgain if the server has forgotten some of it."""
        sure = await self.database[table].update_many({PENDING: self.seal}, {"$set": {PENDED: self.head.at + 1}})
        if sure.matched_count < grabbed:
            raise LookAgain

    async def find_old_grabs(self, table: str, before: int) -> set[str]:
        """The seals of steps that grabbed something before then, and have not come about so far."""
        found = await self.database[table].distinct(PENDING, {PENDING: {"$gt": ""}, PENDED: {"$lt": before}})
        return {seal for seal in found if isinstance(seal, str)}

    async def give_back_of(self, table: str, seals: Iterable[str], fields: Doc) -> None:
        """Give back what steps grabbed that never come about, with these fields as they were before."""
        old: Doc = {PENDING: {"$in": sorted(seals)}}
        bare = {"$set": fields, "$unset": {"ganger": ""}}
        await self.database[table].update_many({**old, "ganger.id": None}, bare)
        await self.database[table].update_many(old, {"$set": fields, "$unset": {PENDING: "", PENDED: ""}})


def _plain(value: Any) -> Any:
    return value if isinstance(value, Hashable) else None


def _as_before(taken: Doc, seen: Doc) -> Doc:
    kept = {name: value for name, value in taken.items() if name not in (*_TAKEN, "ganger")}
    return {**kept, **seen}


def _restoring(seal: str, document: Doc) -> UpdateOne:
    taken = {name: document[name] for name in _TAKEN if name in document}
    gone = {name: "" for name in _TAKEN if name not in document}
    ours = {PENDING: "", PENDED: ""} if document.get("ganger") else {"ganger": ""}
    return UpdateOne({"_id": document["_id"], PENDING: seal}, {"$set": taken, "$unset": {**gone, **ours}})
