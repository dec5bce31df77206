"""The later dialect of Disbatch 4 beside the protocol's text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput, Conflict
from ganger.engine.stores.mongo.dialect import (
    Dialect,
    choose_dialect,
    filter_unclaimed,
    find_dialect,
    queue_from_later,
    queue_to_later,
    read_dialect,
    say_unclaimed,
    task_from_later,
    task_to_later,
)

PLAIN: dict[str, Any] = {"parameters": {"user": "ada"}, "node": -1, "status": -2, "stdout": None, "stderr": None}
LATER: dict[str, Any] = {"params": {"user": "ada"}, "node": None, "status": -2, "stdout": None, "stderr": None}


def test_a_queued_task_is_the_same_in_both() -> None:
    assert task_to_later(PLAIN) == LATER
    assert task_from_later(LATER) == PLAIN


def test_a_task_that_has_ended_is_complete_in_the_later_one() -> None:
    ended = {**PLAIN, "node": "here", "status": 1, "stdout": "out", "stderr": ""}

    assert task_to_later(ended)["complete"] is True
    assert task_from_later(task_to_later(ended)) == ended
    for status in (-8, -6, -2, 0):
        assert "complete" not in task_to_later({**PLAIN, "status": status})


@given(
    st.fixed_dictionaries(
        {
            "parameters": st.dictionaries(st.text(), st.integers()),
            "node": st.just(-1) | st.text(min_size=1),
            "status": st.integers(-9, 9),
        },
        optional={"mark": st.integers(), "cmdExit": st.integers(), "ganger": st.none()},
    )
)
def test_what_nobody_knows_survives_the_way_there_and_back(task: dict[str, Any]) -> None:
    assert task_from_later(task_to_later(task)) == task


def test_the_limit_of_a_queue_is_another_one() -> None:
    plain = {"name": "demo", "constructor": "Demo", "maxthreads": 3, "sort": "fifo", "count_todo": 1, "count_total": 2}

    later = queue_to_later(plain, max_active=7)
    assert later == {"name": "demo", "plugin": "Demo", "sort": "fifo", "threads": 7}
    assert queue_from_later(later) == (
        {"name": "demo", "constructor": "Demo", "sort": "fifo", "maxthreads": None},
        7,
    )
    assert queue_from_later({"name": "x", "plugin": "Demo"})[1] is None


def test_a_claim_takes_both_words_for_nobody_where_both_are_written() -> None:
    assert (filter_unclaimed(Dialect.PLAIN), say_unclaimed(Dialect.PLAIN)) == (-1, -1)
    assert filter_unclaimed(Dialect.LATER) == {"$in": [None, -1]}
    assert say_unclaimed(Dialect.LATER) is None


def test_looking_finds_the_dialect_or_refuses_a_mixture() -> None:
    assert find_dialect([], []) is None
    assert find_dialect([PLAIN], [{"constructor": "Demo"}]) is Dialect.PLAIN
    assert find_dialect([LATER, LATER], [{"plugin": "Demo"}]) is Dialect.LATER
    assert find_dialect([{"status": 1}], []) is None
    for tasks, queues in (([PLAIN, LATER], []), ([PLAIN], [{"plugin": "Demo"}]), ([{**PLAIN, **LATER}], [])):
        with pytest.raises(Conflict, match="both Disbatch dialects"):
            find_dialect(tasks, queues)


def test_a_dialect_is_chosen_once() -> None:
    assert choose_dialect(None, None, None) is Dialect.PLAIN
    assert choose_dialect(None, None, Dialect.LATER) is Dialect.LATER
    assert choose_dialect(None, Dialect.LATER, None) is Dialect.LATER
    assert choose_dialect(Dialect.LATER, Dialect.LATER, Dialect.LATER) is Dialect.LATER
    for said in (
        (Dialect.PLAIN, None, Dialect.LATER),
        (Dialect.PLAIN, Dialect.LATER, None),
        (None, Dialect.LATER, Dialect.PLAIN),
    ):
        with pytest.raises(Conflict, match="a database speaks one"):
            choose_dialect(*said)


def test_what_went_wrong_with_a_plugin_is_told_in_the_later_words() -> None:
    ours = {**PLAIN, "ganger.kind": "plugin:Demo", "ganger.reason": "killed by signal 9"}

    assert task_to_later({**ours, "status": 2})["cmdErr"] == "killed by signal 9"
    for other in ({"status": 1}, {"status": -2}, {"status": 2, "ganger.kind": "command"}):
        assert "cmdErr" not in task_to_later({**ours, **other})
    assert "cmdErr" not in task_to_later({**PLAIN, "status": 2})


def test_a_dialect_that_is_none_is_refused() -> None:
    assert read_dialect("later") is Dialect.LATER
    with pytest.raises(BadInput, match="plain or later"):
        read_dialect("oldest")
