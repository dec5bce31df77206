"""What every part of a node is handed."""

from typing import NamedTuple

from ganger.core.clock import Entropy
from ganger.node.options import NodeOptions
from ganger.node.session import Session
from ganger.node.source import WorkSource
from ganger.runtime.telemetry import Telemetry


class Means(NamedTuple):
    source: WorkSource
    options: NodeOptions
    session: Session
    entropy: Entropy
    telemetry: Telemetry
