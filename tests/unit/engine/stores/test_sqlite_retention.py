"""Retention: what is old goes in bounded steps, members before their group, and nothing is left behind."""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest

from ganger.core.clock import Wall
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId
from ganger.core.state import Status
from ganger.core.task import NewTask
from ganger.engine.store import STEP_EDGES, Chunk, Edit, Edits, Note, Tended
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.noting import write
from tests.unit.engine.stores.owner import Owner, payload

WEEK = 7 * 86_400_000


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def queue(owner: Owner) -> QueueId:
    return owner.queue()


@pytest.fixture
def node(owner: Owner) -> NodeId:
    return owner.node(lease=10 * WEEK)


def prune(owner: Owner, most: int = 1_000) -> Iterator[Tended]:
    """Step by step, as an upkeep does it, until nothing more is to do."""
    more = True
    while more:
        step = owner.tend(prune_before=Wall(owner.clock.wall()), most=most)
        yield step
        more = step.more


def clean(owner: Owner, most: int = 1_000) -> None:
    owner.clock.advance(1_000)
    assert len(list(prune(owner, most))) < 1_000


def left(owner: Owner) -> list[int]:
    return [row[0] for row in owner.read("SELECT id FROM task ORDER BY id")]


def finish(owner: Owner, node: NodeId, queue: QueueId, most: int = 100) -> None:
    owner.settle("succeed", *owner.claim(node, queue, most=most))


def test_what_ended_goes_with_all_that_is_its_own(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(payload(queue, b"x" * 5_000, key="k"), payload(queue, parents=(Edge(-1),)))
    (one,) = owner.claim(node, queue)
    owner.run(write, (Note(one.id, one.fence, chunk=Chunk("out", 0, b"hello")),))
    owner.settle("succeed", one)
    finish(owner, node, queue)
    clean(owner)

    for table in ("task", "edge", "data", "output", "attempt", "event", "follow"):
        assert owner.read(f"SELECT * FROM {table}") == []
    assert owner.read("SELECT n FROM counter WHERE fact = 'output_bytes'") == [(0,)]
    assert set(owner.shelf.tally.values()) == {0}


def test_what_is_young_or_not_final_stays(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(*[payload(queue)] * 3)
    owner.settle("succeed", *owner.claim(node, queue))
    owner.claim(node, queue)
    before = owner.clock.wall() + 1
    owner.clock.advance(10)
    owner.settle("bury", *owner.claim(node, queue))
    owner.submit(payload(queue))
    owner.move("cancel", 4)
    while owner.tend(prune_before=Wall(before)).more:
        pass

    assert left(owner) == [2, 3, 4]


def test_one_step_does_no_more_than_it_is_asked(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(*[payload(queue)] * 100)
    finish(owner, node, queue)
    owner.clock.advance(1)
    sizes = [len(left(owner)) for _ in prune(owner, most=30)]

    assert sizes == [70, 40, 10, 0, 0]


def test_members_are_spared_until_their_group_has_ended(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(NewTask(queue, "group"), *[payload(queue, group=-1)] * 3)
    owner.settle("succeed", *owner.claim(node, queue, most=2))
    clean(owner)
    assert left(owner) == [1, 2, 3, 4]
    finish(owner, node, queue)
    clean(owner)

    assert left(owner) == []


@pytest.mark.slow
def test_a_group_of_many_members_goes_in_bounded_steps(owner: Owner, queue: QueueId) -> None:
    """More than a hundred thousand members whose own events are long gone: only their group leads to them."""
    members, most = 100_500, 5_000
    owner.submit(NewTask(queue, "group"))
    owner.connection.execute(
        "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= ?) "
        "INSERT INTO task (id, queue, lane, status, priority, rank, created, modified, ended, grp) "
        "SELECT i, ?, 1, 1, 0, i, 0, 0, 5, 1 FROM n",
        (members, queue),
    )
    owner.shelf.tally[queue, Status.SUCCEEDED] = members + 1
    owner.clock.advance(1)
    sizes = [members]
    for step in prune(owner, most):
        ((size, groups),) = owner.read(
            "SELECT count(*) FILTER (WHERE id > 1), count(*) FILTER (WHERE id = 1) FROM task"
        )
        events = owner.read("SELECT count(*) FROM event WHERE fact = 'settled'")[0][0]
        assert sizes[-1] - size <= most
        assert step.more or size == groups == events == 0
        assert not size or (groups, events) == (1, 1)
        sizes.append(size)

    assert sizes[-1] == 0
    assert len(sizes) == pytest.approx(members / most, abs=4)
    assert owner.shelf.tally[queue, Status.SUCCEEDED] == 0


def test_groups_in_groups_go_from_the_inside(owner: Owner, queue: QueueId, node: NodeId) -> None:
    depth = 30
    groups = [NewTask(queue, "group", group=-index if index else 0) for index in range(depth)]
    owner.submit(*groups, payload(queue, group=-depth), payload(queue, group=-depth))
    finish(owner, node, queue)
    owner.clock.advance(1)
    for _ in prune(owner, most=1):
        numbers = left(owner)
        assert numbers == list(range(1, len(numbers) + 1)) or set(numbers) >= set(range(1, depth + 1))

    assert left(owner) == []


def test_a_member_that_still_runs_is_not_dropped_with_a_cancelled_group(
    owner: Owner, queue: QueueId, node: NodeId
) -> None:
    owner.submit(NewTask(queue, "group"), *[payload(queue, group=-1)] * 2)
    done, runs = owner.claim(node, queue, most=2)
    owner.settle("succeed", done)
    owner.move("cancel", 1)
    clean(owner)
    assert left(owner) == [runs.id]
    owner.settle("succeed", runs)
    clean(owner)

    assert left(owner) == []


def test_a_parent_waits_until_all_its_children_were_told(owner: Owner, queue: QueueId, node: NodeId) -> None:
    (parent,) = owner.submit(payload(queue))
    owner.submit(*[payload(queue, parents=(Edge(parent),))] * (STEP_EDGES + 1))
    finish(owner, node, queue, 1)
    owner.clock.advance(1)
    assert [step.more for step in prune(owner)][-1] is False
    assert left(owner)[0] == parent
    while owner.tend(release=True).more:
        pass
    clean(owner)

    assert parent not in left(owner)
    assert owner.shelf.tally[queue, Status.QUEUED] == STEP_EDGES + 1


def test_the_edges_of_a_parent_of_many_go_in_bounded_steps(owner: Owner, queue: QueueId, node: NodeId) -> None:
    (parent,) = owner.submit(payload(queue))
    owner.submit(*[payload(queue, parents=(Edge(parent),))] * 500)
    finish(owner, node, queue, 1)
    owner.clock.advance(1)
    sizes = [500, *(len(owner.read("SELECT * FROM edge")) for _ in prune(owner, most=60))]

    assert sizes[-1] == 0
    assert max(before - after for before, after in pairwise(sizes)) <= 60
    assert parent not in left(owner)
    assert owner.read("SELECT sum(kids) FROM task") == [(0,)]


def test_an_event_never_goes_before_an_older_one(owner: Owner, queue: QueueId, node: NodeId) -> None:
    """The wall clock went back an hour between two ends: the later one looks older, and waits for its turn."""
    owner.submit(payload(queue), payload(queue))
    owner.settle("succeed", *owner.claim(node, queue))
    owner.clock.jump_wall(-3_600_000)
    owner.settle("succeed", *owner.claim(node, queue))
    owner.clock.advance(1_000)
    list(prune(owner))
    assert left(owner)[0] == 1
    owner.clock.advance(3_600_000)
    clean(owner)

    assert left(owner) == []


def test_a_task_that_was_removed_by_hand_stops_nothing(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(*[payload(queue)] * 3)
    finish(owner, node, queue)
    owner.run(edit, Edits((Edit(owner.submit(payload(queue))[0], remove=True),)))
    clean(owner)

    assert left(owner) == []


def test_old_nodes_and_receipts_go_too(owner: Owner) -> None:
    node = owner.node("old")
    owner.connection.execute("INSERT INTO unit VALUES (x'01', 0, 1, x'', 0, 0)")
    owner.clock.advance(WEEK)
    owner.tend(lapse=True)
    owner.tend(lapse=True)
    owner.clock.advance(1)
    clean(owner)

    assert owner.read("SELECT * FROM unit") == []
    assert node not in [row[0] for row in owner.read("SELECT id FROM node")]


def test_an_event_of_a_newer_kind_of_entry_is_read(owner: Owner, queue: QueueId) -> None:
    """Entries may be of tasks that are long gone."""
    owner.connection.execute(
        "UPDATE event SET entries = ? WHERE position = 1", (msgspec.msgpack.encode([(10**9, 1, 0, None)]),)
    )
    clean(owner)

    assert owner.read("SELECT * FROM event") == []
