"""One step as those see it who take part in it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo.asynchronous.database import AsyncDatabase

from ganger.databases.mongo.draft import Doc, Draft, Wording
from ganger.databases.mongo.journal import SOON, Head

PENDING: Final = "ganger.pending"
PENDED: Final = "ganger.pended"


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
            self.grabs.append(lambda: self._give_back(table, found))
        return found

    async def _give_back(self, table: str, before: Doc) -> None:
        was = {"node": before.get("node"), "status": before["status"]}
        where = {"_id": before["_id"], PENDING: self.seal}
        await self.database[table].update_one(where, {"$set": was, "$unset": {PENDING: "", PENDED: ""}})

    async def make_sure(self, table: str, grabbed: int) -> None:
        """Let the journal have what was grabbed; LookAgain if the server has forgotten some of it."""
        sure = await self.database[table].update_many({PENDING: self.seal}, {"$set": {PENDED: self.head.at + 1}})
        if sure.matched_count < grabbed:
            raise LookAgain

    async def give_back_old(self, table: str, before: int, fields: Doc) -> None:
        """Give back what was grabbed by steps that never came about, with these fields as they were before."""
        was = {"$set": fields, "$unset": {PENDING: "", PENDED: ""}}
        await self.database[table].update_many({PENDING: {"$gt": ""}, PENDED: {"$lt": before}}, was)
