"""Letters: tasks that applications wrote into the store's inbox, each in a transaction of its own.

An application that would store a task itself, in its own transaction, would hold the turnstile until it commits, and
every node would wait for it. So it only leaves a letter. With its commit the letter is there, and the next idle claim
or chore of any node makes a task of it, in the step that takes the letter away: neither can be without the other. A
letter that can never be a task is set aside with the reason, and does not hold up the others.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from ganger.core import names
from ganger.core.errors import BadInput, Conflict, GangerError, NotFound, QueueAmbiguous
from ganger.core.ids import QueueId
from ganger.core.task import NewTask
from ganger.engine.limits import Limits
from ganger.engine.store import QueueChange, Submission
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.queueing import change_queue
from ganger.engine.stores.postgres.step import Step
from ganger.engine.stores.postgres.submitting import submit
from ganger.engine.submit import check_tasks
from ganger.wire.letters import read_letter

AT_ONCE: Final = 1_000
_REFUSALS: Final = (BadInput, Conflict, NotFound)

RunStep = Callable[[Callable[[Step, Any], Awaitable[Any]], Any], Awaitable[Any]]


class Some(NamedTuple):
    """The letters that are taken next: at most so many, after that number."""

    most: int = AT_ONCE
    after: int = 0


class Refusal(NamedTuple):
    """A letter that is no task, and why."""

    number: int
    reason: str


async def open_inbox(run: RunStep) -> int:
    """Take letters until none is left; how many there were."""
    total = 0
    while taken := await _take(run):
        total += taken
    return total


async def _take(run: RunStep) -> int:
    """Take some together, or one by one if one of them spoils it."""
    try:
        taken: int = await run(take_letters, Some())
    except _REFUSALS:
        return await _take_singly(run)
    return taken


async def _take_singly(run: RunStep) -> int:
    number, done = 0, 0
    while done < AT_ONCE and (found := await run(_find_next, Some(1, number))) is not None:
        number, done = found, done + 1
        try:
            await run(take_letters, Some(1, number - 1))
        except _REFUSALS as error:
            await run(_set_aside, Refusal(number, _tell(error)))
    return done


async def take_letters(step: Step, some: Some) -> int:
    """Make tasks of letters; how many. Raises what is wrong with one of them, and then none is taken."""
    rows = sorted(tuple(row) for row in await step.run(Q.inbox_take, some.after, some.most))
    if rows:
        tasks = [await _address(step, *read_letter(key, body, "inbox")) for _, key, body in rows]
        check_tasks(tasks, Limits())
        await submit(step, Submission(tuple(tasks)))
    return len(rows)


async def _address(step: Step, name: str, task: NewTask) -> NewTask:
    """The task in the queue of that name, which is made if there is none."""
    names.check("queue", name)
    bearers = [int(queue.id) for queue in step.shelf.queues.values() if queue.name == name]
    if len(bearers) > 1:
        raise QueueAmbiguous(f"{len(bearers)} queues are called {name!r}: give them different names", ids=bearers)
    if not bearers:
        bearers = [(await change_queue(step, QueueChange(name=name))).id]
    return task._replace(queue=QueueId(bearers[0]))


async def _find_next(step: Step, some: Some) -> int | None:
    number: int | None = await step.one(Q.inbox_next, some.after)
    return number


async def _set_aside(step: Step, refusal: Refusal) -> None:
    await step.run(Q.inbox_refuse, refusal.reason, refusal.number)


def _tell(error: GangerError) -> str:
    return f"{error.code}: {error.message}"
