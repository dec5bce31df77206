"""A finished task is tried again: as a new task that names the old one, because a final status never changes."""

from ganger.core.errors import WrongStatus
from ganger.core.ids import TaskId
from ganger.core.state import is_final
from ganger.core.task import NewTask, Task
from ganger.engine.audit import act
from ganger.engine.inspect import get
from ganger.engine.output import Places, read_whole
from ganger.engine.submit import submit
from ganger.engine.witness import Witness


async def retry_final(places: Places, task: TaskId, by: str, witness: Witness | None) -> TaskId:
    """Submit the same work once more. Its key, parents, group and batch stay with the old one."""
    old = await get(places.store, task)
    if not is_final(old.status):
        raise WrongStatus(f"task {task} has not ended; only a final task is tried again", task=task)
    new = _like(old, await read_whole(places, task, "spec"))
    told = act(by, "task.retry_final", task=int(task))
    made = await submit(places.store, [new], places.limits, witness=witness, act=told)
    return made.ids[0]


def _like(old: Task, spec: bytes) -> NewTask:
    return NewTask(
        old.queue, old.kind, spec, old.priority, description=old.description, retry=old.retry, timeout=old.timeout,
        renewal=old.renewal, ttr=old.ttr, limit_key=old.limit_key, requires=old.requires, retry_of=old.id,
    )  # fmt: skip
