"""How a task leaves the store with all that belongs to it."""

from collections.abc import Sequence

from ganger.core.ids import TaskId
from ganger.databases.mongo import ObjectId
from ganger.engine.stores.mongo import cascade, choices
from ganger.engine.stores.mongo.noting import count_output
from ganger.engine.stores.mongo.outputs import FILE_CHUNKS, FILES
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
    await forget_files(step, [said for said in (row.stdout, row.stderr) if isinstance(said, ObjectId)])
    step.drop(await step.known(task))


async def forget_output(step: Step, task: TaskId) -> None:
    chunks = await step.draft.select(choices.chunks_of(task))
    for chunk in chunks:
        step.draft.drop(CHUNKS, chunk.key)
    if chunks:
        await count_output(step, task, -sum(chunk.chunk.size for chunk in chunks))


async def forget_files(step: Step, files: Sequence[ObjectId]) -> None:
    """Files of GridFS go with the task whose output they are."""
    for table, where in ((FILES, {"_id": {"$in": list(files)}}), (FILE_CHUNKS, {"files_id": {"$in": list(files)}})):
        for document in await step.session.find(table.name, where, fields=("_id",)) if files else ():
            step.draft.drop(table, table.key_of(step.draft.learn(table, document)))
