"""Who is followed: tasks whose output somebody reads as it comes.

The marks are in the owner's memory alone: each ends by itself after seconds, whoever follows says so again, and what
a crash forgets is said again too. So nothing is written for them, and nothing has to be taken back with a rollback.
"""

from array import array
from collections.abc import Iterable

import apsw

from ganger.core.ids import TaskId
from ganger.engine.store import FOLLOWED_TOPIC, LONGEST_FOLLOW, MOST_FOLLOWED
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step


def follow(step: Step, task: int, holder: int | None, length: int) -> None:
    """Remember it; its holder is told if that is new to it."""
    _forget_ended(step)
    followed = step.shelf.followed
    if task not in followed and holder is not None:
        step.session.wake(FOLLOWED_TOPIC)
    followed[task] = step.now + min(length, LONGEST_FOLLOW)
    if len(followed) > MOST_FOLLOWED:
        del followed[min(followed, key=lambda one: followed[one])]


def tell_holder(step: Step, tasks: Iterable[int]) -> None:
    """These are leased from now on: whoever holds them must learn who is followed."""
    if not step.shelf.followed.keys().isdisjoint(tasks):
        step.session.wake(FOLLOWED_TOPIC)


def followed_of(step: Step, node: int) -> tuple[TaskId, ...]:
    """Those of the node's tasks that somebody follows now."""
    if not step.shelf.followed:
        return ()
    _forget_ended(step)
    marked = apsw.carray(array("q", step.shelf.followed)) if step.shelf.followed else None
    return () if marked is None else tuple(TaskId(row[0]) for row in step.run(Q.followed_held, (marked, node)))


def _forget_ended(step: Step) -> None:
    followed = step.shelf.followed
    for task in [task for task, until in followed.items() if until <= step.now]:
        del followed[task]
