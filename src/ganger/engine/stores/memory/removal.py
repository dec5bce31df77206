"""How a task leaves the store with all that belongs to it."""

from ganger.core.ids import TaskId
from ganger.engine.stores.memory import graph
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.step import Step


def forget(step: Step, row: Row) -> None:
    """Remove a task, its edges, its data, its output and its history. What its edges decided stays decided."""
    task = row.task.id
    for link in [*graph.links_above(step, task), *graph.links_below(step, task)]:
        graph.drop_edge(step, link)
    for key in list(step.tables.data_keys.bucket(task)):
        step.tables.data.drop((task, key))
    for fence in list(step.tables.attempts_of.bucket(task)):
        step.tables.attempts.drop((task, fence))
    forget_output(step, task)
    step.drop(step.tables.rows[task])


def forget_output(step: Step, task: TaskId) -> None:
    for key in list(step.tables.chunk_keys.bucket(task)):
        step.tables.chunks.drop(key)
