"""The store as the processes of a test use it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ganger.core.ids import QueueId
from ganger.core.node import Node, Registration
from ganger.core.queue import Policy
from ganger.core.state import Move, move
from ganger.core.task import Claimed
from ganger.databases.sqlite import Limits, Probe, Rank, SharedFile, load_migrations, no_probe
from ganger.engine.store import Configure, NodeChange, QueueChange
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.stores.sqlite.queries import APPLICATION
from ganger.engine.stores.sqlite.store import OPERATIONS, prepare
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

LONG_LEASE: Final = 600_000


async def open_store(
    path: Path,
    *,
    probe: Probe = no_probe,
    rank: Rank = Rank.CLIENT,
    vfs: str | None = None,
    limits: Limits | None = None,
) -> SqliteStore:
    """The store as every process opens it; with limits of its own only where a test has to come near them."""
    clock, entropy = SystemClock(), SystemEntropy()
    if limits is None:
        return await SqliteStore.open(path, clock, entropy, probe=probe, rank=rank, vfs=vfs)
    file = await SharedFile.open(
        path,
        operations=OPERATIONS,
        migrations=load_migrations("ganger.engine.stores.sqlite", "migrations"),
        clock=clock,
        entropy=entropy,
        rank=rank,
        prepare=lambda session: prepare(session, clock, entropy),
        probe=probe,
        vfs=vfs,
        application=APPLICATION,
        limits=limits,
    )
    return SqliteStore(file)


async def make_queue(store: SqliteStore, name: str, policy: Policy | None = None) -> QueueId:
    made = (await store.configure(Configure(queue=QueueChange(name=name, policy=policy)))).queue
    assert made is not None
    return made.id


async def found(database: Path, policy: Policy | None = None) -> QueueId:
    """A new file with one queue."""
    store = await open_store(database)
    queue = await make_queue(store, "work", policy)
    await store.close()
    return queue


async def register(store: SqliteStore, name: str, lease: int = LONG_LEASE) -> Node:
    """A node whose name is its token."""
    registration = Registration(name, name, lease=lease)
    node = (await store.configure(Configure(node=NodeChange(register=registration)))).node
    assert node is not None
    return node


def succeed(claimed: Sequence[Claimed]) -> tuple[Move, ...]:
    return tuple(move(one.id, "succeed", one.fence) for one in claimed)
