"""Who is followed: tasks whose output somebody reads as it comes. Each mark ends by itself."""

from collections.abc import Collection, Sequence

from ganger.core.clock import Moment
from ganger.core.ids import TaskId
from ganger.engine.store import FOLLOWED_TOPIC, LONGEST_FOLLOW, MOST_FOLLOWED
from ganger.engine.stores.mongo import choices
from ganger.engine.stores.mongo.row import Row
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import FOLLOWS


async def follow(step: Step, row: Row, length: int) -> None:
    """Remember it; its holder is told if that is new to it."""
    followed, task = await _all(step), row.task.id
    if task not in followed and row.task.holder is not None:
        step.wake(FOLLOWED_TOPIC)
    followed[task] = Moment(step.now + min(length, LONGEST_FOLLOW))
    step.draft.put(FOLLOWS, (task, followed[task]))
    if len(followed) > MOST_FOLLOWED:
        first = min(followed, key=lambda one: followed[one])
        del followed[first]
        step.draft.drop(FOLLOWS, first)


async def _all(step: Step) -> dict[TaskId, Moment]:
    """All marks that have not ended, read once in a step; those that have are forgotten on the way."""
    if step.followed is None:
        marks = await step.draft.select(choices.follows())
        for task, until in marks:
            if until <= step.now:
                step.draft.drop(FOLLOWS, task)
        step.followed = {task: until for task, until in marks if until > step.now}
    return step.followed


async def tell_holder(step: Step, tasks: Collection[TaskId]) -> None:
    """These are leased from now on: whoever holds them must learn who is followed."""
    if await followed_among(step, tasks):
        step.wake(FOLLOWED_TOPIC)


async def followed_among(step: Step, tasks: Collection[TaskId]) -> Sequence[TaskId]:
    """Those of these tasks that somebody follows now."""
    await step.draft.load(FOLLOWS, tasks)
    marks = [step.draft.at_hand(FOLLOWS, task) for task in tasks]
    return [mark[0] for mark in marks if mark is not None and mark[1] > step.now]
