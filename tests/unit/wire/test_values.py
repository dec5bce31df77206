"""Arguments and results are on the other side what they were, or are refused where they are given."""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.wire.arguments import check_call, convert_arguments, read_parameters, spell_arguments
from ganger.wire.values import convert, decode, encode, has_words, needs_conversion, read, spell

LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
    | st.dates() | st.datetimes() | st.times() | st.uuids() | st.decimals(allow_nan=False) | st.complex_numbers()
    | st.timedeltas(timedelta(-999), timedelta(999)) | st.sampled_from(["$bytes", "$task", "$dict"])
)  # fmt: skip
KEYS = st.text(max_size=5) | st.integers(0, 9) | st.sampled_from(["$bytes", "$task", "$dict", "$float"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(st.integers(), max_size=3) | st.frozensets(st.text(max_size=3), max_size=3)
    ),
    max_leaves=20,
)  # fmt: skip


def is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, complex):
        return is_same(one.real, other.real) and is_same(one.imag, other.imag)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(VALUES)
def test_every_value_comes_back_as_it_was_without_an_annotation(value: Any) -> None:
    body = encode(spell(value))

    assert is_same(value, decode(body))
    assert has_words(body) or is_same(value, msgspec.json.decode(body))


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    when: datetime
    path: Path


class Box(msgspec.Struct):
    size: Decimal


class Model(pydantic.BaseModel):
    name: str
    day: date


class Pair(NamedTuple):
    a: int
    b: str


NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
ANNOTATED: list[tuple[Any, Any, Any]] = [
    (Path("/a/b"), Path, "/a/b"),
    (UUID(int=5), UUID, "00000000-0000-0000-0000-000000000005"),
    (Decimal("1.50"), Decimal, "1.50"),
    (NOON, datetime, "2030-01-02T12:00:00Z"),
    (Colour.RED, Colour, "red"),
    (Level.HIGH, Level, 3),
    (Point(1, NOON, Path("p")), Point, {"x": 1, "when": "2030-01-02T12:00:00Z", "path": "p"}),
    (Box(Decimal(2)), Box, {"size": "2"}),
    (Model(name="a", day=date(2030, 1, 2)), Model, {"name": "a", "day": "2030-01-02"}),
    ([Model(name="a", day=date(2030, 1, 2))], list[Model], [{"name": "a", "day": "2030-01-02"}]),
    (b"\x00\xff", bytes, "AP8="),
    ({1, 2}, set[int], [1, 2]),
    ((1, "a"), tuple[int, str], [1, "a"]),
    (Pair(1, "b"), Pair, [1, "b"]),
    ({1: "a"}, dict[int, str], {"1": "a"}),
    ({"at": time(3)}, dict[str, time], {"at": "03:00:00"}),
    (None, Path | None, None),
    (Path("x"), Path | None, "x"),
]


@pytest.mark.parametrize(("value", "hint", "plain"), ANNOTATED, ids=lambda one: str(one)[:30])
def test_an_annotation_makes_it_plain_json_and_leads_back(value: Any, hint: Any, plain: Any) -> None:
    body = encode(spell(value, hint))

    assert msgspec.json.decode(body) == plain
    assert is_same(convert(decode(body), hint), value)


@pytest.mark.parametrize(
    "value", [Point(1, NOON, Path("p")), Box(Decimal(2)), Model(name="a", day=date(2030, 1, 2)), Path("a"), Colour.RED,
              Level.HIGH, Pair(1, "b"), object(), [Colour.RED], {"a": {Path("b")}}, range(3), iter([1])],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_without_an_annotation_what_json_cannot_tell_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="annotate"):
        spell(value)


@pytest.mark.parametrize(("value", "hint"), [(b"x", str), ((1, 2), list), (NOON, str), ({1}, list[int]), ((1, 2), Any)])
def test_an_annotation_that_says_otherwise_changes_nothing_in_silence(value: Any, hint: Any) -> None:
    assert is_same(decode(encode(spell(value, hint))), value)


@pytest.mark.parametrize(
    "value",
    [{"$float": "none"}, {"$float": 1}, {"$float": "nan", "more": 1}, {"$bytes": "?"}, {"$set": 5}],
)
def test_what_only_looks_like_a_word_is_left_alone(value: Any) -> None:
    assert read(value) == value


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(BadInput, match="holds itself"):
        spell_arguments(read_parameters(lambda one: one), [endless], {})


def test_a_class_of_ones_own_needs_no_conversion_to_be_a_default() -> None:
    assert needs_conversion(Path)
    assert not needs_conversion(int | None)
    assert not needs_conversion(dict[str, list[int]])
    assert needs_conversion(dict[int, str])


def _shape(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    parameters = read_parameters(call)
    check_call(parameters, args, kwargs)
    placed, named = spell_arguments(parameters, args, kwargs)
    sent = msgspec.json.decode(encode([placed, named]))
    return convert_arguments(parameters, read(sent[0]), read(sent[1]))


def ship(where: Path, colour: Colour = Colour.RED, *more: Any, note: bytes | None = None) -> None:
    """A function with parameters of each sort."""


def test_the_arguments_of_a_call_arrive_as_they_were() -> None:
    assert _shape(ship, Path("a"), Colour.RED, {1}, note=b"n") == ([Path("a"), Colour.RED, {1}], {"note": b"n"})
    assert _shape(ship, "a", colour="red") == ([Path("a")], {"colour": Colour.RED})


def test_a_call_that_the_function_cannot_take_is_refused_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'where'"):
        _shape(ship)
    with pytest.raises(TypeError, match="unexpected keyword argument 'color'"):
        _shape(ship, "a", color="red")
    with pytest.raises(BadInput, match="the argument colour"):
        _shape(ship, Path("a"), object())
    assert _shape(max, 1, 2) == ([1, 2], {})
