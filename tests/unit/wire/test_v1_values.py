"""Values of `/v1`: what was put is what is got, whole or in pieces."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.wire.v1.values import BASE64, JSON, JSON_TEXT, TEXT, ValueIn, check_key, pack, show, show_piece, trim

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("abc", max_size=3), below, max_size=3),
    max_leaves=10,
)


@given(JSONS)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    content, mark = pack(ValueIn(value))

    assert show(content, mark).data == value
    assert mark == (TEXT if isinstance(value, str) else JSON)


@given(st.binary())
def test_bytes_come_back_as_they_were(content: bytes) -> None:
    packed, mark = pack(ValueIn(base64.b64encode(content).decode(), BASE64))

    assert packed == content
    assert base64.b64decode(show(packed, mark).data) == content


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(4, 20))
def test_pieces_of_text_make_the_text(text: str, size: int) -> None:
    content, start, told = text.encode(), 0, ""
    while start < len(content):
        end = start + size
        shown = show_piece(content[start:end], None, whole=end >= len(content))
        assert (shown.encoding, shown.used > 0) == (TEXT, True)
        told += shown.data
        start += shown.used

    assert told == text


@given(st.binary(max_size=8))
def test_trimming_takes_at_most_the_beginning_of_one_character(content: bytes) -> None:
    kept = trim(content)

    assert content.startswith(kept)
    assert len(content) - len(kept) < 4


def test_what_is_no_text_is_shown_as_base64() -> None:
    assert show(b"\xff\xfe", None).encoding == BASE64
    assert show_piece(b"\xff" * 10, None, whole=False).encoding == BASE64


def test_a_piece_of_json_says_that_it_is_one() -> None:
    assert show_piece(b"[1, 2", JSON, whole=False).encoding == JSON_TEXT


def test_a_mark_that_does_not_fit_any_more_is_not_believed() -> None:
    assert show(b"no json", JSON) == ("no json", TEXT, 7)


@pytest.mark.parametrize(
    "given_value",
    [ValueIn("?", BASE64), ValueIn(5, BASE64), ValueIn(5, TEXT), ValueIn("a", "odd"), ValueIn("\ud800")],
)
def test_a_value_that_is_not_what_it_says_is_refused(given_value: ValueIn) -> None:
    with pytest.raises(BadInput):
        pack(given_value)


@pytest.mark.parametrize("key", ["as:k", "out:stdout"])
def test_keys_of_our_own_are_refused(key: str) -> None:
    with pytest.raises(BadInput):
        check_key(key)
