"""What the members of groups are about: how many have ended, and which keep a group from ending well."""

import sys
from typing import TYPE_CHECKING, Final

from ganger.core.state import Status, is_final
from ganger.core.task import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ganger.core.ids import TaskId
    from ganger.core.task import Task
    from ganger.engine.engine import Engine

SHOWN: Final = 10
_AT_ONCE: Final = 1_000


class Tally:
    """Counts the tasks that somebody waits for; in place of a group, its members. Those that have ended stay so."""

    def __init__(self, engine: "Engine", single: "Sequence[int]", members: "Iterable[TaskId]") -> None:
        self._engine = engine
        self._single = single
        self._open = list(members)
        self._ended = 0
        self.total = len(single) + len(self._open)

    @classmethod
    async def of(cls, engine: "Engine", ids: "Sequence[TaskId]") -> "Tally":
        """A tally of these tasks. Where nobody watches it counts the groups themselves, which costs nothing."""
        from ganger.engine.store import Query

        if not sys.stderr.isatty():
            return cls(engine, range(len(ids)), [])
        single: list[int] = []
        members: list[TaskId] = []
        for place, task in enumerate(await engine.tasks(list(ids))):
            if task is None or task.kind != Kind.GROUP:
                single.append(place)
            else:
                members += [member.id async for member in engine.walk(Query(group=task.id))]
        return cls(engine, single, members)

    async def count_ended(self, statuses: "Sequence[int]") -> int:
        """How many have ended, when the tasks that are waited for have these statuses."""
        still: list[TaskId] = []
        for start in range(0, len(self._open), _AT_ONCE):
            asked = self._open[start : start + _AT_ONCE]
            found = zip(asked, await self._engine.tasks(asked), strict=True)
            still += [task for task, seen in found if seen is not None and not is_final(seen.status)]
        self._ended += len(self._open) - len(still)
        self._open = still
        return self._ended + sum(is_final(statuses[place]) for place in self._single)


async def count_members(engine: "Engine", group: "TaskId") -> tuple[int, int]:
    """How many members of a group have succeeded, and of how many."""
    from ganger.engine.store import Query

    statuses = [member.status async for member in engine.walk(Query(group=group))]
    return statuses.count(int(Status.SUCCEEDED)), len(statuses)


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
