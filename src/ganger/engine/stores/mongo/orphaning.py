"""What a stranger's node had in hand when it went: it would orphan that itself at its next start, if there were one."""

from typing import Any, Final

from ganger.core.ids import TaskId
from ganger.core.state import LEASED, Status
from ganger.databases.mongo import Doc
from ganger.engine.stores.mongo.tables import SEEN, SHOWN, TASKS

_HELD: Final = sorted(int(status) for status in LEASED)
_MOST: Final = 10_000


async def knows(base: Any, node: str) -> bool:
    """Is or was there such a node, of whatever make?"""
    return await base[SHOWN.name].find_one({"node": node}) is not None


async def orphan(base: Any, node: str) -> list[TaskId]:
    """Orphan its tasks as the protocol has it, each by one conditional write. What follows is found by upkeep.

    A lease that we gave is left alone, and so is a task that a step of ours is just taking.
    """
    found = await base[TASKS.name].find(_held_by(node), {"ganger.id": 1}).to_list(_MOST)
    ids = [document["_id"] for document in found]
    write = {"$set": {"status": int(Status.ORPHANED)}, "$currentDate": {"mtime": True}}
    await base[TASKS.name].update_many({**_held_by(node), "_id": {"$in": ids}}, write)
    seen = await base[SEEN.name].find({"_id": {"$in": ids}}, {"n": 1}).to_list()
    ours = [document["ganger"]["id"] for document in found if "id" in document.get("ganger", ())]
    return [TaskId(task) for task in sorted({*ours, *(one["n"] for one in seen)})]


def _held_by(node: str) -> Doc:
    return {"node": node, "status": {"$in": _HELD}, "ganger.holder": None, "ganger.pending": None}
