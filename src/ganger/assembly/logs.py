"""The log of a process: where the settings ask for one."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput
from ganger.core.event import Event
from ganger.engine.engine import Engine
from ganger.engine.telling import Telling, all_of_them
from ganger.runtime.clock import SystemClock
from ganger.runtime.faults import tell_faults
from ganger.runtime.logs import LineLog, LogFormat, Stream
from ganger.runtime.telemetry import LOUD, SILENT, Telemetry

_KNOWN: Final = tuple(form.value for form in LogFormat)
LEVELS: Final = ("debug", "info", "warning", "error", "critical")


def check_level(settings: Settings) -> str:
    """The least that functions log."""
    if settings.log_level.lower() not in LEVELS:
        said = f"log_level is {settings.log_level!r:.40}; write one of {', '.join(LEVELS)}"
        raise BadInput(said, field="log_level")
    return settings.log_level.lower()


@contextmanager
def open_log(settings: Settings, stream: Stream) -> Iterator[Telemetry]:
    """What the parts of this process are to tell their events to, until the end of the context."""
    if not settings.log_format:
        yield SILENT
        return
    if settings.log_format not in _KNOWN:
        raise BadInput(f"log_format is {settings.log_format!r:.40}; write text or json", field="log_format")
    log = LineLog(stream, LogFormat(settings.log_format), SystemClock())
    try:
        yield log
    finally:
        log.close()


def watch_loop(log: Telemetry) -> None:
    """Have the log, or standard error, told of what nobody caught in this event loop."""
    tell_faults(LOUD if log is SILENT else log)


@asynccontextmanager
async def log_facts(
    engine: Engine, telemetry: Telemetry, wanted: Callable[[Event], bool] = all_of_them
) -> AsyncIterator[None]:
    """Have the facts about tasks in the log too, if there is one."""
    if telemetry is SILENT:
        yield
        return
    telling = Telling(engine, telemetry, wanted)
    await telling.start()
    try:
        yield
    finally:
        await telling.stop()
