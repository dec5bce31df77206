"""SQLite stores that live through the same: what differs is how exchanges of one moment are run."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ganger.core.errors import Conflict, GangerError
from ganger.core.ids import NodeId, Position, QueueId, TaskId
from ganger.core.state import move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import Claim, Exchange, Exchanged
from ganger.engine.stores.sqlite import reading
from ganger.engine.stores.sqlite.dealing import TOGETHER, TooManyDue, exchange_all, exchange_each
from ganger.engine.stores.sqlite.exchanging import exchange
from tests.unit.engine.stores.owner import Owner, numbers

Said = Exchanged | str
TABLES = ("task", "attempt", "data", "edge", "follow", "node", "lane", "book")


def one_after_another(owner: Owner, requests: Sequence[Exchange]) -> list[Said]:
    return [_try(owner, request) for request in requests]


def _try(owner: Owner, request: Exchange) -> Said:
    try:
        return owner.run(exchange, request)
    except GangerError as error:
        return error.code


def as_one(owner: Owner, requests: Sequence[Exchange]) -> list[Said]:
    """As the owner of a file does it: those that fit as one, and each alone if that fails."""
    assert all(map(TOGETHER.fits, requests))
    try:
        return list(owner.run(exchange_all, tuple(requests)))
    except (GangerError, TooManyDue):
        return one_after_another(owner, requests)


def by_proceeding(owner: Owner, requests: Sequence[Exchange]) -> list[Said]:
    """As the store does it for those that come as one."""
    try:
        return list(owner.run(exchange_each, list(requests)))
    except Conflict:
        return one_after_another(owner, requests)


def stored(owner: Owner) -> dict[str, Any]:
    """Everything but the rows of the events: these hold the same, but cut otherwise."""
    tables: dict[str, Any] = {table: sorted(map(repr, owner.read(f"SELECT * FROM {table}"))) for table in TABLES}
    tables["book"] = [row for row in tables["book"] if "next_event" not in row]
    events = reading.events(owner.connection, Position(0), 100_000)
    entries = [(event.at, event.fact, event.queue, event.holder, entry) for event in events for entry in event.entries]
    told = {task: [one for one in entries if one[-1].task == task] for task in {one[-1].task for one in entries}}
    return tables | {"told": told, "lined": owner.shelf.tally}


class Siblings(NamedTuple):
    """Three stores that live through the same, but for the exchanges of one moment."""

    single: Owner
    joined: Owner
    proceeded: Owner

    @classmethod
    def born(cls) -> "Siblings":
        return cls(Owner(), Owner(), Owner())

    def all(self, tell: Callable[..., Any], *about: Any) -> Any:
        first, second, third = (tell(owner, *about) for owner in self)
        assert first == second == third
        return first

    def exchange(self, *requests: Exchange) -> list[Said]:
        said = one_after_another(self.single, requests)
        assert as_one(self.joined, requests) == said
        assert by_proceeding(self.proceeded, requests) == said
        assert stored(self.single) == stored(self.joined) == stored(self.proceeded)
        return said

    def take(self, queue: QueueId, *nodes: NodeId) -> list[Claimed]:
        """Each of them gets one task."""
        return [self.all(Owner.claim, node, queue)[0] for node in nodes]


def settle(held: Claimed, *queues: QueueId, rule: str = "succeed", most: int = 1) -> Exchange:
    """End this one, and take of these queues."""
    ended = move(held.id, rule, held.fence)._replace(result=b"done")
    return Exchange((ended,), Claim(held.holder, queues, most) if queues else None)


def workers(siblings: Siblings, n: int, **said: Any) -> list[NodeId]:
    return [siblings.all(lambda owner, name: owner.node(name, **said), f"n{number}") for number in range(n)]


def submit(siblings: Siblings, *tasks: NewTask) -> list[TaskId]:
    ids: list[TaskId] = siblings.all(lambda owner: owner.submit(*tasks))
    return ids


def claimed_by(said: Sequence[Said]) -> list[list[int]]:
    assert not [one for one in said if isinstance(one, str)]
    return [numbers(one.claimed) for one in said if isinstance(one, Exchanged)]
