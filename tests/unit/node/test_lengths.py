"""What a node knows of how long tasks take: nothing of those that it has not seen, and little of those that differ."""

import pytest

from ganger.core.task import Kind
from ganger.node import lengths
from ganger.node.lengths import Lengths, Name, name

QUICK, SLOW = Name(Kind.FUNCTION, "m:quick"), Name(Kind.FUNCTION, "m:slow")


def test_nothing_is_known_of_what_has_not_run_so_it_counts_as_long() -> None:
    seen = Lengths()
    assert seen.count_ahead([QUICK]) == 1
    assert seen.count_ahead([]) == 1
    seen.note(QUICK, 0.1)
    assert seen.count_ahead([QUICK]) == 1, "one is not enough"


def test_of_short_tasks_so_many_are_fetched_as_begin_within_ten_milliseconds() -> None:
    seen = Lengths()
    seen.note(QUICK, 40.0, 400)
    assert seen.count_ahead([QUICK]) == 100
    for _ in range(30):
        seen.note(QUICK, 4.0)
    assert seen.count_ahead([QUICK]) == 2
    for _ in range(30):
        seen.note(QUICK, 6.0)
    assert seen.count_ahead([QUICK]) == 1


def test_a_long_one_among_others_makes_all_of_its_name_long() -> None:
    seen = Lengths()
    for _ in range(30):
        seen.note(QUICK, 1.0)
    seen.note(QUICK, 3_000.0)
    assert seen.count_ahead([QUICK]) == 1
    for _ in range(10):
        seen.note(QUICK, 1.0)
    assert seen.count_ahead([QUICK]) == 1
    for _ in range(20):
        seen.note(QUICK, 1.0)
    assert seen.count_ahead([QUICK]) > 5


def test_one_late_word_among_many_changes_little() -> None:
    seen = Lengths()
    for _ in range(20):
        seen.note(QUICK, 1.0, 50)
    seen.note(QUICK, 5.0, 1)
    assert seen.count_ahead([QUICK]) > 100


def test_one_that_goes_on_and_on_is_long_before_it_ends() -> None:
    seen = Lengths()
    seen.note(QUICK, 1.0, 50)
    seen.exceed(QUICK, 20)
    assert seen.count_ahead([QUICK]) == 1


def test_among_several_names_the_longest_counts() -> None:
    seen = Lengths()
    seen.note(QUICK, 1.0, 50)
    seen.note(SLOW, 3_000.0, 3)
    assert seen.count_ahead([QUICK]) > 1
    assert seen.count_ahead([QUICK, SLOW]) == 1


def test_names_are_those_of_functions_programs_and_scripts() -> None:
    assert name(Kind.FUNCTION, b'{"path": "m:f", "args": [1]}') == Name(Kind.FUNCTION, "m:f")
    assert name(Kind.COMMAND, b'{"argv": ["sleep", "5"]}') == Name(Kind.COMMAND, "sleep")
    assert name(Kind.SHELL, b'{"script": "true"}') == Name(Kind.SHELL, "true")


@pytest.mark.parametrize("spec", [None, b"", b"{", b"[]", b'{"path": 3}', b"\xff", b'{"argv": []}'])
def test_what_has_no_name_is_all_alike(spec: bytes | None) -> None:
    assert name(Kind.COMMAND, spec) == Name(Kind.COMMAND, "")


def test_names_without_end_are_forgotten_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "_MOST_NAMES", 3)
    seen = Lengths()
    for number in range(5):
        seen.note(Name(Kind.FUNCTION, str(number)), 1.0, 50)
    assert [seen.count_ahead([Name(Kind.FUNCTION, str(number))]) > 1 for number in range(5)] == [
        *[False] * 2,
        *[True] * 3,
    ]
