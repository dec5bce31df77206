"""Whoever keeps a file up also gives back what died with other nodes of its machine."""

import sys
from collections.abc import Sequence
from functools import partial

from ganger.assembly.folder import list_neighbours, locate_nodes
from ganger.assembly.location import locate
from ganger.assembly.settings import Settings
from ganger.assembly.source import EngineSource
from ganger.core.clock import Clock
from ganger.engine.engine import Engine
from ganger.node.inheriting import Inheriting
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry


def inherit(settings: Settings, engine: Engine, clock: Clock, telemetry: Telemetry = SILENT) -> Sequence[Service]:
    """One service, where the store is a file, so that its nodes are near, and the system can tell of their deaths."""
    found = locate(settings)
    if sys.platform != "linux" or found is None:
        return ()
    source, folder = EngineSource(engine, clock), locate_nodes(found.database)
    return (Inheriting(source, partial(list_neighbours, folder), engine.nodes.all, telemetry),)
