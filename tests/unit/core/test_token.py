"""A token speaks for one attempt, and only whoever has the key can make one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import NotAuthenticated
from ganger.core.ids import Fence, TaskId
from ganger.core.token import KEY_BYTES, make_token, read_token

KEY = bytes(range(KEY_BYTES))
NUMBERS = st.integers(1, (1 << 63) - 1)


@given(NUMBERS, NUMBERS)
def test_a_token_gives_back_what_it_was_made_for(task: int, fence: int) -> None:
    token = make_token(KEY, TaskId(task), Fence(fence))

    assert read_token(KEY, token).lease[:2] == (task, fence)
    assert token.isascii()
    assert " " not in token


def test_a_token_of_another_key_is_refused() -> None:
    with pytest.raises(NotAuthenticated):
        read_token(KEY, make_token(KEY[::-1], TaskId(22), Fence(3)))


@given(st.integers(0, 200), st.characters())
def test_a_token_with_another_letter_is_refused(place: int, letter: str) -> None:
    token = make_token(KEY, TaskId(22), Fence(3))
    changed = token[: place % len(token)] + letter + token[place % len(token) + 1 :]

    if changed != token:
        with pytest.raises(NotAuthenticated):
            read_token(KEY, changed)


@given(st.text(max_size=200))
def test_whatever_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(NotAuthenticated):
        read_token(KEY, text)
