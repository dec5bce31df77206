"""Errors on their way between processes."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput, CycleFound, Field, GangerError, StoreError, TaskNotFound, decode, encode, tree

CLASSES = list(tree())
fields = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=5),
    st.lists(st.text(max_size=5), max_size=5),
)


def test_codes_are_unique() -> None:
    assert len({error.code for error in CLASSES}) == len(set(CLASSES)) == len(CLASSES)


@given(st.sampled_from(CLASSES), st.text(max_size=50), st.dictionaries(st.text(min_size=1, max_size=10), fields))
def test_every_error_comes_back_from_its_code(kind: type[GangerError], said: str, more: dict[str, Field]) -> None:
    raised = kind(said, **more)
    arrived = decode(*encode(raised))

    assert type(arrived) is kind
    assert (arrived.message, arrived.fields) == (said, more)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_can_be_pickled_and_copied(kind: type[GangerError]) -> None:
    raised = kind("it went wrong", task=7, ids=[1, 2], why=None)

    for again in (pickle.loads(pickle.dumps(raised)), copy.copy(raised), copy.deepcopy(raised)):
        assert type(again) is kind
        assert (str(again), again.fields) == ("it went wrong", {"task": 7, "ids": [1, 2], "why": None})


def test_a_field_may_have_any_name() -> None:
    raised = BadInput("no", message="its own", self="too")

    assert decode(*encode(raised)).fields == {"message": "its own", "self": "too"}


def test_the_code_of_a_newer_version_is_still_an_error() -> None:
    arrived = decode("made_up_later", "it went wrong", {"task": 7})

    assert type(arrived) is GangerError
    assert (str(arrived), arrived.fields) == ("it went wrong", {"task": 7})


def test_an_error_is_for_people_and_for_programs() -> None:
    raised = CycleFound("these wait for each other", tasks=[1, 2, 1])

    assert str(raised) == "these wait for each other"
    assert raised.fields["tasks"] == [1, 2, 1]


def test_a_caller_may_catch_a_branch_of_the_tree() -> None:
    assert issubclass(CycleFound, BadInput)
    assert not issubclass(TaskNotFound, BadInput)
    assert TaskNotFound not in list(tree(StoreError))
