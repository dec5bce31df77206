"""Moves that are alike are applied at once, and leave what each of them alone would."""

from collections.abc import Callable
from typing import Any

import pytest

from ganger.core.graph import Edge
from ganger.core.ids import Fence, QueueId, TaskId
from ganger.core.state import Move, Verdict, move
from ganger.core.task import Claimed
from tests.unit.engine.stores.owner import Owner, payload

CROWD = 20
ODD = 7
"""Which of them is not like the others."""

TABLES = ("task", "attempt", "data", "edge")
Spoil = Callable[[Owner, list[Claimed]], None]


def mark(column: str, value: object) -> Spoil:
    def spoil(owner: Owner, held: list[Claimed]) -> None:
        owner.connection.execute(f"UPDATE task SET {column} = ? WHERE id = ?", (value, held[ODD].id))

    return spoil


def add_child(owner: Owner, held: list[Claimed]) -> None:
    owner.submit(payload(held[0].queue, b"child", parents=(Edge(held[ODD].id),)))


def end(owner: Owner, held: list[Claimed]) -> None:
    owner.settle("fail", held[ODD])


def drop(owner: Owner, held: list[Claimed]) -> None:
    owner.connection.execute("DELETE FROM task WHERE id = ?", (held[ODD].id,))


def leave(_: Owner, __: list[Claimed]) -> None:
    """All of them stay alike."""


ODDITIES: dict[str, tuple[Spoil, Verdict | None]] = {
    "all are alike": (leave, None),
    "one is to be killed": (mark("kill", 1), None),
    "one has a lease with an end of its own": (mark("until", 1 << 50), None),
    "one has a concurrency key": (mark("limit_key", "k"), None),
    "one runs": (mark("status", 0), None),
    "one has a child": (add_child, None),
    "one has another lease": (mark("fence", 9), Verdict.STALE),
    "one has ended": (end, Verdict.STALE),
    "one is gone": (drop, Verdict.GONE),
}


def prepare(**policy: Any) -> tuple[Owner, list[Claimed]]:
    owner = Owner()
    queue, node = owner.queue(**policy), owner.node()
    owner.submit(*(payload(queue, b"%d" % number) for number in range(CROWD)))
    return owner, owner.claim(node, queue, most=CROWD)


def dump(owner: Owner) -> dict[str, list[Any]]:
    return {table: owner.read(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES}


def settle_both(moves: Callable[[list[Claimed]], list[Move]], spoil: Spoil) -> list[Any]:
    """What was refused, at once and one after another; both files are the same then."""
    (once, held), (each, same) = prepare(), prepare()
    spoil(once, held)
    spoil(each, same)
    at_once = once.exchange(*moves(held)).refused
    by_one = [(at, verdict) for at, one in enumerate(moves(same)) for _, verdict in each.exchange(one).refused]
    assert dump(once) == dump(each)
    assert once.shelf.tally == each.shelf.tally
    return [at_once, by_one]


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("rule", ["succeed", "fail", "release", "terminate"])
def test_a_crowd_moves_as_each_of_it_would(oddity: str, rule: str) -> None:
    spoil, verdict = ODDITIES[oddity]
    at_once, by_one = settle_both(lambda held: [move(one.id, rule, one.fence) for one in held], spoil)
    assert at_once == by_one == ([] if verdict is None else [(ODD, verdict)])


@pytest.mark.parametrize("results", [range(CROWD), [ODD], []], ids=["all", "one", "none"])
def test_results_of_a_crowd_are_kept(results: list[int]) -> None:
    def moves(held: list[Claimed]) -> list[Move]:
        plain = [move(one.id, "succeed", one.fence) for one in held]
        return [one._replace(result=b"%d" % at if at in results else None) for at, one in enumerate(plain)]

    assert settle_both(moves, leave) == [[], []]


def test_a_crowd_whose_lease_is_over_is_refused_one_by_one() -> None:
    owner, held = prepare()
    owner.clock.advance(10_000_000)
    refused = owner.settle("succeed", *held).refused
    assert refused == [(at, Verdict.STALE) for at in range(CROWD)]


def test_a_crowd_with_a_strange_lease_is_refused() -> None:
    owner, held = prepare()
    refused = owner.exchange(*(move(one.id, "succeed", Fence(one.fence + 1)) for one in held)).refused
    assert refused == [(at, Verdict.STALE) for at in range(CROWD)]


def test_a_task_that_comes_twice_is_moved_once() -> None:
    owner, held = prepare()
    moves = [move(one.id, "succeed", one.fence) for one in held]
    assert owner.exchange(*moves, moves[ODD]).refused == [(CROWD, Verdict.STALE)]


def test_the_results_of_a_crowd_become_tasks() -> None:
    owner = Owner()
    after = owner.queue("after")
    queue, node = owner.queue("before", becomes=QueueId(after)), owner.node()
    owner.submit(*(payload(queue, b"x") for _ in range(CROWD)))
    held = owner.claim(node, queue, most=CROWD)
    owner.exchange(*(move(TaskId(one.id), "succeed", one.fence)._replace(result=b"r") for one in held))
    assert [one.spec for one in owner.claim(node, after, most=CROWD + 1)] == [b"r"] * CROWD
