"""How values are read and told."""

import click
import pytest

from ganger.cli.printing import clean, cut, measure
from ganger.cli.words import (
    read_duration,
    read_id,
    read_size,
    say_bytes,
    say_duration,
    say_length,
    say_status,
    say_time,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("90", 90_000), ("250ms", 250), ("1.5h", 5_400_000), ("2d", 172_800_000), ("0", 0)]
)
def test_a_duration_is_read(text: str, milliseconds: int) -> None:
    assert read_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "-1", "1w", "1e3", "٣s", "1" * 16])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        read_duration(text)


@pytest.mark.parametrize("milliseconds", [0, 250, 1_500, 150_000, 93_784_005])
def test_a_duration_is_read_as_it_is_told(milliseconds: int) -> None:
    assert read_duration(say_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "٣", str(1 << 63)])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        read_id(text)


@pytest.mark.parametrize(("text", "size"), [("812B", 812), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("1kB", 1000)])
def test_a_size_is_read(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "0B", "12", "-1MB", "1PB", "٣MB", "1" * 16 + "B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        read_size(text)


def test_values_are_told_in_few_characters() -> None:
    assert [say_length(n) for n in (-5, 850, 42_000, 190_000, 18_000_000, 10**9)] == [
        "0ms", "850ms", "42s", "3m", "5h", "11d",
    ]  # fmt: skip
    assert [say_status(code) for code in (-2, 1, 2, 77, -99)] == [
        "queued", "succeeded", "failed", "failed(77)", "unknown(-99)",
    ]  # fmt: skip
    assert [say_bytes(n) for n in (12, 3_400_000, 10**15)] == ["12 B", "3.4 MB", "1000.0 TB"]
    assert (say_time(None), say_time(1 << 62)) == ("", "never")


def test_a_text_is_cut_by_the_columns_that_it_takes() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("日本語", 5) == "日本…"
    assert measure(cut("日本語", 4)) <= 4
    assert clean("a\tb\x1b[1m") == "a b [1m"
