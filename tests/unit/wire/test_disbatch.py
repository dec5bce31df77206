"""What Disbatch clients send: whatever it is, it is understood or refused."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput, GangerError
from ganger.core.queue import Policy, check_policy
from ganger.wire.disbatch import making, params, queues
from ganger.wire.disbatch.asking import Question, read_question
from ganger.wire.disbatch.words import read_flag, read_threads, say_time

NAMES = [
    "name", "plugin", "constructor", "threads", "maxthreads", "sort", "queue", "params", "collection", "filter", "id",
    "status", "node", ".limit", ".skip", ".count", ".fields", ".pretty", "$where", "document.x",
]  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(NAMES)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner),
    max_leaves=12,
)
SAID = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)


@given(SAID)
def test_a_queue_that_is_understood_has_a_policy_that_makes_sense(said: dict[str, Any]) -> None:
    with suppress(BadInput):
        check_policy(queues.read_new(said, {"Demo"}).policy)
    with suppress(BadInput):
        check_policy(queues.read_change(said, {"Demo"}, Policy()).policy)


@given(VALUES)
def test_tasks_are_objects_with_something_in_them_or_refused(said: Any) -> None:
    readers: list[Callable[[], Any]] = [lambda: making.read_order(said).lot, lambda: making.check_array(said)]
    for read in readers:
        with suppress(BadInput):
            lot = read()
            assert isinstance(lot, making.Template) or all(isinstance(one, dict) and one for one in lot)
    with suppress(BadInput):
        assert "$where" not in making.check_template("users", said).filter


@given(SAID)
def test_options_and_questions_are_read_or_refused(said: dict[str, Any]) -> None:
    with suppress(BadInput):
        rest, options = params.part_options(said, 1_000)
        assert not any(name.startswith(".") for name in rest)
        assert options.limit is None or 1 <= options.limit <= 1_000
        assert isinstance(read_question(rest), Question)


@given(
    st.binary(max_size=60), st.sampled_from([params.FORM, params.JSON, "application/json; charset=utf-8", "text/plain"])
)
def test_any_body_is_read_or_refused(body: bytes, kind: str) -> None:
    with suppress(GangerError):
        params.read_body(kind, body, {})


def test_a_form_that_says_a_name_twice_means_both() -> None:
    assert params.read_body(params.FORM, b"a=1&a=2&b=", {}) == {"a": ["1", "2"], "b": ""}


@pytest.mark.parametrize(("value", "limit"), [(None, None), ("", None), (0, 0), ("07", 7), (5, 5)])
def test_a_limit_is_a_number_or_none(value: Any, limit: int | None) -> None:
    assert read_threads("threads", value) == limit


@pytest.mark.parametrize(
    ("value", "meant"), [(None, False), (0, False), ("0", False), ("", False), (1, True), ("TRUE", True)]
)
def test_a_flag_is_true_as_perl_has_it(value: Any, meant: bool) -> None:
    assert read_flag(".count", value) is meant


def test_a_flag_that_is_neither_is_refused() -> None:
    values: list[Any] = [2, "maybe", [], 1.5]
    for value in values:
        with pytest.raises(BadInput, match="write 1 or 0"):
            read_flag(".count", value)


def test_a_field_of_a_document_is_found_by_its_name_or_its_path() -> None:
    template = making.check_template(
        "users", {"filter": {}, "params": {"a": "document.x.y", "b": "document.z", "c": 1}}
    )

    assert list(template.fields) == ["x.y", "z"]
    assert making.fill(template, {"x": {"y": 5}}) == {"a": 5, "b": None, "c": 1}
    assert making.fill(template, {"x.y": 6, "z": [1]}) == {"a": 6, "b": [1], "c": 1}


def test_times_are_texts_or_seconds() -> None:
    assert say_time(1_548_272_576_574, epoch=False) == "2019-01-23T19:42:56"
    assert say_time(1_548_272_576_574, epoch=True) == 1_548_272_576.574


def test_the_parameters_of_a_task_are_what_its_plugin_is_given() -> None:
    (new,) = making.make_tasks(1, "Demo", [{"n": 1}])  # type: ignore[arg-type]

    assert new.kind == "plugin:Demo"
    assert making.read_parameters(new.kind, new.spec) == {"n": 1}
    assert making.read_parameters("command", msgspec.json.encode({"argv": ["true"]})) == {"argv": ["true"]}
    assert making.read_parameters("payload", b"\x00") is None
    assert making.read_parameters("command", b"{") is None
