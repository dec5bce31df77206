"""Exchanges of one moment are one step: each gets its own verdicts and its own share, and no limit is passed."""

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
from ganger.engine.stores.sqlite.exchanging import SMALL, TOGETHER, exchange_all, exchange_receipt, replay_exchange
from ganger.engine.stores.sqlite.joining import configure
from ganger.engine.stores.sqlite.queries import Q
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stores.owner import Owner, numbers, payload


@pytest.fixture
def owner() -> Owner:
    return Owner()


def settle(held: Claimed, *queues: QueueId, rule: str = "succeed", most: int = 1) -> Exchange:
    """End this one, and take of these queues."""
    ended = move(held.id, rule, held.fence)._replace(result=b"done")
    return Exchange((ended,), Claim(held.holder, queues, most) if queues else None)


def ask(node: NodeId, *queues: QueueId, most: int = 1) -> Exchange:
    return Exchange(claim=Claim(node, queues, most))


def exchange(owner: Owner, *requests: Exchange) -> list[Exchanged]:
    assert all(map(TOGETHER.fits, requests))
    return owner.run(exchange_all, requests)


def given(replies: Sequence[Exchanged]) -> list[list[int]]:
    return [numbers(reply.claimed) for reply in replies]


def workers(owner: Owner, n: int, **said: Any) -> list[NodeId]:
    return [owner.node(f"n{number}", **said) for number in range(n)]


def take(owner: Owner, queue: QueueId, *nodes: NodeId) -> list[Claimed]:
    """Each of them gets one task."""
    return [owner.claim(node, queue)[0] for node in nodes]


@pytest.mark.parametrize("slots", [None, 1])
def test_holders_that_end_one_and_take_the_next_are_served_in_the_order_in_which_they_came(
    owner: Owner, slots: int | None
) -> None:
    queue, nodes = owner.queue(), workers(owner, 8, slots=slots)
    ids = owner.submit(*[payload(queue)] * 20)
    held = take(owner, queue, *nodes)

    assert given(exchange(owner, *(settle(one, queue) for one in held))) == [[number] for number in ids[8:16]]
    assert given(exchange(owner, *(ask(node, queue) for node in nodes))) == (
        [[]] * 8 if slots else [[number] for number in ids[16:]] + [[]] * 4
    )


def test_eight_of_them_read_the_ready_tasks_and_write_the_ends_once(owner: Owner) -> None:
    queue, nodes = owner.queue(), workers(owner, 8, slots=1)
    owner.submit(*[payload(queue)] * 20)
    held = take(owner, queue, *nodes)
    ran = count_statements(owner, lambda: exchange(owner, *(settle(one, queue) for one in held)))

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


def test_a_stale_move_among_them_is_refused_alone(owner: Owner) -> None:
    queue, nodes = owner.queue(), workers(owner, 3)
    owner.submit(*[payload(queue)] * 9)
    one, two, three = take(owner, queue, *nodes)
    owner.move("lose", two.id, two.fence)
    gone = Exchange((move(TaskId(99), "succeed", Fence(1)), move(three.id, "fail", three.fence)))
    said = exchange(owner, settle(one, queue), settle(two, queue), gone)

    assert [reply.refused for reply in said] == [[], [(0, Verdict.STALE.value)], [(0, Verdict.GONE.value)]]
    assert given(said) == [[two.id], [4], []]


def test_two_that_end_the_same_lease_are_judged_one_after_the_other(owner: Owner) -> None:
    queue, (node,) = owner.queue(), workers(owner, 1)
    owner.submit(*[payload(queue)] * 3)
    (held,) = take(owner, queue, node)
    said = exchange(owner, settle(held, queue), settle(held, queue, rule="fail"))

    assert [reply.refused for reply in said] == [[], [(0, Verdict.STALE.value)]]


def test_a_node_that_is_gone_spoils_the_step_and_nothing_of_it_is_stored(owner: Owner) -> None:
    queue, nodes = owner.queue(), workers(owner, 3)
    owner.submit(*[payload(queue)] * 9)
    held = take(owner, queue, *nodes)
    owner.run(configure, Configure(node=NodeChange(nodes[1], token="n1", drain=True)))
    with pytest.raises(NodeGone):
        exchange(owner, *(settle(one, queue) for one in held))

    assert owner.read("SELECT status FROM task WHERE id IN (1, 2, 3) ORDER BY id") == [(-1,), (-1,), (-1,)]


@pytest.mark.parametrize("policy", [{"max_active": 3}, {"max_per_node": 1}])
def test_a_full_limit_lets_each_take_what_those_before_it_have_left(owner: Owner, policy: dict[str, Any]) -> None:
    queue, nodes = owner.queue(**policy), workers(owner, 3)
    owner.submit(*[payload(queue)] * 12)
    held = take(owner, queue, *nodes)
    said = exchange(owner, *(settle(one, queue, most=4) for one in held))

    assert sorted(number for share in given(said) for number in share) == [4, 5, 6]
    assert owner.read("SELECT count(*) FROM task WHERE status < 1 AND holder IS NOT NULL") == [(3,)]


def release_by_key(owner: Owner, queue: QueueId) -> None:
    owner.submit(*[payload(queue, limit_key="k")] * 2)


def release_by_edge(owner: Owner, queue: QueueId) -> None:
    (parent,) = owner.submit(payload(queue))
    owner.submit(payload(queue, parents=(Edge(parent),)))


def release_by_group(owner: Owner, queue: QueueId) -> None:
    group, member = NewTask(queue, "group"), payload(queue, group=-1)
    owner.submit(group, member, payload(queue, parents=(Edge(TaskId(-1)),)))


@pytest.mark.parametrize("release", [release_by_key, release_by_edge, release_by_group])
def test_what_one_releases_is_for_whoever_asked_first(owner: Owner, release: Callable[[Owner, QueueId], None]) -> None:
    queue, (one, two) = owner.queue(max_per_key=1), workers(owner, 2)
    release(owner, queue)
    (held,) = take(owner, queue, two)

    assert given(exchange(owner, ask(one, queue), settle(held, queue))) == [[held.id + 1], []]


def test_what_a_result_becomes_can_be_taken_in_the_same_step(owner: Owner) -> None:
    after = owner.queue("after")
    queue, (one, two) = owner.queue("q", becomes=after), workers(owner, 2)
    owner.submit(payload(queue))
    (held,) = take(owner, queue, two)

    assert given(exchange(owner, ask(one, after), settle(held, after))) == [[2], []]


def test_a_refused_move_frees_no_slot(owner: Owner) -> None:
    queue, (one, two) = owner.queue(), workers(owner, 2, slots=1)
    owner.submit(*[payload(queue)] * 5)
    (late,) = take(owner, queue, one)
    owner.move("lose", late.id, late.fence)
    (held,) = take(owner, queue, two)
    assert held.id == late.id
    gone = Exchange((move(TaskId(99), "succeed", Fence(1)),))
    said = exchange(owner, settle(late, queue), gone, ask(two, queue))

    assert [reply.refused for reply in said] == [[(0, Verdict.STALE.value)], [(0, Verdict.GONE.value)], []]
    assert given(said) == [[2], [], []]


def test_a_move_under_a_fence_that_is_not_given_yet_is_refused(owner: Owner) -> None:
    queue, (one, two) = owner.queue(), workers(owner, 2)
    (ready,) = owner.submit(payload(queue))
    early = Exchange((move(ready, "succeed", Fence(1)),), Claim(two, (queue,)))
    said = exchange(owner, ask(one, queue), early)

    assert given(said) == [[ready], []]
    assert [index for index, _ in said[1].refused] == [0]


def test_nobody_is_sent_to_wait_for_a_task_that_another_has_just_got(owner: Owner) -> None:
    queue, (one, two) = owner.queue(), workers(owner, 2)
    owner.submit(payload(queue))
    (failed,) = take(owner, queue, two)
    owner.exchange(move(failed.id, "retry", failed.fence)._replace(avoid=30_000))
    said = exchange(owner, ask(one, queue), ask(two, queue))

    assert given(said) == [[failed.id], []]
    assert [reply.next_due for reply in said] == [None, None]


def test_one_node_that_asks_several_times_gets_no_more_than_its_slots(owner: Owner) -> None:
    queue, (node,) = owner.queue(), workers(owner, 1, slots=2)
    owner.submit(*[payload(queue)] * 9)
    one, two = take(owner, queue, node, node)
    said = exchange(owner, settle(one, queue, most=3), ask(node, queue), settle(two, queue, most=3))

    assert given(said) == [[3, 4], [], []]
    assert [reply.waiting for reply in said] == [True] * 3


def test_notes_come_before_the_moves_of_their_step(owner: Owner) -> None:
    queue, (node,) = owner.queue(), workers(owner, 1)
    owner.submit(*[payload(queue)] * 2)
    one, two = take(owner, queue, node, node)
    said = exchange(
        owner,
        Exchange((move(one.id, "succeed", one.fence),), notes=(Note(one.id, one.fence, progress=Progress(99, "x")),)),
        Exchange((move(two.id, "succeed", two.fence),), notes=(Note(two.id, two.fence, progress=Progress(98, "y")),)),
    )

    assert [reply.refused for reply in said] == [[], []]
    assert owner.read("SELECT percent, info FROM task ORDER BY id") == [(99, "x"), (98, "y")]


def test_a_queue_that_is_named_twice_is_one_queue(owner: Owner) -> None:
    queue, nodes = owner.queue(), workers(owner, 2)
    owner.submit(*[payload(queue)] * 4)

    assert given(exchange(owner, *(ask(node, queue, queue, most=2) for node in nodes))) == [[1, 2], [3, 4]]


def test_the_receipt_of_each_is_enough_to_answer_it_again(owner: Owner) -> None:
    queue, nodes = owner.queue(), workers(owner, 3)
    owner.submit(*[payload(queue, b"spec")] * 2)
    replies = exchange(owner, *(Exchange(claim=Claim(node, (queue,), start=True)) for node in nodes))

    assert [len(reply.claimed) for reply in replies] == [1, 1, 0]
    assert [owner.run(replay_exchange, exchange_receipt(reply)) for reply in replies] == replies


def test_only_small_exchanges_and_open_claims_are_made_together() -> None:
    node, queue, ended = NodeId(1), QueueId(1), move(TaskId(1), "succeed", Fence(1))
    fits = TOGETHER.fits

    assert fits(Exchange((ended,) * SMALL, Claim(node, (queue,), SMALL)))
    assert fits(Exchange((move(TaskId(1), "retry", Fence(1)), move(TaskId(2), "cancel"))))
    assert not fits(Exchange((ended,) * (SMALL + 1)))
    assert not fits(Exchange((ended,), all_or_nothing=True))
    assert not fits(Exchange(claim=Claim(node, (queue,), SMALL + 1)))
    assert not fits(Exchange(claim=Claim(node, ids=(TaskId(1),))))


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
