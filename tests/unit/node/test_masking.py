"""No secret is ever shown, wherever the borders of pieces fall, and nothing else is changed or held up."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.node.masking import MASK, Masker, mask, mask_text


def feed(secrets: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    masker = Masker(secrets)
    return b"".join([*map(masker.feed, pieces), masker.finish()])


@pytest.mark.parametrize("cut", range(len(b"say hunter2 now") + 1))
def test_a_secret_is_masked_wherever_a_piece_ends(cut: int) -> None:
    text = b"say hunter2 now"
    assert feed([b"hunter2"], [text[:cut], text[cut:]]) == b"say *** now"


def test_only_what_may_be_the_beginning_of_a_secret_is_held_back() -> None:
    masker = Masker([b"hunter2"])
    assert masker.feed(b"a line\n") == b"a line\n"
    assert masker.feed(b"a hunt") == b"a "
    assert masker.feed(b"ing dog") == b"hunting dog"
    assert masker.feed(b"hunter") == b""
    assert masker.finish() == b"hunter"


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    assert mask(b"-xyabcd-", [b"xyab", b"abcd"]) == b"-***-"
    assert feed([b"xyab", b"abcd"], [b"-xya", b"bc", b"d-"]) == b"-***-"
    assert mask(b"-abcdef-abcd-", [b"abcd", b"abcdef"]) == b"-***-***-"
    assert feed([b"abcd", b"abcdef"], [b"abcd", b"ef"]) == MASK
    assert feed([b"abcd", b"abcdef"], [b"abcd", b"x"]) == b"***x"


def test_a_secret_that_repeats_itself_holds_back_no_more_than_its_length() -> None:
    masker = Masker([b"aaaa"])
    shown = b"".join(masker.feed(b"a" * 7) for _ in range(100)) + masker.finish()
    assert shown == MASK


def test_bytes_that_are_no_text_and_no_secret_at_all_pass() -> None:
    assert mask(bytes(range(256)), [b"hunter2"]) == bytes(range(256))
    assert mask(b"all of it", []) == b"all of it"
    assert mask(b"x", [b""]) == b"x"
    assert mask_text("grüße hunter2", [b"hunter2"]) == "grüße ***"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("ab", min_size=2, max_size=5), min_size=1, max_size=3),
    st.text("abc", max_size=40),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_pieces_give_what_the_whole_gives_and_no_secret_is_left(words: list[str], text: str, cuts: list[int]) -> None:
    secrets, data = [word.encode() for word in words], text.encode()
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:stop] for start, stop in pairwise(borders)]
    shown = feed(secrets, pieces)
    assert shown == mask(data, secrets) == brute(data, secrets)
    assert not any(secret in shown for secret in secrets)


def brute(data: bytes, secrets: Sequence[bytes]) -> bytes:
    """Byte by byte: whatever any match covers is one mask for each run of matches that overlap."""
    spans = sorted({(at, at + len(s)) for s in secrets for at in range(len(data)) if data.startswith(s, at)})
    shown, at = b"", 0
    for start, stop in spans:
        if start >= at or not shown.endswith(MASK):
            shown += data[at:start] + MASK
        at = max(at, stop)
    return shown + data[at:]
