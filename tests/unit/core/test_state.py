"""The table of moves, and the laws that follow from it."""

from collections import Counter as Bag
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.event import Fact
from ganger.core.ids import Fence, TaskId
from ganger.core.state import (
    BORN,
    ENDED_UNFINISHED,
    LEASED,
    RULES,
    WAITING,
    Rule,
    Status,
    Verdict,
    is_final,
    is_todo,
    judge,
    move,
    status_of,
)

rules = st.sampled_from(sorted(RULES))
born = st.sampled_from(sorted(BORN))
codes = st.integers(-50, 50)


def walk(status: int, names: list[str]) -> list[int]:
    """Make each move that may be made, as an operator without a fence or as the holder of the lease; all statuses."""
    seen = [status]
    for name in names:
        if judge(RULES[name], seen[-1], 1, 1, True) is Verdict.APPLIED:
            seen.append(move(TaskId(1), name).target)
    return seen


@given(born, st.lists(rules, max_size=60))
def test_no_sequence_of_moves_leaves_the_table(start: Status, names: list[str]) -> None:
    assert all(status_of(status) is not None for status in walk(start, names))


@given(codes.filter(is_final), rules, st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_a_final_status_never_changes(status: int, name: str, fence: int, asked: int, valid: bool) -> None:
    assert judge(RULES[name], status, fence, asked, valid) is not Verdict.APPLIED


@given(codes.filter(lambda code: status_of(code) is None), rules, st.integers(0, 3), st.booleans())
def test_a_task_with_a_code_that_nobody_knows_is_never_moved(code: int, name: str, fence: int, valid: bool) -> None:
    assert judge(RULES[name], code, fence, fence, valid) is not Verdict.APPLIED


def test_a_code_that_nobody_knows_is_not_final_and_still_to_do() -> None:
    assert (is_final(-9), is_todo(-9), status_of(-9)) == (False, True, None)


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.by_holder], ids=lambda rule: rule.name)
def test_a_holders_move_starts_only_where_a_lease_exists(rule: Rule) -> None:
    assert rule.sources <= LEASED


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_move_that_gives_or_ends_a_lease_is_known_as_such(rule: Rule) -> None:
    gives = not rule.sources & LEASED and rule.target in LEASED
    assert gives == (rule.name in {"claim", "take"})
    assert rule.ends_lease == (rule.sources == LEASED)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_starts_at_statuses_that_are_all_leased_or_all_waiting(rule: Rule) -> None:
    assert rule.sources
    assert rule.sources <= LEASED or rule.sources <= WAITING


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_that_ends_a_task_tells_so(rule: Rule) -> None:
    told = {Fact.SETTLED, Fact.CANCELLED, Fact.LOST}
    assert not is_final(rule.target) or rule.fact in told


def test_every_status_is_waiting_leased_or_final() -> None:
    final = {status for status in Status if is_final(status)}

    assert {*WAITING, *LEASED, *final} == set(Status)
    assert not WAITING & LEASED
    assert not final & (WAITING | LEASED)
    assert final >= ENDED_UNFINISHED


def test_every_status_can_be_reached_from_birth() -> None:
    reached: set[Status] = set(BORN)
    for _ in Status:
        reached |= {rule.target for rule in RULES.values() if rule.sources & reached}

    assert reached == set(Status)


@pytest.mark.parametrize("status", [status for status in Status if not is_final(status)])
def test_from_every_status_that_is_not_final_an_end_can_be_reached(status: Status) -> None:
    reached = {status}
    for _ in Status:
        reached |= {rule.target for rule in RULES.values() if rule.sources & reached}

    assert any(map(is_final, reached))


@given(st.integers(2, 1 << 31))
def test_any_code_from_two_on_is_a_failure(code: int) -> None:
    assert status_of(code) is Status.FAILED
    assert is_final(code)
    assert move(TaskId(1), "fail", Fence(1), code).target == code


@pytest.mark.parametrize("name", sorted(RULES))
def test_only_a_failure_takes_a_code_of_its_own(name: str) -> None:
    target = RULES[name].target

    assert move(TaskId(1), name, code=99).target == (99 if target is Status.FAILED else target)
    assert move(TaskId(1), name, code=-99).target == target


@given(rules, codes, st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_the_verdict_says_stale_before_anything_else(name: str, status: int, fence: int, asked: int, ok: bool) -> None:
    rule = RULES[name]
    verdict = judge(rule, status, fence, asked, ok)

    if rule.by_holder:
        good = asked == fence and status in rule.sources and ok
        assert verdict is (Verdict.APPLIED if good else Verdict.STALE)
    elif asked not in (0, fence):
        assert verdict is Verdict.STALE
    else:
        assert verdict is (Verdict.APPLIED if status in rule.sources else Verdict.WRONG_STATUS)


@pytest.mark.parametrize(
    ("name", "status", "fences", "valid", "verdict"),
    [
        ("succeed", Status.RUNNING, (3, 3), True, Verdict.APPLIED),
        ("succeed", Status.RUNNING, (3, 2), True, Verdict.STALE),
        ("succeed", Status.RUNNING, (3, 0), True, Verdict.STALE),
        ("succeed", Status.RUNNING, (3, 3), False, Verdict.STALE),
        ("succeed", Status.SUCCEEDED, (3, 3), True, Verdict.STALE),
        ("succeed", Status.QUEUED, (0, 0), True, Verdict.STALE),
        ("start", Status.CLAIMED, (1, 1), True, Verdict.APPLIED),
        ("start", Status.RUNNING, (1, 1), True, Verdict.STALE),
        ("lose", Status.RUNNING, (3, 3), False, Verdict.APPLIED),
        ("lose", Status.RUNNING, (4, 3), False, Verdict.STALE),
        ("cancel", Status.QUEUED, (5, 0), False, Verdict.APPLIED),
        ("cancel", Status.RUNNING, (5, 0), False, Verdict.WRONG_STATUS),
        ("cancel", Status.QUEUED, (5, 4), False, Verdict.STALE),
        ("kick", Status.SUCCEEDED, (0, 0), False, Verdict.WRONG_STATUS),
        ("claim", -9, (0, 0), False, Verdict.WRONG_STATUS),
    ],
)
def test_a_verdict_of_the_truth_table(
    name: str, status: int, fences: tuple[int, int], valid: bool, verdict: Verdict
) -> None:
    assert judge(RULES[name], status, *fences, valid) is verdict


def test_every_sequence_of_two_settlements_under_one_lease_applies_the_first_alone() -> None:
    ending = [rule for rule in RULES.values() if rule.by_holder and rule.ends_lease]
    for first, second in product(ending, ending):
        assert judge(first, Status.RUNNING, 7, 7, True) is Verdict.APPLIED
        assert judge(second, first.target, 7, 7, True) is Verdict.STALE


@given(st.lists(born, min_size=1, max_size=8), st.lists(st.tuples(st.integers(0, 7), rules), max_size=80))
def test_counts_add_up(starts: list[Status], moves: list[tuple[int, str]]) -> None:
    statuses: list[int] = list(starts)
    tally = Bag(statuses)
    for index, name in moves:
        at = index % len(statuses)
        if judge(RULES[name], statuses[at], 1, 1, True) is Verdict.APPLIED:
            tally[statuses[at]] -= 1
            statuses[at] = move(TaskId(at + 1), name).target
            tally[statuses[at]] += 1

    assert +tally == Bag(statuses)
    assert tally.total() == len(starts)
    assert sum(n for status, n in tally.items() if is_todo(status)) == sum(map(is_todo, statuses))
