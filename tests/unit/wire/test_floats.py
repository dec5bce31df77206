"""No number is lost on its way through JSON."""

import math
from dataclasses import dataclass
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.wire.floats import encode, has_words, read

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(VALUES)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    body = encode(value)
    decoded = msgspec.json.decode(body)
    assert is_same(value, read(decoded))
    assert has_words(body) or is_same(value, decoded)


@dataclass
class Measure:
    day: date
    height: float


def test_numbers_are_found_inside_of_what_is_no_json_yet() -> None:
    body = encode({"all": (Measure(date(2030, 1, 2), float("-inf")), {1: float("nan")})})
    assert msgspec.json.decode(body) == {
        "all": [{"day": "2030-01-02", "height": {"$float": "-inf"}}, {"1": {"$float": "nan"}}]
    }


def test_a_hook_is_asked_where_there_are_nulls_too() -> None:
    assert encode([None, 1j], str) == b'[null,"1j"]'


@pytest.mark.parametrize("value", [{"$float": "none"}, {"$float": 1}, {"$float": "nan", "more": 1}])
def test_what_only_looks_like_a_number_is_left_alone(value: Any) -> None:
    assert read(value) == value
