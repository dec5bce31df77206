"""A task system that gives every piece of work to a worker, watches it, and never loses it.

The names below are the public ones. Each is loaded when it is first used: `import ganger` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ganger.assembly.client import Ganger as Ganger
    from ganger.assembly.embedded import open_engine as open_engine
    from ganger.client.handle import Handle as Handle
    from ganger.client.handle import TaskFailed as TaskFailed
    from ganger.core.errors import GangerError as GangerError
    from ganger.core.errors import TaskHeld as TaskHeld
    from ganger.core.graph import Edge as Edge
    from ganger.core.node import Registration as Registration
    from ganger.core.outcome import Fail as Fail
    from ganger.core.outcome import Hold as Hold
    from ganger.core.outcome import Release as Release
    from ganger.core.outcome import Succeed as Succeed
    from ganger.core.queue import Policy as Policy
    from ganger.core.queue import with_retry as with_retry
    from ganger.core.retry import Delays as Delays
    from ganger.core.retry import Exponential as Exponential
    from ganger.core.retry import Fixed as Fixed
    from ganger.core.retry import Retry as Retry
    from ganger.core.signals import Cancel as Cancel
    from ganger.core.signals import Snooze as Snooze
    from ganger.core.state import Status as Status
    from ganger.core.task import NewTask as NewTask
    from ganger.engine.engine import Engine as Engine
    from ganger.engine.store import Claim as Claim
    from ganger.engine.store import Query as Query
    from ganger.node.functions.context import current as current

__version__ = "0.1.0.dev0"

__all__ = [
    "Cancel",
    "Claim",
    "Delays",
    "Edge",
    "Engine",
    "Exponential",
    "Fail",
    "Fixed",
    "Ganger",
    "GangerError",
    "Handle",
    "Hold",
    "NewTask",
    "Policy",
    "Query",
    "Registration",
    "Release",
    "Retry",
    "Snooze",
    "Status",
    "Succeed",
    "TaskFailed",
    "TaskHeld",
    "__version__",
    "current",
    "open_engine",
    "with_retry",
]

_PLACES: Final = {
    "Cancel": "core.signals",
    "Claim": "engine.store",
    "Delays": "core.retry",
    "Edge": "core.graph",
    "Engine": "engine.engine",
    "Exponential": "core.retry",
    "Fail": "core.outcome",
    "Fixed": "core.retry",
    "Ganger": "assembly.client",
    "GangerError": "core.errors",
    "Handle": "client.handle",
    "Hold": "core.outcome",
    "NewTask": "core.task",
    "Policy": "core.queue",
    "Query": "engine.store",
    "Registration": "core.node",
    "Release": "core.outcome",
    "Retry": "core.retry",
    "Snooze": "core.signals",
    "Status": "core.state",
    "Succeed": "core.outcome",
    "TaskFailed": "client.handle",
    "TaskHeld": "core.errors",
    "current": "node.functions.context",
    "open_engine": "assembly.embedded",
    "with_retry": "core.queue",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ganger' has no attribute {name!r}")
    return getattr(import_module(f"ganger.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
