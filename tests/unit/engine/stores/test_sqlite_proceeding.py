"""Holders that end a task and take the next, all at one moment: each gets what it would get by itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ganger.core.errors import NodeGone
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.state import move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import Claim, Configure, Edit, Edits, Exchange, Exchanged, NodeChange, QueueChange, Submission
from ganger.engine.stores.sqlite import SqliteStore, dealing
from ganger.engine.stores.sqlite.dealing import exchange_each
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.joining import configure
from ganger.engine.stores.sqlite.proceeding import proceed
from ganger.engine.stores.sqlite.queries import Q
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stores.owner import Owner, payload
from tests.unit.engine.stores.siblings import Siblings, claimed_by, settle, submit, workers
from tests.unit.engine.stores.test_sqlite_dealing import count_statements

LONG = 3_600_000


@pytest.fixture
def siblings() -> Siblings:
    return Siblings.born()


@pytest.mark.parametrize("size", [2, 8, dealing.MOST])
def test_no_task_is_read_before_it_is_ended(size: int) -> None:
    owner = Owner()
    queue, nodes = owner.queue(), [owner.node(f"n{number}", slots=1) for number in range(size)]
    owner.submit(*[payload(queue)] * size * 2)
    held = [owner.claim(node, queue)[0] for node in nodes]
    ran = count_statements(owner, lambda: owner.run(exchange_each, [settle(one, queue) for one in held]))

    assert ran[Q.moves_read] == 0
    assert [ran[text] for text in (Q.attempts_end, Q.leased_by_nodes, Q.ready_head)] == [1, 1, 1]
    assert owner.read("SELECT count(*) FROM task WHERE status = 1") == [(size,)]


def kill(owner: Owner, _queue: QueueId, held: Claimed) -> None:
    owner.run(edit, Edits(edits=(Edit(held.id, kill=True),)))


def start(owner: Owner, _queue: QueueId, held: Claimed) -> None:
    owner.settle("start", held)


def lose(owner: Owner, _queue: QueueId, held: Claimed) -> None:
    owner.move("lose", held.id, held.fence)


def take_over(owner: Owner, queue: QueueId, held: Claimed) -> None:
    lose(owner, queue, held)
    owner.claim(owner.node("thief"), queue)


def wait_for(owner: Owner, queue: QueueId, held: Claimed) -> None:
    owner.submit(payload(queue, parents=(Edge(held.id),)))


def delay(owner: Owner, queue: QueueId, _held: Claimed) -> None:
    owner.submit(payload(queue, delay=1_000, priority=0))


def ask_more_of_nodes(owner: Owner, queue: QueueId, _held: Claimed) -> None:
    owner.submit(payload(queue, requires=("gpu",)))


def send_to_another(owner: Owner, queue: QueueId, held: Claimed) -> None:
    owner.exchange(move(held.id, "retry", held.fence)._replace(avoid=30_000))


def leave_nothing(owner: Owner, queue: QueueId, _held: Claimed) -> None:
    owner.claim(owner.node("greedy"), queue, most=100)


def take_slots_away(owner: Owner, queue: QueueId, held: Claimed) -> None:
    owner.claim(held.holder, queue, most=2)
    owner.run(configure, Configure(node=NodeChange(register=Registration("n1", "n1", slots=1, lease=LONG))))


OBSTACLES = (
    kill, start, lose, take_over, wait_for, delay, ask_more_of_nodes, send_to_another, leave_nothing, take_slots_away,
)  # fmt: skip


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda obstacle: obstacle.__name__)
def test_what_stands_in_the_way_of_one_changes_nothing_for_the_others(
    siblings: Siblings, obstacle: Callable[[Owner, QueueId, Claimed], None]
) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue()), workers(siblings, 4, lease=LONG)
    submit(siblings, *[payload(queue)] * 12)
    held = siblings.take(queue, *nodes)
    siblings.all(obstacle, queue, held[1])
    said = siblings.exchange(*(settle(one, queue) for one in held))

    assert [isinstance(one, Exchanged) for one in said] == [True] * 4


@pytest.mark.parametrize("more", [{"renewal": "touch"}, {"limit_key": "k"}], ids=["touched", "keyed"])
def test_tasks_that_have_more_to_them_are_ended_and_taken_as_ever(siblings: Siblings, more: dict[str, Any]) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue(max_per_key=9)), workers(siblings, 2)
    submit(siblings, *[payload(queue, **more)] * 6)
    held = siblings.take(queue, *nodes)
    assert claimed_by(siblings.exchange(*(settle(one, queue) for one in held))) == [[3], [4]]


def test_a_member_of_a_group_ends_it(siblings: Siblings) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue()), workers(siblings, 2)
    submit(siblings, NewTask(queue, "group"), *[payload(queue, group=TaskId(-1))] * 2, *[payload(queue)] * 4)
    held = siblings.take(queue, *nodes)
    siblings.exchange(*(settle(one, queue) for one in held))
    assert siblings.proceeded.read("SELECT status FROM task WHERE id = 1") == [(1,)]


class Crew:
    """Workers that do nothing but end one and take the next, while things happen around them."""

    def __init__(self, seed: int) -> None:
        self.draw, self.siblings = Random(seed), Siblings.born()
        self.queue: QueueId = self.siblings.all(lambda owner: owner.queue())
        self.nodes = workers(self.siblings, 6, lease=LONG, slots=self.draw.choice((None, 1, 2)))
        self.held: dict[NodeId, Claimed] = {}

    def submit(self) -> None:
        odd = self.draw.choice(({}, {}, {}, {"delay": 5}, {"limit_key": "k"}, {"renewal": "touch"}))
        submit(self.siblings, *[payload(self.queue, b"spec")] * 8, payload(self.queue, b"odd", **odd))

    def meddle(self) -> None:
        acts = (kill, start, lose, wait_for)
        if self.held and self.draw.random() < 0.4:
            self.siblings.all(self.draw.choice(acts), self.queue, self.draw.choice(list(self.held.values())))

    def work(self) -> None:
        nodes = self.draw.sample(self.nodes, self.draw.randrange(2, 7))
        if self.draw.random() < 0.8:
            # Those who have none ask by themselves, as they do.
            self.ask([node for node in nodes if node not in self.held])
        self.ask(nodes)

    def ask(self, nodes: list[NodeId]) -> None:
        requests = [
            settle(self.held.pop(node), self.queue) if node in self.held else Exchange(claim=Claim(node, (self.queue,)))
            for node in nodes
        ]
        for node, reply in zip(nodes, self.siblings.exchange(*requests), strict=True):
            assert isinstance(reply, Exchanged)
            if reply.claimed:
                self.held[node] = reply.claimed[0]


@pytest.mark.parametrize("seed", range(12))
def test_by_chance_nobody_sees_a_difference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proceeded = 0

    def count(*told: Any) -> list[Exchanged] | None:
        nonlocal proceeded
        replies = proceed(*told)
        proceeded += replies is not None
        return replies

    monkeypatch.setattr(dealing, "proceed", count)
    crew = Crew(seed)
    for _ in range(25):
        crew.submit()
        crew.meddle()
        crew.work()
        for owner in crew.siblings:
            owner.clock.advance(3)
    assert proceeded > 0


@pytest.mark.parametrize("by", ["the owner", "another"])
def test_one_that_is_not_known_hears_it_alone(tmp_path: Path, by: str) -> None:
    asyncio.run(_spoil(tmp_path / "g.db", by))


async def _spoil(path: Path, by: str) -> None:
    stores = [await SqliteStore.open(path, FakeClock(), SeededEntropy(seed)) for seed in range(2)]
    store = stores[by == "another"]
    try:
        made = (await store.configure(Configure(queue=QueueChange(name="q", policy=Policy())))).queue
        assert made is not None
        nodes = [await _register(store, f"n{number}") for number in range(4)]
        await store.submit(Submission((payload(made.id),) * 20))
        asked = [Exchange(claim=Claim(node, (made.id,))) for node in nodes]
        for stranger in (False, True, False):
            held = [each.claimed[0] for each in await store.exchange_each(asked) if isinstance(each, Exchanged)]
            assert len(held) == 4
            asked = [settle(one, made.id) for one in held]
            if stranger:
                *asked_again, spoilt = await store.exchange_each(
                    [*asked, Exchange(claim=Claim(NodeId(99), (made.id,)))]
                )
                assert isinstance(spoilt, NodeGone)
                assert all(isinstance(each, Exchanged) and each.claimed for each in asked_again)
                asked = [settle(each.claimed[0], made.id) for each in asked_again if isinstance(each, Exchanged)]
        counts, _ = await store.counts()
        assert [each.by_status for each in counts] == [{1: 12, -1: 4, -2: 4}]
    finally:
        for each in reversed(stores):
            await each.close()


async def _register(store: SqliteStore, name: str) -> NodeId:
    joined = (await store.configure(Configure(node=NodeChange(register=Registration(name, "t", 1))))).node
    assert joined is not None
    return joined.id
