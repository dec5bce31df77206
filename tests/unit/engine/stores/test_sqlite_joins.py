"""Each edge is followed once: no child is released twice, and none before all that it waits for."""

import pytest

from ganger.core.graph import Edge, Join
from ganger.core.state import Status
from ganger.core.task import Claimed
from ganger.engine.store import STEP_EDGES
from tests.unit.engine.stores.owner import Owner, payload

LIFE = (None, "start", "succeed")
"""What the child does after its first parent and before its second."""


@pytest.mark.parametrize("stage", range(len(LIFE) + 1))
@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_the_second_parent_of_a_join_of_any_changes_nothing_wherever_the_child_is_by_then(end: str, stage: int) -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    parents = owner.submit(payload(queue), payload(queue))
    (child,) = owner.submit(payload(queue, parents=tuple(map(Edge, parents)), join=Join.ANY))
    first, second = owner.claim(node, queue, most=2)
    owner.settle("succeed", first)
    live(owner, owner.claim(node, queue) if stage else [], stage)
    before, books = row(owner, child), dict(owner.shelf.tally)
    owner.settle(end, second)

    assert row(owner, child) == before
    target = Status.SUCCEEDED if end == "succeed" else Status.FAILED
    assert owner.shelf.tally[queue, target] == books.get((queue, target), 0) + 1
    assert owner.claim(node, queue) == [] or stage == 0


def live(owner: Owner, child: list[Claimed], stage: int) -> None:
    for rule in LIFE[:stage]:
        if rule is not None:
            owner.settle(rule, *child)


def row(owner: Owner, task: int) -> object:
    return owner.read("SELECT status, fence, holder, ended FROM task WHERE id = ?", (task,))


def test_children_of_very_many_wait_on_for_their_other_parent() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    one, other = owner.submit(payload(queue), payload(queue))
    children = 2 * STEP_EDGES + 1
    owner.submit(*[payload(queue, parents=(Edge(one), Edge(other)))] * children)
    first, second = owner.claim(node, queue, most=2)

    owner.settle("succeed", first)
    release_all(owner)
    assert (owner.shelf.tally[queue, Status.BLOCKED], owner.claim(node, queue)) == (children, [])

    owner.settle("succeed", second)
    release_all(owner)
    assert len(owner.claim(node, queue, most=2 * children)) == children


def release_all(owner: Owner) -> None:
    for _ in range(100):
        if not owner.tend(release=True, most=700).more:
            return
    pytest.fail("upkeep never ends releasing")
