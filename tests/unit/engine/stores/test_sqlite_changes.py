"""What changes in a queue or a node counts from the next claim on."""

from collections.abc import Callable
from typing import Any

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import QueueInUse
from ganger.core.ids import NodeId, QueueId
from ganger.core.queue import Policy
from ganger.databases.sqlite import Session
from ganger.engine.store import Configure, QueueChange
from ganger.engine.stores.sqlite.joining import configure
from tests.unit.engine.stores.owner import Owner, numbers, payload


def change(owner: Owner, queue: QueueId, **to: Any) -> None:
    owner.run(configure, Configure(queue=QueueChange(queue, **to)))


def change_and_fail(session: Session, request: Configure) -> None:
    configure(session, request)
    raise QueueInUse("changed my mind")


CHANGES: dict[str, Callable[[Owner, QueueId], object]] = {
    "paused": lambda owner, queue: change(owner, queue, paused_until=Wall(owner.clock.wall() + 1_000)),
    "limited": lambda owner, queue: change(owner, queue, policy=Policy(max_active=1)),
    "pinned": lambda owner, queue: change(owner, queue, policy=Policy(pin=("other",))),
    "refused by the node": lambda owner, queue: _register(owner, queues=("other",)),
    "of another kind than the node's": lambda owner, queue: _register(owner, kinds=("command",)),
}


def _register(owner: Owner, **said: Any) -> NodeId:
    return owner.node("n", **said)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_counts_from_the_next_claim_on(name: str) -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(*[payload(queue)] * 4)
    assert numbers(owner.claim(node, queue)) == [1]
    before, knows = owner.shelf.queues[queue].queue, owner.shelf.nodes[node]
    CHANGES[name](owner, queue)
    assert owner.claim(node, queue) == []
    change(owner, queue, policy=before.policy, paused_until=before.paused_until)
    _register(owner, kinds=knows.kinds, queues=knows.queues)
    assert numbers(owner.claim(node, queue)) == [2]


def test_a_change_that_is_rolled_back_does_not_count() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(*[payload(queue)] * 2)
    assert numbers(owner.claim(node, queue)) == [1]
    with pytest.raises(QueueInUse):
        owner.run(change_and_fail, Configure(queue=QueueChange(queue, policy=Policy(max_active=1))))
    assert numbers(owner.claim(node, queue)) == [2]
