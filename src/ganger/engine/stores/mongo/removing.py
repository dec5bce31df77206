"""How a task leaves the store with all that belongs to it."""

from ganger.core.ids import TaskId
from ganger.engine.stores.mongo import cascade, choices
from ganger.engine.stores.mongo.noting import count_output
from ganger.engine.stores.mongo.row import Row
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import ATTEMPTS, CHUNKS, DATA


async def forget(step: Step, row: Row) -> None:
    """Remove a task, its edges, its data, its output and its history. What its edges decided stays decided."""
    task = row.task.id
    links = [*await cascade.links_above(step, task), *await cascade.links_below(step, task)]
    await step.load(end for link in links for end in (link.child, link.parent))
    for link in links:
        await cascade.drop_edge(step, link)
    for datum in await step.draft.select(choices.data_of(task)):
        step.draft.drop(DATA, DATA.key_of(datum))
    for attempt in await step.draft.select(choices.attempts_of(task)):
        step.draft.drop(ATTEMPTS, ATTEMPTS.key_of(attempt))
    await forget_output(step, task)
    step.drop(await step.known(task))


async def forget_output(step: Step, task: TaskId) -> None:
    chunks = await step.draft.select(choices.chunks_of(task))
    for chunk in chunks:
        step.draft.drop(CHUNKS, chunk.key)
    if chunks:
        await count_output(step, task, -sum(chunk.chunk.size for chunk in chunks))
