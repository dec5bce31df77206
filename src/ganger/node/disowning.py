"""Ends an attempt that a former node began and whose lease is lost."""

from typing import Final

from ganger.core.errors import GangerError
from ganger.node.executor import Run
from ganger.runtime.telemetry import Telemetry

LOST: Final = "its lease was lost"


async def end_stray(run: Run, telemetry: Telemetry) -> None:
    telemetry.event("attempt_disowned", task=run.task, fence=run.fence)
    try:
        await run.stop(LOST)
        await run.ended()
    except GangerError as error:
        telemetry.event("attempt_unheard", task=run.task, fence=run.fence, error=error.code)
        return
    run.forget()
