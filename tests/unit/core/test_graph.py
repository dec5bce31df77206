"""Edges, joins, and what the end of parents means for a child."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import CycleFound
from ganger.core.graph import SKIPPED, Fate, Join, On, fate, holds, lost_reason, order
from ganger.core.state import Status, is_final

FINAL = sorted(status for status in Status if is_final(status))
final = st.sampled_from([*FINAL, 3, 77])
edges = st.sampled_from(list(On))
joins = st.sampled_from(list(Join))


@pytest.mark.parametrize(
    ("on", "status", "branch", "held"),
    [
        (On.SUCCESS, Status.SUCCEEDED, True, True),
        (On.SUCCESS, Status.SUCCEEDED, False, True),
        (On.SUCCESS, Status.FAILED, True, False),
        (On.SUCCESS, Status.CANCELLED, True, False),
        (On.FAILED, Status.FAILED, True, True),
        (On.FAILED, 77, True, True),
        (On.FAILED, Status.TERMINATED, True, True),
        (On.FAILED, Status.ORPHANED, True, True),
        (On.FAILED, Status.SUCCEEDED, True, False),
        (On.FAILED, Status.CANCELLED, True, False),
        (On.THEN, Status.SUCCEEDED, True, True),
        (On.THEN, Status.SUCCEEDED, False, False),
        (On.THEN, Status.FAILED, True, False),
        (On.ELSE, Status.SUCCEEDED, False, True),
        (On.ELSE, Status.SUCCEEDED, True, False),
        (On.ELSE, Status.FAILED, False, False),
    ],
)
def test_an_edge_holds_or_never_will(on: On, status: int, branch: bool, held: bool) -> None:
    assert holds(on, status, branch) is held


@given(final, st.booleans())
def test_an_edge_that_asks_for_the_finish_always_holds(status: int, branch: bool) -> None:
    assert holds(On.FINISHED, status, branch)


@given(st.booleans())
def test_of_the_two_branches_of_a_condition_exactly_one_is_chosen(branch: bool) -> None:
    chosen = [on for on in (On.THEN, On.ELSE) if holds(on, Status.SUCCEEDED, branch)]
    assert chosen == [On.THEN if branch else On.ELSE]


@pytest.mark.parametrize(
    ("join", "open_edges", "held", "end"),
    [
        (Join.ALL, 1, 1, Fate.WAITS),
        (Join.ALL, 0, 1, Fate.READY),
        (Join.ALL, 5, -1, Fate.LOST),
        (Join.ALL, 0, -1, Fate.LOST),
        (Join.ANY, 5, 1, Fate.READY),
        (Join.ANY, 5, 0, Fate.WAITS),
        (Join.ANY, 0, 0, Fate.LOST),
        (Join.ANY, 0, 2, Fate.READY),
    ],
)
def test_a_join_waits_is_ready_or_is_lost(join: Join, open_edges: int, held: int, end: Fate) -> None:
    assert fate(join, open_edges, held) is end


class Parent(NamedTuple):
    on: On
    status: int
    branch: bool

    @property
    def holds(self) -> bool:
        return holds(self.on, self.status, self.branch)


parents = st.lists(st.builds(Parent, edges, final, st.booleans()), min_size=1, max_size=7)


def end_of(join: Join, waves: list[list[Parent]]) -> Fate:
    """The fate of a child whose parents end wave by wave; the first wave that decides it does so for good."""
    open_edges = sum(map(len, waves))
    for wave in waves:
        open_edges -= len(wave)
        held = sum(parent.holds for parent in wave)
        lost = join is Join.ALL and held < len(wave)
        if (end := fate(join, open_edges, -1 if lost else held)) is not Fate.WAITS:
            return end
    return Fate.WAITS


def cut(ended: list[Parent], marks: list[bool]) -> list[list[Parent]]:
    waves: list[list[Parent]] = [[]]
    for parent, fresh in zip(ended, marks, strict=False):
        if fresh and waves[-1]:
            waves.append([])
        waves[-1].append(parent)
    return waves


@given(joins, parents, st.data())
def test_the_order_in_which_parents_end_does_not_change_the_fate_of_a_child(
    join: Join, ended: list[Parent], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(ended))
    marks = data.draw(st.lists(st.booleans(), min_size=len(ended), max_size=len(ended)))
    quantifier = any if join is Join.ANY else all
    expected = Fate.READY if quantifier(parent.holds for parent in ended) else Fate.LOST

    assert end_of(join, [ended]) is expected
    assert end_of(join, [[parent] for parent in shuffled]) is expected
    assert end_of(join, cut(shuffled, marks)) is expected


@pytest.mark.parametrize(
    ("on", "status", "reason", "word"),
    [
        (On.SUCCESS, Status.FAILED, None, "failed"),
        (On.SUCCESS, 77, None, "failed with code 77"),
        (On.SUCCESS, Status.CANCELLED, "by hand", "was cancelled"),
        (On.SUCCESS, Status.TERMINATED, None, "was killed"),
        (On.SUCCESS, Status.ORPHANED, None, "was lost"),
        (On.FAILED, Status.SUCCEEDED, None, "succeeded"),
        (On.THEN, Status.FAILED, None, "failed"),
    ],
)
def test_a_lost_child_says_which_parent_it_waited_for(on: On, status: int, reason: str | None, word: str) -> None:
    assert lost_reason(on, 5, status, reason) == f"task 5 {word}; its edge asks for {on}"


def test_a_child_however_far_below_names_the_cause() -> None:
    first = lost_reason(On.SUCCESS, 5, 77, "Traceback ...")
    second = lost_reason(On.SUCCESS, 6, Status.CANCELLED, first)
    third = lost_reason(On.SUCCESS, 7, Status.CANCELLED, second)

    assert first == "task 5 failed with code 77; its edge asks for success"
    assert second == "task 5 failed with code 77; its parent 6 was cancelled"
    assert third == "task 5 failed with code 77; its parent 7 was cancelled"


def test_a_branch_that_was_not_chosen_is_skipped_and_so_is_everything_below_it() -> None:
    assert lost_reason(On.THEN, 5, Status.SUCCEEDED, None) == SKIPPED
    assert lost_reason(On.ELSE, 5, Status.SUCCEEDED, None) == SKIPPED
    assert lost_reason(On.SUCCESS, 6, Status.CANCELLED, SKIPPED) == SKIPPED


def test_tasks_that_wait_for_earlier_ones_are_in_order() -> None:
    order([[], [0], [0, 1]])


def test_tasks_may_wait_for_later_ones() -> None:
    order([[2], [0, 2], []])


@pytest.mark.parametrize(
    ("above", "ring"),
    [([[0]], {0}), ([[1], [0]], {0, 1}), ([[], [3], [1], [2]], {1, 2, 3})],
)
def test_a_cycle_is_refused_and_its_ring_is_named(above: list[list[int]], ring: set[int]) -> None:
    with pytest.raises(CycleFound) as refused:
        order(above)

    named = [int(str(task)) for task in refused.value.fields["tasks"]]  # type: ignore[union-attr]
    assert named[0] == named[-1]
    assert set(named) == ring
    assert all(before in above[after] for before, after in pairwise(named))
    assert " -> ".join(map(str, named)) in str(refused.value)


def test_a_long_ring_is_cut_short_for_the_reader() -> None:
    with pytest.raises(CycleFound) as refused:
        order([[index - 1] if index else [9_999] for index in range(10_000)])

    assert len(str(refused.value)) < 300
    assert len(refused.value.fields["tasks"]) == 10_001  # type: ignore[arg-type]


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.sets(st.integers(0, n - 1)), min_size=n, max_size=n)))
def test_what_is_accepted_can_be_run_in_some_order(above: list[set[int]]) -> None:
    try:
        order(above)
    except CycleFound:
        return
    done: set[int] = set()
    for _ in above:
        done |= {index for index, parents in enumerate(above) if parents <= done}

    assert len(done) == len(above)
