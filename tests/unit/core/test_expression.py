"""Expressions over parents: what they mean, and that nothing else can be said in them."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.core.expression import LONGEST, Parent, check, evaluate, names_results, number_parents

PARENTS = {22: Parent(1, 0), 23: Parent(2, {"size": [10, 20], "name": "ann"}), 24: Parent(1)}


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("parent[22].result == 0", True),
        ("parent[22].result == 0 and parent[23].status == 1", False),
        ("parent[22].status == 1 or parent[99].status == 1", True),
        ("not parent[23].status == 1", True),
        ("parent[23].result['size'][1] > 15.5", True),
        ("parent[23].result['name'] in 'joanne ann'", True),
        ("10 not in parent[23].result['size']", False),
        ("1 <= parent[23].status < 3", True),
        ("parent[-1].status == 1 and parent[-2].status == 2", True),
        ("parent[22].result > -1", True),
        ("parent[24].result == None", True),
        (" (parent[24].status\n) == 1".replace("\n", ""), True),
        ("True", True),
    ],
)
def test_an_expression_means_what_it_says(text: str, truth: bool) -> None:
    check(text)
    assert evaluate(text, PARENTS) is truth


def test_an_only_parent_needs_no_number() -> None:
    assert evaluate("parent.result == 7", {5: Parent(1, 7)})


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "parent[22].__class__",
        "parent[22].result.__class__",
        "parent[22].result + 1",
        "9 ** 9",
        "[x for x in parent]",
        "(lambda: 1)()",
        "open",
        "f'{parent}'",
        "parent[22:23].status",
        "b'x' == b'x'",
        "...",
        "~1",
        "-'a'",
        "parent[22] == 1",
        "parent['a'].status",
        "parent[True].status",
        "parent[25].status",
        "parent[-4].status",
        "parent.status",
        "parent[23].result < 1",
        "parent[22].result[0]",
        "parent[23].result['gone']",
        "parent[22].size",
        "parent is None",
        "x := 1",
        "1 +",
        "",
        "\0",
        "(" * 500 + ")" * 500,
        "not " * 490 + "1 +",
        "1" * 5_000,
    ],
)
def test_anything_else_is_refused_and_nothing_is_run(text: str) -> None:
    with pytest.raises(BadInput):
        evaluate(text, PARENTS)


@pytest.mark.parametrize(
    "text",
    [
        "open(1)",
        "other[22].status",
        "1 + 1",
        "parent[1].result if 1 else 2",
        "parent[22].size",
        "parent",
        "parent[22] == 1",
        "parent['a'].status",
        "parent[True].status",
        "parent[22].result.status",
        "1 +",
        "b'x' == b'x'",
        "~1",
        "parent is None",
    ],
)
def test_what_is_not_of_the_language_is_refused_before_it_is_stored(text: str) -> None:
    with pytest.raises(BadInput):
        check(text)


def test_a_result_is_read_only_where_one_is_asked_for() -> None:
    assert names_results("parent[1].status == 1 and parent[2].result == 0")
    assert not names_results("parent[1].status == 1")


@pytest.mark.parametrize(
    ("text", "numbered"),
    [
        ("build.result == 0", "parent[-1].result == 0"),
        ("parent['test-1'].result['build'] > 'build'", "parent[-2].result['build'] > 'build'"),
        ("not (build.status == 1 or parent[22].status == 1)", "not (parent[-1].status == 1 or parent[22].status == 1)"),
        ("parent.result", "parent.result"),
    ],
)
def test_parents_may_be_named_where_their_rank_is_known(text: str, numbered: str) -> None:
    assert number_parents(text, {"build": -1, "test-1": -2}) == numbered


@pytest.mark.parametrize("text", ["other.result == 0", "parent['x'].status", "1 ==", "not " * 499 + "1"])
def test_a_name_that_is_no_parent_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        number_parents(text, {"build": -1})


@given(st.text(max_size=LONGEST))
def test_numbering_a_text_refuses_it_or_leaves_its_meaning(text: str) -> None:
    with suppress(BadInput):
        assert evaluate(number_parents(text, {}), PARENTS) == evaluate(text, PARENTS)


@given(st.text(max_size=LONGEST), st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_no_text_does_more_than_answer_or_be_refused(text: str, result: Any) -> None:
    with suppress(BadInput):
        assert evaluate(text, {1: Parent(1, result)}) in (True, False)
