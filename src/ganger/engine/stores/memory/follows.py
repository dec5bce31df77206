"""Who is followed: tasks whose output somebody reads as it comes. Each mark ends by itself."""

from collections.abc import Iterable

from ganger.core.clock import Moment
from ganger.core.ids import NodeId, TaskId
from ganger.engine.store import FOLLOWED_TOPIC, LONGEST_FOLLOW, MOST_FOLLOWED
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.step import Step


def follow(step: Step, row: Row, length: int) -> None:
    """Remember it; its holder is told if that is new to it."""
    forget_ended(step)
    followed, task = step.tables.followed, row.task.id
    if task not in followed and row.task.holder is not None:
        step.wake(FOLLOWED_TOPIC)
    followed.put(task, Moment(step.now + min(length, LONGEST_FOLLOW)))
    if len(followed) > MOST_FOLLOWED:
        followed.drop(min(followed, key=lambda one: followed[one]))


def tell_holder(step: Step, tasks: Iterable[TaskId]) -> None:
    """These are leased from now on: whoever holds them must learn who is followed."""
    if any(task in step.tables.followed for task in tasks):
        step.wake(FOLLOWED_TOPIC)


def followed_of(step: Step, node: NodeId) -> tuple[TaskId, ...]:
    """Those of the node's tasks that somebody follows now."""
    forget_ended(step)
    held = step.tables.active_of_node.bucket(node) if len(step.tables.followed) else ()
    return tuple(task for task in held if task in step.tables.followed)


def forget_ended(step: Step) -> None:
    followed = step.tables.followed
    for task in [task for task in followed if followed[task] <= step.now]:
        followed.drop(task)
