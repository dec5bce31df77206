"""Queues that go, and the books that go with them."""

import pytest

from ganger.core.audit import Act
from ganger.core.errors import QueueInUse
from ganger.core.graph import Edge
from ganger.core.ids import QueueId
from ganger.core.queue import Policy
from ganger.core.state import Status
from ganger.engine.store import STEP_EDGES, Configure, Configured, Edit, Edits, QueueChange
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.joining import configure
from tests.unit.engine.stores.owner import Owner, numbers, payload


def delete(owner: Owner, queue: QueueId, drop: bool = True) -> Configured:
    return owner.run(configure, Configure(queue=QueueChange(id=queue, delete=True, drop=drop)))


def test_the_number_of_a_deleted_queue_does_not_come_again() -> None:
    owner = Owner()
    first = owner.queue("first")
    delete(owner, first)

    assert owner.queue("second") > first
    assert Owner(owner.connection, owner.clock).queue("third") > first + 1


def test_the_books_of_a_deleted_queue_go_with_it() -> None:
    owner = Owner()
    kept, gone = owner.queue("kept"), owner.queue("gone")
    owner.submit(payload(kept), payload(gone))
    delete(owner, gone)

    assert {row[0] for row in owner.read("SELECT queue FROM tally")} == {kept}
    assert {row[0] for row in owner.read("SELECT queue FROM counter")} == {kept}
    assert owner.shelf.tally == {(kept, Status.QUEUED): 1}
    assert gone not in owner.shelf.lined


def test_a_deletion_that_is_rolled_back_leaves_the_books_as_they_were() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue), payload(queue))
    before = (dict(owner.shelf.tally), dict(owner.shelf.counters), dict(owner.shelf.queues))

    def delete_and_fail(session: object, change: Configure) -> None:
        configure(session, change)  # type: ignore[arg-type]
        raise QueueInUse("changed my mind")

    with pytest.raises(QueueInUse):
        owner.run(delete_and_fail, Configure(queue=QueueChange(id=queue, delete=True, drop=True), act=Act("ada", "no")))

    assert (owner.shelf.tally, owner.shelf.counters, owner.shelf.queues) == before
    assert numbers(owner.claim(node, queue)) == [1]


def test_a_queue_with_tasks_that_are_not_final_stays_unless_they_are_dropped() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue), payload(queue))
    with pytest.raises(QueueInUse):
        delete(owner, queue, drop=False)
    claimed = owner.claim(node, queue)
    with pytest.raises(QueueInUse):
        delete(owner, queue)
    owner.settle("succeed", *claimed)
    delete(owner, queue)

    assert owner.read("SELECT * FROM task") == []


def test_children_elsewhere_hear_of_a_deletion_however_many_they_are() -> None:
    owner = Owner()
    gone, kept = owner.queue("gone"), owner.queue("kept")
    (parent,) = owner.submit(payload(gone))
    owner.submit(*[payload(kept, parents=(Edge(parent),))] * (2 * STEP_EDGES + 5))
    delete(owner, gone)

    assert owner.shelf.tally == {(kept, Status.BLOCKED): 0, (kept, Status.CANCELLED): 2 * STEP_EDGES + 5}
    assert owner.read("SELECT * FROM follow") == owner.read("SELECT * FROM edge") == []


def test_children_hear_of_a_parent_that_is_removed_before_all_were_told() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    (parent,) = owner.submit(payload(queue))
    owner.submit(*[payload(queue, parents=(Edge(parent),))] * (2 * STEP_EDGES + 5))
    owner.settle("succeed", *owner.claim(node, queue))
    assert owner.shelf.tally[queue, Status.BLOCKED] > 0
    owner.run(edit, Edits((Edit(parent, remove=True),)))

    assert owner.shelf.tally[queue, Status.BLOCKED] == 0
    assert owner.shelf.tally[queue, Status.QUEUED] == 2 * STEP_EDGES + 5


def test_what_was_left_to_follow_is_followed_in_bounded_steps() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    (parent,) = owner.submit(payload(queue))
    owner.submit(*[payload(queue, parents=(Edge(parent),))] * (STEP_EDGES + 250))
    owner.settle("succeed", *owner.claim(node, queue))
    steps = [owner.tend(release=True, most=100) for _ in range(4)]

    assert [(step.done, step.more) for step in steps] == [(100, True), (100, True), (50, False), (0, False)]
    assert owner.shelf.tally[queue, Status.QUEUED] == STEP_EDGES + 250


def test_tasks_of_a_key_change_places_with_the_sort_of_their_queue() -> None:
    owner = Owner()
    queue, node = owner.queue(max_per_key=1), owner.node()
    owner.submit(*[payload(queue, limit_key="k")] * 3)
    change = QueueChange(id=queue, policy=Policy(max_per_key=1, sort="lifo"))
    owner.run(configure, Configure(queue=change))

    assert numbers(owner.claim(node, queue, most=3)) == [3]
