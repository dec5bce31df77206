"""What `ganger up` makes of its flags and of the settings."""

from typing import Any

import pytest

from ganger.assembly.settings import Settings
from ganger.cli.up import make_options
from ganger.core.errors import BadInput

GIVEN: dict[str, Any] = {
    "name": "here", "slots": 1, "queues": (), "ignore": (), "labels": (), "kinds": (),
    "grace": None, "handover": None, "lease": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "setting", "lease"), [(None, "", None), (None, "90s", 90_000), (5_000, "90s", 5_000), (5_000, "", 5_000)]
)
def test_a_flag_comes_before_the_setting_and_nothing_leaves_it_to_the_store(
    flag: int | None, setting: str, lease: int | None
) -> None:
    assert make_options({**GIVEN, "lease": flag}, Settings(lease=setting)).lease == lease


def test_a_setting_that_is_no_time_is_named() -> None:
    with pytest.raises(BadInput, match="lease"):
        make_options(GIVEN, Settings(lease="soon"))
