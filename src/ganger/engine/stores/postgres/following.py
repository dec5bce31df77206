"""Who is followed: tasks whose output somebody reads as it comes.

The marks are in a table that is not written ahead: each ends by itself after seconds, whoever follows says so again,
and what a crash of the server forgets is said again too.
"""

from collections.abc import Sequence

from ganger.core.ids import TaskId
from ganger.engine.store import FOLLOWED_TOPIC, LONGEST_FOLLOW, MOST_FOLLOWED
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row, columns
from ganger.engine.stores.postgres.step import Step


async def follow(step: Step, asked: Sequence[tuple[Row, int]]) -> None:
    """Remember them; a holder is told if that is new to it."""
    await step.run(Q.followed_ended, step.now)
    marks = {row.id: step.now + min(length, LONGEST_FOLLOW) for row, length in asked}
    fresh = {task for task, new in await step.run(Q.followed_put, *columns(sorted(marks.items()), 2)) if new}
    if any(row.id in fresh and row.holder is not None for row, _ in asked):
        step.session.wake(FOLLOWED_TOPIC)
    await step.run(Q.followed_cut, MOST_FOLLOWED)


async def tell_holder(step: Step, tasks: Sequence[int]) -> None:
    """These are leased from now on: whoever holds them must learn who is followed."""
    if step.sight.follows and await step.one(Q.followed_any, tasks):
        step.session.wake(FOLLOWED_TOPIC)


async def followed_of(step: Step, node: int) -> tuple[TaskId, ...]:
    """Those of the node's tasks that somebody follows now."""
    if not step.sight.follows:
        return ()
    return tuple(TaskId(row[0]) for row in await step.run(Q.followed_of, node, step.now))
