"""Durations and sizes as people write them."""

import pytest

from ganger.core.errors import BadInput
from ganger.core.units import read_duration, read_size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250ms", 250), ("90s", 90_000), ("5m", 300_000), ("1.5h", 5_400_000), ("2d", 172_800_000), ("0.5", 500)],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, milliseconds: int) -> None:
    assert read_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("2m30s", 150_000), ("1s500ms", 1_500), ("1d2h3m4s5ms", 93_784_005)]
)
def test_a_duration_may_have_several_parts(text: str, milliseconds: int) -> None:
    assert read_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1 s", "1S", "1w", "1e3", ".5s", "1.s", "٣s", "2m30", "1s\n", "1" * 16, "9" * 15 + "d", "1s" * 6],
)
def test_what_is_no_duration_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(BadInput, match=r"is not a duration; write 250ms, 90s,"):
        read_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0B", 0), ("812B", 812), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("2TB", 2 * 10**12), ("2TiB", 2 << 40)],
)
def test_a_size_has_a_unit(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "12", "MB", "-1MB", "1PB", "1mb", "1KB", "1kiB", "٣MB", "1" * 16 + "B", "9" * 15 + "TiB"]
)
def test_what_is_no_size_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(BadInput, match=r"is not a size; write 812B, 500MB,"):
        read_size(text)
