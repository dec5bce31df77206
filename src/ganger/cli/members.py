"""Which members keep a group from ending well: the group itself says only how many."""

from typing import TYPE_CHECKING, Final

from ganger.core.state import Status
from ganger.core.task import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ganger.core.ids import TaskId
    from ganger.core.task import Task
    from ganger.engine.engine import Engine

SHOWN: Final = 10


async def find_failed(engine: "Engine", tasks: "Iterable[TaskId]") -> "list[Task]":
    """The first members that failed, were killed or were lost, of those of these tasks that are groups and failed."""
    from ganger.engine.store import Query

    failed: list[Task] = []
    for group in await engine.tasks(list(tasks)):
        if group is None or group.kind != Kind.GROUP or group.status < Status.FAILED:
            continue
        async for member in engine.walk(Query(group=group.id)):
            if member.status >= Status.FAILED or member.status in (Status.TERMINATED, Status.ORPHANED):
                failed.append(member)
            if len(failed) == SHOWN:
                return failed
    return failed
