"""What the thread that serves a file works with in this process, whichever role it plays."""

from dataclasses import dataclass

from ganger.core.clock import Clock, Entropy
from ganger.databases.sqlite.charter import Charter
from ganger.databases.sqlite.inbox import Inbox
from ganger.databases.sqlite.limits import Limits
from ganger.databases.sqlite.listeners import Listeners
from ganger.databases.sqlite.operation import Catalogue
from ganger.databases.sqlite.place import Host, Place
from ganger.databases.sqlite.probes import Probe
from ganger.databases.sqlite.standing import Standing
from ganger.databases.sqlite.unit import ClientId
from ganger.databases.sqlite.wire import Hello, Rank
from ganger.runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Desk:
    place: Place
    charter: Charter
    rank: Rank
    client: ClientId
    pid: int
    catalogue: Catalogue
    inbox: Inbox
    listeners: Listeners
    standing: Standing
    clock: Clock
    entropy: Entropy
    host: Host
    limits: Limits
    probe: Probe
    telemetry: Telemetry

    def hello(self) -> Hello:
        return Hello(
            self.charter.protocol, self.charter.minimum, self.client, self.rank, self.charter.application, self.pid
        )
