"""How long what is over is kept is the user's to say."""

import pytest

from ganger.assembly.retention import read_retention
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput
from ganger.engine.upkeep import Retention

DAY = 24 * 60 * 60 * 1000


def test_who_says_nothing_keeps_a_week_and_a_gibibyte() -> None:
    assert read_retention(Settings()) == Retention(7 * DAY, 1 << 30)


@pytest.mark.parametrize(
    ("keep", "output", "final", "most"),
    [
        ("12h", "500MiB", DAY // 2, 500 << 20),
        ("30d", "0B", 30 * DAY, 0),
        ("forever", "forever", None, None),
        ("60", "2TiB", 60_000, 2 << 40),
    ],
)
def test_words_become_times_and_sizes(keep: str, output: str, final: int | None, most: int | None) -> None:
    assert read_retention(Settings(keep=keep, keep_output=output)) == Retention(final, most)


@pytest.mark.parametrize("keep", ["", "1s", "seven days", "-1d", "59999ms", "1w", "9" * 30 + "d"])
def test_a_time_that_is_none_is_refused_by_name(keep: str) -> None:
    with pytest.raises(BadInput, match=r"^keep is"):
        read_retention(Settings(keep=keep))


@pytest.mark.parametrize("output", ["", "1", "1GB!", "-1GiB", "9" * 30 + "GiB"])
def test_a_size_that_is_none_is_refused_by_name(output: str) -> None:
    with pytest.raises(BadInput, match=r"^keep_output is"):
        read_retention(Settings(keep_output=output))
