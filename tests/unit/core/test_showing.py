"""Values and errors in sentences: nobody has to know Python to read them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ganger.core.errors import BadNumber
from ganger.core.showing import say_error, show
from ganger.databases.mongo import ObjectId
from ganger.engine.checks import check_whole
from ganger.engine.stores.mongo.odd import judge_queue, judge_task


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        ([1, None, "é"], '[1, null, "é"]'),
        ({"a": 1.5}, '{"a": 1.5}'),
        ("it", "'it'"),
        ("two\nlines", r"'two\nlines'"),
        (b"bytes", "a bytes"),
        (datetime(2027, 1, 1, tzinfo=UTC), "a datetime"),
        (float("inf"), "Infinity"),
        ({1, 2}, "a set"),
    ],
)
def test_a_value_is_shown_as_json_has_it(value: Any, shown: str) -> None:
    assert show(value) == shown


def test_what_is_long_is_cut() -> None:
    assert len(show("x" * 1_000)) == len(show(["x"] * 1_000)) == 80


def test_what_holds_itself_is_shown_too() -> None:
    round_about: list[Any] = []
    round_about.append(round_about)

    assert show(round_about) == "a list"


def test_an_error_is_told_by_its_sort_and_its_words() -> None:
    assert say_error(ModuleNotFoundError("No module named 'etl'")) == "ModuleNotFoundError: No module named 'etl'"
    assert say_error(KeyError()) == "KeyError"
    assert len(say_error(ValueError("x" * 1_000), 60)) == 60


def test_a_number_that_is_none_is_refused_in_such_words() -> None:
    with pytest.raises(BadNumber, match="priority is null"):
        check_whole("priority", None, 0, 9)  # type: ignore[arg-type]


def test_what_is_odd_in_a_document_is_said_in_such_words() -> None:
    id = ObjectId("0" * 24)

    assert judge_task({"_id": id, "status": None}) == "its status is null"
    assert judge_queue({"_id": id, "name": {"a": True}}) == 'its name is {"a": true}'
