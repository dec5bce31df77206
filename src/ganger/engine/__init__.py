"""What the system does: submit, claim, settle, renew, inspect, explain, and the upkeep behind them.

The names below are for those who write workers or doors of their own, with an engine from `ganger.open_engine`. Their
times are milliseconds, but for how long to wait. Each is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ganger.core.graph import Edge as Edge
    from ganger.core.node import Registration as Registration
    from ganger.core.outcome import Fail as Fail
    from ganger.core.outcome import Hold as Hold
    from ganger.core.outcome import Release as Release
    from ganger.core.outcome import Succeed as Succeed
    from ganger.core.queue import Policy as Policy
    from ganger.core.queue import with_retry as with_retry
    from ganger.core.task import NewTask as NewTask
    from ganger.engine.engine import Engine as Engine
    from ganger.engine.store import Claim as Claim
    from ganger.engine.store import Query as Query

_PLACES: Final = {
    "Claim": "engine.store",
    "Edge": "core.graph",
    "Engine": "engine.engine",
    "Fail": "core.outcome",
    "Hold": "core.outcome",
    "NewTask": "core.task",
    "Policy": "core.queue",
    "Query": "engine.store",
    "Registration": "core.node",
    "Release": "core.outcome",
    "Succeed": "core.outcome",
    "with_retry": "core.queue",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ganger.engine' has no attribute {name!r}")
    return getattr(import_module(f"ganger.{_PLACES[name]}"), name)
