"""Stories by chance: whatever holders ask for at one moment, no limit is passed and the books are right."""

from random import Random
from typing import Any

import pytest

from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import Claim, Exchange, Exchanged
from ganger.engine.stores.sqlite.exchanging import SMALL, TOGETHER, exchange_all
from tests.unit.engine.stores.owner import Owner

pytestmark = pytest.mark.slow


class Chance:
    """A story drawn from a seed: everything that can stand between a holder and a task is in it."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.owner = Owner()
        policies: list[dict[str, Any]] = [{}, {}, {}, {}, {"sort": "lifo"}, {"max_per_key": 1}, {"max_active": 4}]
        self.queues = [self.make_queue(f"q{number}", self.draw.choice(policies)) for number in range(2)]
        self.nodes = [self.make_node(f"n{number}") for number in range(5)]
        self.held: list[Claimed] = []

    def make_queue(self, name: str, policy: dict[str, Any]) -> QueueId:
        return self.owner.queue(name, **policy)

    def make_node(self, name: str) -> NodeId:
        pick = self.draw.choice
        said: dict[str, Any] = {
            "slots": pick((None, None, 1, 3)),
            "kinds": pick((None, None, ("payload",))),
            "queues": pick((None, None, None, ("q0",))),
            "labels": pick(((), ("gpu",))),
            "lease": 10**9,
        }
        return self.owner.node(name, **said)

    def submit(self) -> None:
        self.owner.submit(*(self._task() for _ in range(self.draw.randrange(12))))

    def _task(self) -> NewTask:
        draw, more = self.draw, dict[str, Any]()
        if draw.random() < 0.2:
            more["delay"] = draw.randrange(1, 50)
        if draw.random() < 0.1:
            more["renewal"] = "touch"
        if draw.random() < 0.05:
            more["limit_key"] = "k"
        if draw.random() < 0.05 and self.held:
            more["parents"] = (Edge(draw.choice(self.held).id, "finished"),)
        requires = ("gpu",) if draw.random() < 0.2 else ()
        kind = draw.choice(("payload", "payload", "command"))
        return NewTask(draw.choice(self.queues), kind, b"s", draw.randrange(3), requires=requires, **more)

    def fail_some(self) -> None:
        """Some are to be tried by another, at once or later."""
        for one in [one for one in self.held if self.draw.random() < 0.1]:
            rule, due = self.draw.choice((("retry", None), ("retry_later", self.owner.clock.wall() + 20)))
            again = move(one.id, rule, one.fence)._replace(avoid=30_000, due=due)
            self.owner.exchange(again)
            self._forget({one.id})

    def _forget(self, ended: set[TaskId]) -> None:
        """What is done with is not named again; only sometimes somebody comes too late."""
        self.held = [one for one in self.held if one.id not in ended or self.draw.random() < 0.03]

    def pass_time(self) -> None:
        self.owner.clock.advance(self.draw.randrange(20))

    def exchange(self) -> None:
        requests = [self._request(self.draw.choice(self.nodes)) for _ in range(self.draw.randrange(2, 8))]
        assert all(map(TOGETHER.fits, requests))
        replies = self.owner.run(exchange_all, requests)
        self._check(replies)
        self.held += [one for reply in replies for one in reply.claimed]

    def _check(self, replies: list[Exchanged]) -> None:
        """What was given is what is stored, nobody has more than it may, and the books say the same as the rows."""
        owner, given = self.owner, [one for reply in replies for one in reply.claimed]
        rows = owner.read("SELECT id, fence, holder FROM task WHERE holder IS NOT NULL")
        assert len({one.id for one in given}) == len(given)
        assert {(one.id, one.fence, one.holder) for one in given} <= set(rows)
        for number, node in owner.shelf.nodes.items():
            assert node.slots is None or sum(holder == number for _, _, holder in rows) <= node.slots
        for queue, most in self._limits():
            assert owner.shelf.leased(queue) <= most
        keyed = "SELECT count(*) FROM task WHERE limit_key = 'k' AND holder IS NOT NULL AND queue = ?"
        for number, known in owner.shelf.queues.items():
            limit = known.queue.policy.max_per_key
            assert limit is None or owner.read(keyed, (number,)) <= [(limit,)]
        counted = owner.read("SELECT queue, status, count(*) FROM task GROUP BY queue, status")
        assert {(queue, status): n for (queue, status), n in owner.shelf.tally.items() if n} == {
            (queue, status): n for queue, status, n in counted
        }

    def _limits(self) -> list[tuple[int, int]]:
        known = [(number, shelved.queue.policy.max_active) for number, shelved in self.owner.shelf.queues.items()]
        return [(number, most) for number, most in known if most is not None]

    def _request(self, node: NodeId) -> Exchange:
        draw = self.draw
        own = [one for one in self.held if one.holder == node or draw.random() < 0.01]
        rules = ("succeed", "succeed", "succeed", "fail", "start", "terminate")
        moves = tuple(move(one.id, draw.choice(rules), one.fence) for one in own if draw.random() < 0.6)
        self._forget({each.task for each in moves if each.rule != "start"})
        queues = tuple(draw.sample(self.queues, draw.randrange(1, 3)))
        claim = Claim(node, queues, draw.randrange(1, 4), start=draw.random() < 0.5)
        return Exchange(moves[:SMALL], claim if draw.random() < 0.8 else None)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_no_limit_is_passed_and_the_books_are_right(seed: int) -> None:
    chance = Chance(seed)
    for _ in range(12):
        chance.submit()
        chance.fail_some()
        chance.pass_time()
        chance.exchange()
