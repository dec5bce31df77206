"""Exchanges that are run as one: everybody gets what it would get if one came after another, and it is stored alike."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from ganger.core.errors import NodeGone
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.state import Verdict, move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import (
    Claim,
    Configure,
    Exchange,
    Exchanged,
    NodeChange,
    Note,
    Progress,
    QueueChange,
    Submission,
)
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.stores.sqlite.dealing import SMALL, TOGETHER, exchange_all, serve
from ganger.engine.stores.sqlite.exchanging import exchange_receipt, replay_exchange
from ganger.engine.stores.sqlite.joining import configure
from ganger.engine.stores.sqlite.queries import Q
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stores.owner import Owner, numbers, payload
from tests.unit.engine.stores.siblings import Siblings, claimed_by, settle, submit, workers


@pytest.fixture
def siblings() -> Siblings:
    return Siblings.born()


@pytest.mark.parametrize("slots", [None, 1])
def test_holders_that_end_one_and_take_the_next_are_served_in_the_order_in_which_they_came(
    siblings: Siblings, slots: int | None
) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue()), workers(siblings, 8, slots=slots)
    ids = submit(siblings, *[payload(queue)] * 20)
    held = siblings.take(queue, *nodes)
    said = siblings.exchange(*(settle(one, queue) for one in held))

    assert claimed_by(said) == [[number] for number in ids[8:16]]
    assert claimed_by(siblings.exchange(*(Exchange(claim=Claim(node, (queue,))) for node in nodes))) == (
        [[]] * 8 if slots else [[number] for number in ids[16:]] + [[]] * 4
    )


def test_eight_of_them_read_the_ready_tasks_and_write_the_ends_once() -> None:
    owner = Owner()
    queue, nodes = owner.queue(), [owner.node(f"n{number}", slots=1) for number in range(8)]
    owner.submit(*[payload(queue)] * 20)
    held = [owner.claim(node, queue)[0] for node in nodes]
    ran = count_statements(owner, lambda: owner.run(exchange_all, tuple(settle(one, queue) for one in held)))

    once = (Q.moves_read, Q.attempts_end, Q.moves_succeed, Q.leased_by_nodes, Q.ready_head)
    assert [ran[text] for text in once] == [1] * len(once)
    ended = "SELECT task, name FROM attempt JOIN identity ON identity.id = attempt.holder ORDER BY task"
    assert owner.read(ended) == [(one.id, f"n{number}") for number, one in enumerate(held)]


def count_statements(owner: Owner, tell: Callable[[], object]) -> Counter[str]:
    ran: Counter[str] = Counter()

    def note(_cursor: apsw.Cursor, text: str, _bindings: object) -> bool:
        ran[text] += 1
        return True

    owner.connection.exec_trace = note
    tell()
    owner.connection.exec_trace = None
    return ran


def test_a_stale_move_among_them_is_refused_alone(siblings: Siblings) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue()), workers(siblings, 3)
    submit(siblings, *[payload(queue)] * 9)
    one, two, three = siblings.take(queue, *nodes)
    siblings.all(lambda owner: owner.move("lose", two.id, two.fence))
    gone = Exchange((move(TaskId(99), "succeed", Fence(1)), move(three.id, "fail", three.fence)))
    said = siblings.exchange(settle(one, queue), settle(two, queue), gone)

    assert [reply.refused for reply in said if isinstance(reply, Exchanged)] == [
        [], [(0, Verdict.STALE.value)], [(0, Verdict.GONE.value)],
    ]  # fmt: skip
    assert claimed_by(said) == [[two.id], [4], []]


def test_two_that_end_the_same_lease_are_judged_one_after_the_other(siblings: Siblings) -> None:
    queue, (node,) = siblings.all(lambda owner: owner.queue()), workers(siblings, 1)
    submit(siblings, *[payload(queue)] * 3)
    (held,) = siblings.take(queue, node)
    said = siblings.exchange(settle(held, queue), settle(held, queue, rule="fail"))

    assert [reply.refused for reply in said if isinstance(reply, Exchanged)] == [[], [(0, Verdict.STALE.value)]]


def test_a_node_that_is_gone_hears_it_alone_and_its_move_is_taken_back(siblings: Siblings) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue()), workers(siblings, 3)
    submit(siblings, *[payload(queue)] * 9)
    held = siblings.take(queue, *nodes)
    drain = NodeChange(nodes[1], token="n1", drain=True)
    siblings.all(lambda owner: owner.run(configure, Configure(node=drain)).node is None)
    said = siblings.exchange(*(settle(one, queue) for one in held))

    assert said[1] == NodeGone.code
    assert siblings.joined.read("SELECT status FROM task WHERE id IN (1, 2, 3) ORDER BY id") == [(1,), (-1,), (1,)]


@pytest.mark.parametrize("policy", [{"max_active": 3}, {"max_per_node": 1}])
def test_a_full_limit_lets_each_take_what_those_before_it_have_left(siblings: Siblings, policy: dict[str, Any]) -> None:
    queue, nodes = siblings.all(lambda owner: owner.queue(**policy)), workers(siblings, 3)
    submit(siblings, *[payload(queue)] * 12)
    one, two, three = siblings.take(queue, *nodes)
    said = siblings.exchange(settle(one, queue, most=4), settle(two, queue, most=4), settle(three, queue, most=4))

    assert claimed_by(said) == [[4], [5], [6]]


def release_by_key(siblings: Siblings, queue: QueueId) -> None:
    submit(siblings, *[payload(queue, limit_key="k")] * 2)


def release_by_edge(siblings: Siblings, queue: QueueId) -> None:
    (parent,) = submit(siblings, payload(queue))
    submit(siblings, payload(queue, parents=(Edge(parent),)))


def release_by_group(siblings: Siblings, queue: QueueId) -> None:
    group, member = NewTask(queue, "group"), payload(queue, group=-1)
    submit(siblings, group, member, payload(queue, parents=(Edge(TaskId(-1)),)))


@pytest.mark.parametrize("release", [release_by_key, release_by_edge, release_by_group])
def test_what_a_later_one_releases_is_not_for_an_earlier_one(
    siblings: Siblings, release: Callable[[Siblings, QueueId], None]
) -> None:
    queue, (one, two) = siblings.all(lambda owner: owner.queue(max_per_key=1)), workers(siblings, 2)
    release(siblings, queue)
    (held,) = siblings.take(queue, two)
    said = siblings.exchange(Exchange(claim=Claim(one, (queue,))), settle(held, queue))

    assert claimed_by(said) == [[], [held.id + 1]]


def test_what_a_result_becomes_is_not_for_those_before_it(siblings: Siblings) -> None:
    after = siblings.all(lambda owner: owner.queue("after"))
    queue, (one, two) = siblings.all(lambda owner: owner.queue("q", becomes=after)), workers(siblings, 2)
    submit(siblings, payload(queue))
    (held,) = siblings.take(queue, two)
    said = siblings.exchange(Exchange(claim=Claim(one, (after,))), settle(held, after))

    assert claimed_by(said) == [[], [2]]


def test_a_slot_that_is_freed_later_is_not_free_before(siblings: Siblings) -> None:
    queue, (one, two) = siblings.all(lambda owner: owner.queue()), workers(siblings, 2, slots=1)
    submit(siblings, *[payload(queue)] * 5)
    first, second = siblings.take(queue, one, two)
    said = siblings.exchange(Exchange(claim=Claim(two, (queue,))), settle(first, queue), settle(second, queue))

    assert claimed_by(said) == [[], [3], [4]]


def test_a_refused_move_frees_no_slot(siblings: Siblings) -> None:
    queue, (one, two) = siblings.all(lambda owner: owner.queue()), workers(siblings, 2, slots=1)
    submit(siblings, *[payload(queue)] * 5)
    (late,) = siblings.take(queue, one)
    siblings.all(Owner.move, "lose", late.id, late.fence)
    (held,) = siblings.take(queue, two)
    assert held.id == late.id
    gone = Exchange((move(TaskId(99), "succeed", Fence(1)),))
    said = siblings.exchange(settle(late, queue), gone, Exchange(claim=Claim(two, (queue,))))

    assert [reply.refused for reply in said if isinstance(reply, Exchanged)] == [
        [(0, Verdict.STALE.value)], [(0, Verdict.GONE.value)], [],
    ]  # fmt: skip
    assert claimed_by(said) == [[2], [], []]


def test_a_fence_that_is_not_given_yet_is_judged_when_its_turn_comes(siblings: Siblings) -> None:
    queue, (one, two) = siblings.all(lambda owner: owner.queue()), workers(siblings, 2)
    (ready,) = submit(siblings, payload(queue))
    early = Exchange((move(ready, "succeed", Fence(1)),), Claim(two, (queue,)))
    said = siblings.exchange(Exchange(claim=Claim(one, (queue,))), early)

    assert claimed_by(said) == [[ready], []]


def test_nobody_is_sent_to_wait_for_a_task_that_another_has_just_got(siblings: Siblings) -> None:
    queue, (one, two) = siblings.all(lambda owner: owner.queue()), workers(siblings, 2)
    submit(siblings, payload(queue))
    (failed,) = siblings.take(queue, two)
    siblings.all(Owner.exchange, move(failed.id, "retry", failed.fence)._replace(avoid=30_000))
    said = siblings.exchange(Exchange(claim=Claim(one, (queue,))), Exchange(claim=Claim(two, (queue,))))

    assert claimed_by(said) == [[failed.id], []]
    assert [reply.next_due for reply in said if isinstance(reply, Exchanged)] == [None, None]


def test_one_node_that_asks_several_times_fills_its_slots_in_turn(siblings: Siblings) -> None:
    queue, (node,) = siblings.all(lambda owner: owner.queue()), workers(siblings, 1, slots=2)
    submit(siblings, *[payload(queue)] * 9)
    one, two = siblings.take(queue, node, node)
    said = siblings.exchange(
        settle(one, queue, most=3), Exchange(claim=Claim(node, (queue,))), settle(two, queue, most=3)
    )

    assert claimed_by(said) == [[3], [], [4]]
    assert [reply.waiting for reply in said if isinstance(reply, Exchanged)] == [True] * 3


def test_more_due_tasks_than_one_claim_makes_ready_are_found_by_each_as_alone(
    siblings: Siblings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("claiming", "dealing"):
        monkeypatch.setattr(f"ganger.engine.stores.sqlite.{module}.PROMOTED_AT_ONCE", 2)
    queue, nodes = siblings.all(lambda owner: owner.queue()), workers(siblings, 3)
    submit(siblings, *(payload(queue, delay=5, priority=9 - number) for number in range(5)))
    for owner in siblings:
        owner.clock.advance(10)

    assert claimed_by(siblings.exchange(*(Exchange(claim=Claim(node, (queue,), 1)) for node in nodes))) == [
        [2],
        [4],
        [5],
    ]


def test_a_queue_that_is_named_twice_is_one_queue(siblings: Siblings) -> None:
    queue, (one, two) = siblings.all(lambda owner: owner.queue()), workers(siblings, 2)
    submit(siblings, *[payload(queue)] * 4)
    claims = [Exchange(claim=Claim(node, (queue, queue), 2)) for node in (one, two)]

    assert claimed_by(siblings.exchange(*claims)) == [[1, 2], [3, 4]]


def test_the_receipt_of_each_is_enough_to_answer_it_again() -> None:
    owner = Owner()
    queue, nodes = owner.queue(), [owner.node(f"n{number}") for number in range(3)]
    owner.submit(*[payload(queue, b"spec")] * 2)
    joined = TOGETHER.join([Exchange(claim=Claim(node, (queue,), start=True)) for node in nodes])
    replies = TOGETHER.split(owner.run(serve, joined))

    assert [len(reply.claimed) for reply in replies] == [1, 1, 0]
    assert [owner.run(replay_exchange, exchange_receipt(reply)) for reply in replies] == replies


def test_only_small_ends_and_starts_and_open_claims_are_run_as_one() -> None:
    node, queue, ended = NodeId(1), QueueId(1), move(TaskId(1), "succeed", Fence(1))
    fits = TOGETHER.fits

    assert fits(Exchange((ended,) * SMALL, Claim(node, (queue,), SMALL)))
    assert fits(Exchange((move(TaskId(1), "start", Fence(1)), move(TaskId(2), "fail", Fence(1)))))
    assert not fits(Exchange((ended,) * (SMALL + 1)))
    assert not fits(Exchange((ended,), all_or_nothing=True))
    assert not fits(Exchange(claim=Claim(node, (queue,), SMALL + 1)))
    assert not fits(Exchange(claim=Claim(node, ids=(TaskId(1),))))
    for rule in ("retry", "release_later", "bury", "cancel", "kick", "lose", "conclude"):
        assert not fits(Exchange((move(TaskId(1), rule),)))


def test_holders_of_one_file_that_ask_at_the_same_moment_share_what_is_there(tmp_path: Path) -> None:
    asyncio.run(_share(tmp_path / "tasks.db"))


def test_no_settle_overtakes_what_was_written_before_it(tmp_path: Path) -> None:
    asyncio.run(_write_and_settle(tmp_path / "tasks.db"))


async def _write_and_settle(path: Path) -> None:
    store = await SqliteStore.open(path, FakeClock(), SeededEntropy())
    try:
        made = (await store.configure(Configure(queue=QueueChange(name="q", policy=Policy())))).queue
        assert made is not None
        node = await _register(store, "n", slots=None)
        await store.submit(Submission((payload(made.id),) * 30))
        for held in (await store.exchange(Exchange(claim=Claim(node, (made.id,), 10)))).claimed:
            note = Note(held.id, held.fence, progress=Progress(100, "done"))
            others = (store.exchange(Exchange(claim=Claim(node, (made.id,)))) for _ in range(2))
            _, _, refused, _ = await asyncio.gather(*others, store.write((note,)), store.exchange(settle(held)))
            assert refused == []
    finally:
        await store.close()


async def _share(path: Path) -> None:
    store = await SqliteStore.open(path, FakeClock(), SeededEntropy())
    try:
        made = (await store.configure(Configure(queue=QueueChange(name="q", policy=Policy())))).queue
        assert made is not None
        nodes = [await _register(store, f"n{number}") for number in range(8)]
        ids = (await store.submit(Submission((payload(made.id),) * 41))).ids
        had = await _drain(store, made.id, [*nodes, NodeId(99)])
        assert sorted(had) == ids
        counts, facts = await store.counts()
        assert [each.by_status for each in counts] == [{1: 41}]
        assert facts[made.id][Fact.SETTLED.value] == 41
    finally:
        await store.close()


async def _register(store: SqliteStore, name: str, slots: int | None = 1) -> NodeId:
    joined = (await store.configure(Configure(node=NodeChange(register=Registration(name, "t", slots))))).node
    assert joined is not None
    return joined.id


async def _drain(store: SqliteStore, queue: QueueId, nodes: Sequence[NodeId]) -> list[int]:
    """Everybody ends what it has and takes the next until nothing is left; one of them is not known."""
    had: list[int] = []
    held: dict[NodeId, list[Claimed]] = {node: [] for node in nodes}
    while not had or any(held.values()):
        asked = [
            Exchange(tuple(move(one.id, "succeed", one.fence) for one in held[node]), Claim(node, (queue,)))
            for node in nodes
        ]
        *good, bad = await asyncio.gather(*map(store.exchange, asked), return_exceptions=True)
        assert isinstance(bad, NodeGone)
        for node, reply in zip(nodes, good, strict=False):
            assert isinstance(reply, Exchanged)
            assert not reply.refused
            held[node] = reply.claimed
            had += numbers(reply.claimed)
    return had
