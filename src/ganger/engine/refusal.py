"""A verdict of the store as the error that a caller gets who asked for one thing."""

from ganger.core.errors import GangerError, StaleLease, TaskNotFound, WrongStatus
from ganger.core.state import Verdict


def refusal(task: int, fence: int, what: str, verdict: str) -> GangerError:
    if verdict == Verdict.STALE:
        return StaleLease(
            f"lease {fence} of task {task} has ended, so {what} was not stored; claim the task again to go on",
            task=task,
            fence=fence,
        )
    if verdict == Verdict.GONE:
        return TaskNotFound(f"there is no task {task}", task=task)
    return WrongStatus(f"task {task} is not in a status in which {what} is possible; look at it first", task=task)
