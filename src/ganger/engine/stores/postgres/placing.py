"""Where tasks are looked for: those that are ready, and those that are leased, each in a narrow table of its own.

They are indexes in the form of tables, kept apart so that a claim and a settle change nothing that an index of the task
holds. The task's own row is the truth, and its lock guards its places: who moves a task takes it out of them first, and
puts it back where it is ready again. The usual ways (a plain submit, a claim, a success) do so in their one statement.
"""

from collections.abc import Sequence

from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.step import Step


async def leave(step: Step, tasks: Sequence[int]) -> None:
    """Take these out of all places. Before they are changed: they are found there by what they are now."""
    if tasks:
        await step.run(Q.places_leave, tasks)


async def enter(step: Step, tasks: Sequence[int]) -> None:
    """Let those of them be claimed that are ready now."""
    if tasks:
        await step.run(Q.ready_enter, tasks)
