"""One step as those see it who take part in it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pymongo.asynchronous.database import AsyncDatabase

from ganger.databases.mongo.draft import Doc, Draft, Wording
from ganger.databases.mongo.journal import SOON, Head

PENDING: Final = "ganger.pending"
PENDED: Final = "ganger.pended"
_TAKEN: Final = {"node": 1, "status": 1, "mtime": 1}
"""What is written when a document is taken."""
_TAKEN_FROM: Final[Doc] = {"node": None, "mtime": None}
"""The same where it was not there before."""


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

    async def find(self, table: str, where: Doc, most: int = 0) -> list[Doc]:
        """Documents as they lie there, whatever the step has written."""
        return await self.database[table].find(where).limit(most).to_list()

    async def count_by(self, table: str, outer: str, inner: str) -> dict[Any, dict[Any, int]]:
        """How many documents have each pair of values of two fields."""
        group = {"_id": {"outer": f"${outer}", "inner": f"${inner}"}, "n": {"$sum": 1}}
        counted: dict[Any, dict[Any, int]] = {}
        async for one in await self.database[table].aggregate([{"$group": group}]):
            counted.setdefault(one["_id"].get("outer"), {})[one["_id"].get("inner")] = one["n"]
        return counted

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
        seen = await collection.find(where, _TAKEN).sort(list(order)).limit(most).to_list()
        if not seen:
            return []
        before = {document["_id"]: document for document in seen}
        chosen = {"_id": {"$in": list(before)}}
        self.grabs.append(partial(self._give_back, table, seen))
        taken = {**fields, PENDING: self.seal, PENDED: self.head.at}
        await collection.update_many({**where, **chosen}, {"$set": taken})
        found = await collection.find({**chosen, PENDING: self.seal}).sort(list(order)).to_list()
        return [{**document, **_TAKEN_FROM, **before[document["_id"]]} for document in found]

    async def _give_back(self, table: str, before: Sequence[Doc]) -> None:
        alike: dict[tuple[Any, int], list[Any]] = {}
        for document in before:
            alike.setdefault((document.get("node"), document["status"]), []).append(document["_id"])
        for (node, status), ids in alike.items():
            was = {"$set": {"node": node, "status": status}, "$unset": {PENDING: "", PENDED: ""}}
            await self.database[table].update_many({"_id": {"$in": ids}, PENDING: self.seal}, was)

    async def make_sure(self, table: str, grabbed: int) -> None:
        """Let the journal have what was grabbed; LookAgain if the server has forgotten some of it."""
        sure = await self.database[table].update_many({PENDING: self.seal}, {"$set": {PENDED: self.head.at + 1}})
        if sure.matched_count < grabbed:
            raise LookAgain

    async def give_back_old(self, table: str, before: int, fields: Doc) -> None:
        """Give back what was grabbed by steps that never came about, with these fields as they were before."""
        was = {"$set": fields, "$unset": {PENDING: "", PENDED: ""}}
        await self.database[table].update_many({PENDING: {"$gt": ""}, PENDED: {"$lt": before}}, was)
