"""Looking at tasks: pages of them, all of one, and how many there are."""

from collections.abc import AsyncGenerator, Sequence

from ganger.core.errors import TaskNotFound
from ganger.core.ids import TaskId
from ganger.core.task import Task
from ganger.engine.checks import LATEST, check_whole
from ganger.engine.limits import Limits
from ganger.engine.store import Page, Query, Store


async def find(store: Store, query: Query, limits: Limits) -> Page:
    """One page of the tasks that match."""
    check_most(query.most, limits)
    if query.after is not None:
        check_whole("after", query.after, 0, LATEST)
    return await store.find(query)


async def walk(store: Store, query: Query, limits: Limits) -> AsyncGenerator[Task, None]:
    """Every task that matches, page by page; never more than a page is in memory."""
    page = await find(store, query, limits)
    while True:
        for task in page.tasks:
            yield task
        if page.next is None:
            return
        page = await store.find(query._replace(after=page.next))


async def get(store: Store, task: TaskId) -> Task:
    (found,) = await store.tasks([task])
    if found is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    return found


def check_most(most: int, limits: Limits) -> None:
    check_whole("most", most, 1, limits.page)


def check_ids(ids: Sequence[TaskId], limits: Limits) -> Sequence[TaskId]:
    check_whole("the number of ids", len(ids), 0, limits.wait_ids)
    return ids
