"""What is said of an error that nobody expected: what it is and where it was raised, never what it was raised about.

The text of a foreign error may hold what it was raised about: the bytes that are no UTF-8, the key that is missing, the
row that a server refuses. And when a callback fails, the event loop shows it with all that it was given: the payload of
a job, its result. A log is read by more people than a payload is for.
"""

import asyncio
import re
import traceback
from functools import partial
from pathlib import Path
from typing import Any, Final

from ganger.core.errors import GangerError
from ganger.runtime.telemetry import Telemetry

_PACKAGE: Final = Path(__file__).parents[1]
_PLACES: Final = 3
_LONGEST: Final = 80


def name_fault(error: BaseException) -> str:
    """Its kind, what it says if those words are ours or the system's, and the innermost places of ours behind it."""
    return ", ".join([_word(error), *(f"at {place}" for place in _find_places(error))])


def _word(error: BaseException) -> str:
    if isinstance(error, GangerError):
        return f"{error.code}: {error.message}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__


def _find_places(error: BaseException) -> list[str]:
    frames = [(Path(frame.filename), frame) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [(path.relative_to(_PACKAGE), frame) for path, frame in frames if path.is_relative_to(_PACKAGE)]
    return [f"{path}:{frame.lineno} {frame.name}" for path, frame in reversed(ours)][:_PLACES]


def tell_faults(telemetry: Telemetry) -> None:
    """Have this event loop tell of what nobody caught, and nothing of what that was given."""
    asyncio.get_running_loop().set_exception_handler(partial(_tell, telemetry))


def _tell(telemetry: Telemetry, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    task = context.get("task") or context.get("future")
    name = task.get_name() if isinstance(task, asyncio.Task) else ""
    said = "" if error is None else name_fault(error)
    # The loop's own words come first, then the callback with all that it was given.
    what = re.split(r"[(<\[]", str(context.get("message", "")))[0].strip()[:_LONGEST]
    telemetry.event("loop_fault", what=what, task=name, error=said)
