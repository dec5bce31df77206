"""A request that is sent again: the same key and the same task give the task that is there, another task is refused.

The keys are looked at before anything is stored. Between the look and the storing another client may take one of them:
so a key that nobody had is stored on the condition that nobody has it, which refuses the request as a whole, and then
the keys are looked at again. Whoever was quicker with the same task gives it to both; with another one the slower is
refused, and nothing of its request is there. A task that was found may be gone when the request is stored, and another
have its key: that is seen afterwards.
"""

from collections.abc import Sequence
from typing import Final

from ganger.core import names
from ganger.core.errors import DuplicateKey
from ganger.core.ids import TaskId
from ganger.core.task import NewTask, OnConflict, Task
from ganger.engine.engine import Engine
from ganger.engine.store import Query
from ganger.faces.http.request import Request
from ganger.faces.v1.values import SPEC
from ganger.wire.v1.requests import SAME, Draft

HEADER: Final = b"idempotency-key"


def give_keys(drafts: Sequence[Draft], request: Request) -> list[Draft]:
    """With the header `Idempotency-Key` each task that has no key of its own gets one, and is compared by it."""
    said = request.headers.get(HEADER)
    if said is None:
        return list(drafts)
    key = names.check("idempotency key", said.decode("latin-1"))
    return [
        draft if draft.task.key else draft._replace(task=draft.task._replace(key=f"{key} {index}", on_conflict=SAME))
        for index, draft in enumerate(drafts)
    ]


def is_compared(draft: Draft) -> bool:
    return draft.task.on_conflict == SAME


def settle_conflicts(draft: Draft, known: bool) -> Draft:
    """As the engine knows it: what was there and is the same is given back, and what was not there must not be."""
    if not is_compared(draft):
        return draft
    return draft._replace(task=draft.task._replace(on_conflict=OnConflict.RETURN if known else OnConflict.REFUSE))


def divide(drafts: Sequence[Draft]) -> tuple[list[NewTask], list[tuple[int, str, bytes]]]:
    """The tasks, and the values beside their specs, each with the place of its task."""
    data = [(index, key, content) for index, draft in enumerate(drafts) for key, content in draft.data]
    return [draft.task for draft in drafts], data


async def compare_before(engine: Engine, drafts: Sequence[Draft]) -> frozenset[int]:
    """Which of those that are compared are there already. DuplicateKey if a key belongs to another task."""
    known = set()
    for index, draft in enumerate(drafts):
        if is_compared(draft):
            for task in (await engine.find(Query(key=draft.task.key, most=1))).tasks:
                await _compare(engine, index, draft, task)
                known.add(index)
    return frozenset(known)


async def compare_after(engine: Engine, drafts: Sequence[Draft], ids: Sequence[TaskId], existing: set[int]) -> None:
    chosen = [index for index in existing if is_compared(drafts[index])]
    if not chosen:
        return
    for index, task in zip(chosen, await engine.tasks([ids[index] for index in chosen]), strict=True):
        if task is not None:
            await _compare(engine, index, drafts[index], task)


async def _compare(engine: Engine, index: int, draft: Draft, task: Task) -> None:
    new = draft.task
    spec = (await engine.read_data(task.id, SPEC, 0, engine.limits.payload)).body
    if (task.kind, spec) != (new.kind, new.spec):
        raise DuplicateKey(
            f"task {index} of the request: task {task.id} has the key {new.key!r} and is another one",
            task=task.id,
            key=new.key,
            index=index,
        )
