"""The faces of an id."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.core.ids import TaskId, from_object_id, from_uuid, to_object_id, to_uuid

TOP = (1 << 63) - 1
tags = st.integers(0, TOP)
ids = st.integers(1, TOP).map(TaskId)
seconds = st.integers(0, (1 << 32) - 1)


@given(tags, ids)
def test_an_id_comes_back_from_its_uuid(tag: int, task: TaskId) -> None:
    assert from_uuid(tag, to_uuid(tag, task)) == task


@given(tags, ids, ids)
def test_uuids_of_one_store_sort_as_the_ids_do(tag: int, one: TaskId, other: TaskId) -> None:
    assert (to_uuid(tag, one) < to_uuid(tag, other)) == (one < other)


@given(tags, tags, ids)
def test_the_uuid_of_another_store_is_refused(tag: int, other: int, task: TaskId) -> None:
    if tag != other:
        with pytest.raises(BadInput):
            from_uuid(tag, to_uuid(other, task))


@given(st.uuids())
def test_a_random_uuid_is_refused(face: uuid.UUID) -> None:
    with pytest.raises(BadInput, match=str(face)):
        from_uuid(face.int >> 64 ^ 1, face)


@pytest.mark.parametrize("number", [0, 1 << 63, (1 << 64) - 1])
def test_a_uuid_whose_number_is_no_id_is_refused(number: int) -> None:
    with pytest.raises(BadInput):
        from_uuid(7, uuid.UUID(int=7 << 64 | number))


@given(seconds, ids)
def test_an_id_comes_back_from_its_object_id(created: int, task: TaskId) -> None:
    face = to_object_id(created, task)

    assert len(face) == 24
    assert from_object_id(face) == from_object_id(face.upper()) == task


@given(st.tuples(seconds, ids), st.tuples(seconds, ids))
def test_object_ids_sort_by_time_and_then_by_id(one: tuple[int, TaskId], other: tuple[int, TaskId]) -> None:
    assert (to_object_id(*one) < to_object_id(*other)) == (one < other)


@pytest.mark.parametrize(
    "face",
    [
        "",
        "1",
        "0" * 24,
        "0" * 23,
        "0" * 25,
        "f" * 24,
        "0" * 8 + "g" * 16,
        "zzzzzzzz" + "0" * 15 + "1",
        "0" * 8 + "0x" + "0" * 13 + "1",
        "0" * 8 + "+" + "0" * 14 + "1",
        "0" * 8 + " " + "0" * 14 + "1",
        "0" * 8 + "0_" + "0" * 13 + "1",
        "0" * 23 + "\u0661",
        "0" * 23 + "1\n",
    ],
)
def test_an_object_id_that_was_not_made_here_is_refused(face: str) -> None:
    with pytest.raises(BadInput):
        from_object_id(face)
