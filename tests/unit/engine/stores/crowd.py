"""A SQLite store with a crowd in every place where a crowd could stand in the way, built by plain inserts."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ganger.core.ids import NodeId, QueueId
from ganger.core.state import Status
from ganger.core.task import Claimed
from ganger.testing.clock import FakeClock
from tests.unit.engine.stores.owner import Owner, connect, payload

DUE_NOW = 20
BEHIND = 20
"""How many tasks that can be taken stand behind those that cannot."""

_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :size) "
_COLUMNS = "INSERT INTO task (id, queue, lane, status, priority, rank, spec, created, modified, {more}) "


@dataclass
class Crowd:
    """The owner and the names of what is in the file; `size` tasks wait behind a full key and avoid a node each."""

    owner: Owner
    size: int
    taker: NodeId
    rival: NodeId
    holder: NodeId
    gone: NodeId
    plain: QueueId
    lifo: QueueId
    keyed: QueueId
    shunned: QueueId
    late: QueueId
    done: QueueId
    filling: Claimed
    """The task that fills the one place of its key."""
    group: int = 0
    parent: int = 0

    @property
    def queues(self) -> tuple[QueueId, ...]:
        return (self.plain, self.lifo, self.keyed, self.shunned)


def gather(path: Path, size: int) -> Crowd:
    """Build the file; a new owner then reads it, as after a restart."""
    clock = FakeClock()
    connection = connect(str(path))
    connection.pragma("locking_mode", "exclusive")
    connection.pragma("cache_size", -200_000)
    owner = Owner(connection, clock)
    crowd = _name(owner, size)
    connection.pragma("journal_mode", "off")
    connection.execute("BEGIN")
    _stand(crowd, crowd.plain, size // 4)
    _stand(crowd, crowd.lifo, size // 10, sign=-1)
    _stand(crowd, crowd.keyed, size, more="parked, limit_key", values="1, 'k'", priority=1)
    _stand(crowd, crowd.shunned, size, lane=-1, priority=1)
    _stand(crowd, crowd.late, size // 10, status=Status.DELAYED, more="due", values=_due(clock))
    _lease(crowd)
    _end(crowd)
    connection.execute("COMMIT")
    connection.pragma("journal_mode", "memory")
    crowd.owner = Owner(connection, clock)
    _let_go(crowd)
    return crowd


def _name(owner: Owner, size: int) -> Crowd:
    taker, keyed = owner.node("taker"), owner.queue("keyed", max_per_key=1)
    owner.submit(payload(keyed, limit_key="k"))
    crowd = Crowd(
        owner,
        size,
        taker=taker,
        rival=owner.node("rival"),
        holder=owner.node("holder"),
        gone=owner.node("gone"),
        plain=owner.queue("plain"),
        lifo=owner.queue("lifo", sort="lifo"),
        keyed=keyed,
        shunned=owner.queue("shunned"),
        late=owner.queue("late"),
        done=owner.queue("done"),
        filling=owner.claim(taker, keyed)[0],
    )
    lane = "INSERT INTO lane (id, kind, requires, avoid, avoid_until) VALUES (-1, 'payload', '[]', ?, ?)"
    owner.connection.execute(lane, (owner.shelf.nodes[taker].identity, owner.clock.wall() + 30_000))
    return crowd


def _due(clock: FakeClock) -> str:
    return f"{clock.wall()} + (i - {DUE_NOW}) * 1000"


def _stand(
    crowd: Crowd,
    queue: QueueId,
    size: int,
    *,
    status: int = Status.QUEUED,
    lane: int = 1,
    priority: int = 1024,
    sign: int = 1,
    more: str = "fence",
    values: str = "0",
) -> int:
    """Put so many tasks into a queue; the id before the first of them."""
    run = crowd.owner.connection.execute
    ((start,),) = run("SELECT coalesce(max(id), 0) FROM task")
    fixed = f"{queue}, {lane}, {int(status)}, {priority}, {sign} * ({start} + i), x'00', 0, 0"
    run(
        _COLUMNS.format(more=more) + _NUMBERS + f"SELECT {start} + i, {fixed}, {values.format(start=start)} FROM n",
        {"size": size},
    )
    run("INSERT INTO book VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", (queue, status, size))
    run("INSERT INTO book VALUES (-1, 'next_task', ?) ON CONFLICT DO UPDATE SET n = excluded.n", (start + size + 1,))
    return int(start)


def _lease(crowd: Crowd) -> None:
    """Leases without end, leases that a touch would renew, and leases of a node that will be gone."""
    now, columns = crowd.owner.clock.now(), "fence, holder, claimed, until, touch, kill"
    for holder, until in ((crowd.holder, "NULL"), (crowd.rival, f"{now} - 50 + i"), (crowd.gone, "NULL")):
        values = f"1, {holder}, 0, {until}, {int(until != 'NULL')}, {int(holder == crowd.holder)} AND i <= 5"
        _stand(crowd, crowd.done, crowd.size // 10, status=Status.RUNNING, more=columns, values=values)
    crowd.owner.connection.execute("UPDATE node SET state = 'lost' WHERE id = ?", (crowd.gone,))


def _end(crowd: Crowd) -> None:
    """A group that ended long ago with its members and its event, a batch, failures, and the children of one parent."""
    small, run = crowd.size // 10, crowd.owner.connection.execute
    ended = {"status": Status.SUCCEEDED, "more": "ended, grp, batch, key"}
    start = _stand(crowd, crowd.done, small, **ended, values="i, {start} + :size + 1, 1, 'key-' || i")  # type: ignore[arg-type]
    crowd.group = start + small + 1
    _stand(crowd, crowd.done, 1, status=Status.SUCCEEDED, lane=2, more="ended", values="1")
    run("INSERT INTO lane (id, kind, requires, avoid, avoid_until) VALUES (2, 'group', '[]', 0, 0)")
    crowd.parent = _stand(crowd, crowd.done, small, status=Status.FAILED, more="ended", values="99") + 1
    run(
        f"INSERT INTO edge {_NUMBERS} SELECT :parent, :parent + i, 'success' FROM n",
        {"size": small - 1, "parent": crowd.parent},
    )
    entries = msgspec.msgpack.encode([(crowd.group, 1, 0, None)])
    run("UPDATE event SET at = 5, entries = ? WHERE position = 1", (entries,))


def _let_go(crowd: Crowd) -> None:
    """Some tasks that anybody may take, behind the crowds."""
    crowd.owner.submit(*(payload(queue) for queue in (crowd.keyed, crowd.shunned) for _ in range(BEHIND)))
