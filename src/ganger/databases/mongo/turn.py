"""Whose turn it is to take a step, where several processes want to: a courtesy, and no lock.

Steps are right whoever takes them and however many at once, but only one of those gets in and the others have worked
for nothing. So a process says that it is at it, and others wait a little. Who dies at it, or takes too long, is passed
over; nothing is right only because somebody waited.
"""

import asyncio
import contextlib
from typing import Final

from pymongo import WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from ganger.core.clock import Entropy
from ganger.databases.mongo.draft import Doc

TURN: Final = "ganger_turn"
_LENGTH: Final = 500
_LONGEST: Final = 4_000
"""Milliseconds after which a turn is anybody's: the second if it was too short for one that starves."""
_STARVING: Final = 3
"""Who has lost so often is waited for by everybody, also by those who were alone so far."""
_LOOKS: Final = 200
_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.02


class Turn:
    def __init__(self, database: AsyncDatabase[Doc], entropy: Entropy) -> None:
        self._turns = database[TURN].with_options(write_concern=WriteConcern(w=1))
        self._entropy = entropy
        self._me = entropy.token(8).hex()
        self._mine = False
        self._wanted = False

    def is_anothers(self, holder: str | None) -> bool:
        return holder not in (None, self._me)

    async def take(self, losses: int = 0) -> None:
        """Wait until it is this process's turn, but not for ever. `losses`: so often another got in all the same."""
        pause = _FIRST_PAUSE
        for _ in range(_LOOKS):
            if await self._try(losses):
                return
            await asyncio.sleep(pause * (0.5 + self._entropy.uniform()))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def _try(self, losses: int) -> bool:
        urgent = losses >= _STARVING
        length = min(_LENGTH << (losses - _STARVING + 1), _LONGEST) if urgent else _LENGTH
        free = {"$or": [{"holder": {"$in": [None, self._me]}}, {"$expr": {"$lt": ["$until", "$$NOW"]}}]}
        until = {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": length}}
        taken = [{"$set": {"holder": self._me, "until": until, "wanted": False, "urgent": urgent}}]
        before = await self._turns.find_one_and_update({"_id": "turn", **free}, taken)
        if before is None:
            await self._turns.update_one({"_id": "turn"}, {"$set": {"wanted": True}}, upsert=True)
            return False
        self._wanted = self._mine and bool(before.get("wanted"))
        self._mine = True
        return True

    async def lost(self) -> None:
        """Another got in first: give it room."""
        await asyncio.sleep(_LONGEST_PAUSE * self._entropy.uniform())

    async def leave(self, for_good: bool) -> None:
        """Let others have their turn, if nothing more is to be done here or another has asked for it."""
        if not self._mine or not (for_good or self._wanted):
            return
        self._mine = False
        # A server that is gone need not hear of it: a turn ends by itself.
        with contextlib.suppress(PyMongoError):
            await self._turns.update_one({"_id": "turn", "holder": self._me}, {"$set": {"holder": None}})
        if not for_good:
            await asyncio.sleep(_LONGEST_PAUSE)
