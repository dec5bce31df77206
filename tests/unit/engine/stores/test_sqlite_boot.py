"""A new owner: what it reads, and what another boot means for leases."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import NodeGone
from ganger.core.ids import Fence
from ganger.core.state import Status
from ganger.databases.sqlite import load_migrations
from ganger.engine.store import Configure, NodeChange, Note, Progress
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.stores.sqlite.joining import configure
from ganger.engine.stores.sqlite.noting import write
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stores.owner import STORE, Owner, payload


def heir_of(owner: Owner) -> Owner:
    return Owner(owner.connection, owner.clock)


def test_leases_outlive_their_owner() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue))
    (one,) = owner.claim(node, queue)

    assert heir_of(owner).settle("succeed", one).refused == []


def test_leases_of_another_boot_are_void() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node("n")
    owner.submit(*[payload(queue)] * 2)
    settled, noted = owner.claim(node, queue, most=2)
    owner.clock.reboot()
    heir = heir_of(owner)

    assert heir.settle("succeed", settled).refused == [(0, "stale")]
    assert heir.run(write, (Note(noted.id, noted.fence, progress=Progress(1.0, None)),)) == [(0, "stale")]
    with pytest.raises(NodeGone):
        heir.claim(node, queue)
    with pytest.raises(NodeGone):
        heir.run(configure, Configure(node=NodeChange(id=node, token="n", beat=True)))


def test_tasks_of_another_boot_lapse_at_once_and_run_again() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue), payload(queue, renewal="touch", ttr=10**9))
    claimed = owner.claim(node, queue, most=2)
    owner.clock.reboot()
    heir = heir_of(owner)
    lapsed = heir.tend(lapse=True).lapsed
    for one in lapsed:
        heir.move("lose", one.task, one.fence)

    assert sorted(one.task for one in lapsed) == sorted(one.id for one in claimed)
    again = heir.claim(heir.node(), queue, most=2)
    assert sorted(one.id for one in again) == sorted(one.id for one in claimed)
    assert {one.fence for one in again} == {Fence(3)}


def test_the_same_boot_voids_nothing_twice() -> None:
    owner = Owner()
    queue = owner.queue()
    owner.clock.reboot()
    heir = heir_of(owner)
    node = heir.node()
    heir.submit(payload(queue))
    (one,) = heir.claim(node, queue)

    assert heir_of(heir).settle("succeed", one).refused == []


def test_a_store_keeps_the_tag_that_it_was_made_with() -> None:
    owner = Owner()

    assert 0 < owner.shelf.tag < 1 << 63
    assert heir_of(owner).shelf.tag == owner.shelf.tag


def open_store(path: Path, clock: FakeClock) -> SqliteStore:
    return asyncio.run(_opened(path, clock))


async def _opened(path: Path, clock: FakeClock) -> SqliteStore:
    store = await SqliteStore.open(path, clock, SeededEntropy())
    await store.close()
    return store


def test_the_schema_of_a_file_is_what_the_migrations_make(tmp_path: Path) -> None:
    open_store(tmp_path / "tasks.db", FakeClock())
    tables = "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name NOT IN ({}) AND name NOT LIKE 'sqlite_%'"
    file = apsw.Connection(str(tmp_path / "tasks.db"))
    made = apsw.Connection(":memory:")
    for migration in load_migrations(STORE, "migrations"):
        made.execute(migration.sql)
    own = "'migration', 'unit', 'ownership'"

    assert sorted(file.execute(tables.format(own))) == sorted(made.execute(tables.format(own)))
    assert file.pragma("user_version") == len(load_migrations(STORE, "migrations"))
    file.close()


def test_statuses_in_the_indexes_are_those_of_the_table() -> None:
    """The schema names statuses as numbers: the ones that this version means."""
    assert (Status.QUEUED, Status.DELAYED) == (-2, -8)
    assert {-2, -1, 0, 1} == {Status.QUEUED, Status.CLAIMED, Status.RUNNING, Status.SUCCEEDED}
