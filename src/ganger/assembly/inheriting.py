"""What is done about other nodes of this machine that died: their functions go back, their orphans are ended."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ganger.assembly.folder import list_neighbours, locate_nodes
from ganger.assembly.location import locate
from ganger.assembly.settings import Settings
from ganger.assembly.source import EngineSource
from ganger.core.clock import Clock, Entropy
from ganger.engine.engine import Engine
from ganger.node.inheriting import Inheriting
from ganger.node.source import WorkSource
from ganger.node.sweeping import Sweeping
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry


def inherit(settings: Settings, engine: Engine, clock: Clock, telemetry: Telemetry = SILENT) -> Sequence[Service]:
    """One service, where the store is a file, so that its nodes are near, and the system can tell of their deaths."""
    found = locate(settings)
    if sys.platform != "linux" or found is None:
        return ()
    source, folder = EngineSource(engine, clock), locate_nodes(found.database)
    return (Inheriting(source, partial(list_neighbours, folder), engine.nodes.all, telemetry),)


def sweep(
    folder: Path | None, source: WorkSource, entropy: Entropy, telemetry: Telemetry = SILENT
) -> Sequence[Service]:
    """One service, where nodes have their folders beside each other, and the system can tell of their deaths."""
    if sys.platform != "linux" or folder is None:
        return ()
    return (Sweeping(partial(list_neighbours, folder), source.hear_nodes, entropy, telemetry),)
