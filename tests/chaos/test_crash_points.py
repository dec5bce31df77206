"""SIGKILL at every named point, on every write path: nothing that was acknowledged is lost, nothing is done twice.

Each scenario puts one process that will die at the point in the role in which it comes by it: alone on the file, owner
of a file that others work on, heir of a dead owner, giver or taker of the seat, client. Whoever survives goes on; the
unit that it had sent and heard nothing of must be answered, as done once.
"""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from ganger.databases.sqlite import PROBES, Limits, Rank
from ganger.engine.store import Query
from ganger.testing import Fault
from tests.chaos import books
from tests.chaos.paths import WRITE_PATHS, Seeded, seed
from tests.chaos.worker import Orders, work
from tests.system.harness import Crew, Member, crew
from tests.system.harness_store import open_store

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

SERVING: Final = (
    "scribe.begun",
    "scribe.unit_run",
    "scribe.before_commit",
    "scribe.committed_before_reply",
    "scribe.replied",
    "scribe.woken",
    "checkpoint.before",
    "checkpoint.after",
    "reserve.released",
    "file.reopened",
)
OPENING: Final = (
    "owner.locked",
    "owner.listening",
    "owner.migrated",
    "owner.prepared",
    "owner.serving",
    "reserve.held",
)
GIVING: Final = ("handover.finished", "handover.released")
TAKING: Final = ("handover.received",)
SENDING: Final = ("link.sent",)
POSTING: Final = ("bag.put",)
SENDING_AGAIN: Final = ("link.resent",)
FAULTS: Final = {
    "reserve.released": Fault("xWrite", error=apsw.SQLITE_FULL, at=3, suffix="-wal"),
    "file.reopened": Fault("xSync", at=3, suffix="-wal"),
}
NTH: Final = 4
KILLED: Final = -9
WIDTH: Final = 3
"""So many units are under way at once: they share groups."""

on_each_path = pytest.mark.parametrize("path", WRITE_PATHS)


class Scene:
    """A seeded file, the processes on it, and what they are ordered to do."""

    def __init__(self, database: Path, seeded: Seeded, path: str, hired: Crew) -> None:
        self.orders = Orders(database, seeded, "nobody", path)
        self.crew = hired

    def enter(self, who: str, **orders: Any) -> Member:
        """A process that has opened the file."""
        member = self.doom(who, **orders)
        assert member.hear() == ("open",)
        return member

    def doom(self, who: str, **orders: Any) -> Member:
        """A process that may not live long enough to open it."""
        return self.crew.start(work, replace(self.orders, who=who, **orders))

    def prepare(self, *members: Member) -> None:
        for member in members:
            assert member.ask("prepare") == ("prepared",)

    def finish(self, survivor: Member) -> None:
        """Everything was answered, and what the survivor believes to hold is what it holds."""
        done, _, held = survivor.ask("stop")
        assert done > 0
        assert held == asyncio.run(self._held(list(held)))
        assert survivor.ask("close") == ("closed",)

    async def _held(self, nodes: list[Any]) -> dict[int, list[int]]:
        store = await open_store(self.orders.database)
        found = {node: (await store.find(Query(holder=node, most=1_000))).tasks for node in nodes}
        await store.close()
        return {node: sorted(task.id for task in tasks) for node, tasks in found.items()}

    def audit(self, *, unknown: int) -> None:
        """Balance the books, run everything to its end, and look at it all."""
        asyncio.run(self._audit(unknown))

    async def _audit(self, unknown: int) -> None:
        orders = self.orders
        store = await open_store(orders.database)
        kept = await books.balance(store, orders.database.parent, orders.seeded, orders.path)
        assert kept.balanced, str(kept)
        assert len(kept.sent - kept.acknowledged) <= unknown, "a survivor was left without an answer"
        await books.check_counts(store)
        await books.end_everything(store)
        await store.close()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seeded]:
    database = tmp_path_factory.mktemp("seeded") / "ganger.db"
    return database, asyncio.run(seed(database))


@pytest.fixture
def scene(ground: tuple[Path, Seeded], tmp_path: Path, path: str) -> Iterator[Scene]:
    database, seeded = ground
    shutil.copy(database, tmp_path / "ganger.db")
    with crew() as hired:
        yield Scene(tmp_path / "ganger.db", seeded, path, hired)


def _doom(point: str) -> dict[str, Any]:
    """How a process comes by a point while it serves."""
    limits = Limits(checkpoint_pages=8) if point.startswith("checkpoint") else None
    return {"die_at": point, "times": 1 if point in FAULTS else NTH, "limits": limits, "fault": FAULTS.get(point)}


@on_each_path
@pytest.mark.parametrize("point", SERVING)
def test_a_process_alone_on_its_file_dies_at_this_point(scene: Scene, path: str, point: str) -> None:
    doomed = scene.enter("doomed", width=WIDTH, **_doom(point))
    scene.prepare(doomed)
    doomed.ask("arm")
    doomed.tell("begin")
    assert doomed.outlive() == KILLED
    scene.audit(unknown=WIDTH if point != "file.reopened" else 2 * WIDTH)


@on_each_path
@pytest.mark.parametrize("point", SERVING)
def test_the_owner_dies_at_this_point_under_the_work_of_another(scene: Scene, path: str, point: str) -> None:
    doomed = scene.enter("doomed", **_doom(point))
    survivor = scene.enter("survivor", width=WIDTH)
    scene.prepare(survivor)
    doomed.ask("arm")
    survivor.ask("begin")
    assert doomed.outlive() == KILLED
    scene.finish(survivor)
    scene.audit(unknown=0 if point != "file.reopened" else WIDTH)


@on_each_path
@pytest.mark.parametrize("point", OPENING)
@pytest.mark.parametrize("halt", ["scribe.unit_run", "scribe.committed_before_reply"])
def test_the_heir_dies_at_this_point_while_another_waits_for_an_answer(
    scene: Scene, path: str, point: str, halt: str
) -> None:
    owner = scene.enter("owner", halt_at=halt, times=NTH)
    survivor = scene.enter("survivor", width=WIDTH)
    scene.prepare(survivor)
    heir = scene.enter("heir", die_at=point, armed=True)
    owner.ask("arm")
    survivor.tell("begin")
    assert owner.hear() == ("halted",)
    survivor.pause()
    (scene.orders.database.parent / "ganger.db-reserve").unlink()
    owner.kill()
    assert heir.outlive() == KILLED
    survivor.resume()
    assert survivor.hear() == ("begun",)
    scene.finish(survivor)
    scene.audit(unknown=0)


@on_each_path
@pytest.mark.parametrize("point", [*GIVING, *TAKING])
def test_the_seat_is_handed_over_and_one_side_dies_at_this_point(scene: Scene, path: str, point: str) -> None:
    trap = {"die_at": point, "armed": True}
    giver = scene.enter("giver", **(trap if point in GIVING else {}))
    survivor = scene.enter("survivor", width=WIDTH)
    scene.prepare(survivor)
    survivor.ask("begin")
    taker = scene.doom("taker", rank=Rank.NODE, **(trap if point in TAKING else {}))
    doomed = giver if point in GIVING else taker
    assert doomed.outlive() == KILLED
    scene.finish(survivor)
    scene.audit(unknown=0)


@on_each_path
@pytest.mark.parametrize("point", GIVING)
def test_the_owner_leaves_in_order_and_dies_at_this_point(scene: Scene, path: str, point: str) -> None:
    giver = scene.enter("giver", die_at=point, armed=True)
    survivor = scene.enter("survivor", width=WIDTH)
    scene.prepare(survivor)
    survivor.ask("begin")
    giver.tell("close")
    assert giver.outlive() == KILLED
    scene.finish(survivor)
    scene.audit(unknown=0)


@on_each_path
@pytest.mark.parametrize("point", SENDING)
def test_a_client_dies_when_it_has_sent_its_units(scene: Scene, path: str, point: str) -> None:
    owner = scene.enter("owner")
    doomed = scene.enter("doomed", width=8, die_at=point, times=NTH)
    scene.prepare(doomed)
    doomed.ask("arm")
    doomed.tell("begin")
    assert doomed.outlive() == KILLED
    assert owner.ask("close") == ("closed",)
    scene.audit(unknown=8)


@pytest.mark.parametrize("path", ["post"])
@pytest.mark.parametrize("point", POSTING)
@pytest.mark.parametrize("owner_dies", [False, True])
def test_a_client_dies_when_its_letter_is_safe_and_not_sent(
    scene: Scene, path: str, point: str, owner_dies: bool
) -> None:
    owner = scene.enter("owner", halt_at="scribe.before_commit" if owner_dies else None, times=2)
    doomed = scene.enter("doomed", width=WIDTH, die_at=point, times=4 * NTH)
    scene.prepare(doomed)
    owner.ask("arm")
    doomed.ask("arm")
    doomed.tell("begin")
    assert doomed.outlive() == KILLED
    if owner_dies:
        owner.kill()
    else:
        assert owner.ask("close") == ("closed",)
    scene.audit(unknown=WIDTH)


@on_each_path
@pytest.mark.parametrize("halt", SERVING[:4])
def test_a_client_sends_its_units_again_to_the_heir_of_an_owner_killed_here(scene: Scene, path: str, halt: str) -> None:
    owner = scene.enter("owner", halt_at=halt, times=NTH)
    survivor = scene.enter("survivor", width=8)
    heir = inherit(scene, owner, survivor)
    assert survivor.hear() == ("begun",)
    scene.finish(survivor)
    assert heir.ask("close") == ("closed",)
    scene.audit(unknown=0)


@on_each_path
@pytest.mark.parametrize("point", SENDING_AGAIN)
def test_a_client_dies_when_it_has_sent_its_units_again(scene: Scene, path: str, point: str) -> None:
    owner = scene.enter("owner", halt_at="scribe.committed_before_reply", times=NTH)
    doomed = scene.enter("doomed", width=8, die_at=point, times=2, armed=True)
    heir = inherit(scene, owner, doomed)
    assert doomed.outlive() == KILLED
    assert heir.ask("close") == ("closed",)
    scene.audit(unknown=8)


def inherit(scene: Scene, owner: Member, client: Member) -> Member:
    """Let the owner halt over the client's units, kill it, and have a third process take over before the client can."""
    scene.prepare(client)
    heir = scene.enter("heir")
    owner.ask("arm")
    client.tell("begin")
    assert owner.hear() == ("halted",)
    client.pause()
    owner.kill()
    while not heir.ask("owns")[0]:
        assert heir.process.is_alive()
    client.resume()
    return heir


@pytest.mark.parametrize("path", ["submit"])
@pytest.mark.parametrize("point", OPENING)
def test_the_maker_of_a_new_file_dies_at_this_point(scene: Scene, path: str, point: str, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    database = tmp_path / "new" / "ganger.db"
    doomed = scene.doom("doomed", database=database, die_at=point, armed=True)
    assert doomed.outlive() == KILLED
    asyncio.run(seed(database))


def test_no_point_is_left_out() -> None:
    assert {*SERVING, *OPENING, *GIVING, *TAKING, *SENDING, *POSTING, *SENDING_AGAIN} == set(PROBES)
