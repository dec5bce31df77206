"""A claim that is chosen by the short way gets what it would get by the long one, whatever changed before it."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import GangerError, QueueInUse
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.task import Claimed
from ganger.databases.sqlite import Session
from ganger.engine.store import Claim, Configure, NodeChange, QueueChange
from ganger.engine.stores.sqlite import claiming
from ganger.engine.stores.sqlite.joining import configure
from tests.unit.engine.stores.owner import Owner, numbers, payload

SEEDS = range(12)
STEPS = 250
LONG = 3_600_000
POLICIES = (Policy(), Policy(max_active=2), Policy(max_per_node=1), Policy(pin=("one",)), Policy(ignore=("one",)))


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


@pytest.mark.parametrize("seed", SEEDS)
def test_by_chance_both_ways_choose_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    choose_plainly = claiming._choose_plainly

    def compare(step: Any, request: Claim, node: Any, most: int) -> claiming.Chosen | None:
        nonlocal compared
        chosen = choose_plainly(step, request, node, most)
        if chosen is not None:
            compared += 1
            assert chosen == claiming._choose_with_care(step, request, node, most)
        return chosen

    monkeypatch.setattr(claiming, "_choose_plainly", compare)
    _Life(Random(seed)).live()
    assert compared > 0


class _Life:
    """Two queues, two nodes, and what happens to them."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.owner = dice, Owner()
        self.queues = [self.owner.queue("a"), self.owner.queue("b")]
        self.nodes = [
            self.owner.node("one", lease=LONG),
            self.owner.node("two", lease=LONG, labels=("gpu",), slots=3),
        ]
        self.held: list[Claimed] = []

    def live(self) -> None:
        acts = (self.submit, self.submit, self.claim, self.claim, self.claim, self.settle, self.settle, self.change)
        for _ in range(STEPS):
            self.owner.clock.advance(self.dice.randrange(400))
            self.dice.choice(acts)()

    def submit(self) -> None:
        plain = self.dice.random() < 0.7
        more = {} if plain else self.dice.choice(({"delay": 500}, {"requires": ("gpu",)}, {"priority": 3}))
        self.owner.submit(*[payload(self.dice.choice(self.queues), **more)] * self.dice.randrange(1, 4))

    def claim(self) -> None:
        queues = self.dice.choice((self.queues, self.queues[:1], self.queues[1:], self.queues[::-1]))
        self.held += self.owner.claim(self.dice.choice(self.nodes), *queues, most=self.dice.randrange(1, 5))

    def settle(self) -> None:
        if self.held:
            one = self.held.pop(self.dice.randrange(len(self.held)))
            self.owner.settle(self.dice.choice(("succeed", "succeed", "release")), one)

    def change(self) -> None:
        queue = self.dice.choice(self.queues)
        until = self.dice.choice((0, 0, self.owner.clock.wall() + 700))
        request = Configure(queue=QueueChange(queue, policy=self.dice.choice(POLICIES), paused_until=Wall(until)))
        if self.dice.random() < 0.3:
            kinds = self.dice.choice((None, ("payload",), ("command",)))
            request = Configure(node=NodeChange(register=Registration("one", "one", lease=LONG, kinds=kinds)))
        try:
            self.owner.run(self.dice.choice((configure, configure, change_and_fail)), request)
        except GangerError:
            return
