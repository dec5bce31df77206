"""A task system that gives every piece of work to a worker, watches it, and never loses it.

The names below are for those who submit work: their times are seconds. Those who write workers or doors of their own
find the engine's names, whose times are milliseconds, in `ganger.engine`. Each name is loaded when it is first used:
`import ganger` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ganger.assembly.client import Ganger as Ganger
    from ganger.assembly.embedded import open_engine as open_engine
    from ganger.client.backoff import Delays as Delays
    from ganger.client.backoff import Exponential as Exponential
    from ganger.client.backoff import Fixed as Fixed
    from ganger.client.handle import Handle as Handle
    from ganger.client.handle import TaskFailed as TaskFailed
    from ganger.core.errors import GangerError as GangerError
    from ganger.core.errors import TaskHeld as TaskHeld
    from ganger.core.retry import Retry as Retry
    from ganger.core.signals import Cancel as Cancel
    from ganger.core.signals import Snooze as Snooze
    from ganger.core.state import Status as Status
    from ganger.node.functions.context import current as current

__version__ = "0.1.0.dev0"

__all__ = [
    "Cancel",
    "Delays",
    "Exponential",
    "Fixed",
    "Ganger",
    "GangerError",
    "Handle",
    "Retry",
    "Snooze",
    "Status",
    "TaskFailed",
    "TaskHeld",
    "__version__",
    "current",
    "open_engine",
]

_PLACES: Final = {
    "Cancel": "core.signals",
    "Delays": "client.backoff",
    "Exponential": "client.backoff",
    "Fixed": "client.backoff",
    "Ganger": "assembly.client",
    "GangerError": "core.errors",
    "Handle": "client.handle",
    "Retry": "core.retry",
    "Snooze": "core.signals",
    "Status": "core.state",
    "TaskFailed": "client.handle",
    "TaskHeld": "core.errors",
    "current": "node.functions.context",
    "open_engine": "assembly.embedded",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ganger' has no attribute {name!r}")
    return getattr(import_module(f"ganger.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
