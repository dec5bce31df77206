"""What runs outlives a minute without the database server, wherever in its rhythm the node was when that went away."""

import pytest

from ganger.assembly.node import PATIENT_LEASE, _choose_lease
from ganger.assembly.settings import Settings
from ganger.core.clock import Moment
from ganger.core.lease import trusted_until
from ganger.core.node import DEFAULT_LEASE
from ganger.node.beating import BEATS, LONGEST

MINUTE = 60_000
SHARE = 6
"""A beat that found nobody is tried again after a sixth of the lease at the latest."""


def test_a_lease_is_trusted_for_more_than_a_minute_after_the_last_beat_and_the_last_try() -> None:
    asked = Moment(0)
    away = asked + min(PATIENT_LEASE // BEATS, round(LONGEST * 1000))
    tried = PATIENT_LEASE // SHARE
    assert trusted_until(asked, PATIENT_LEASE) - away - tried > MINUTE


@pytest.mark.parametrize(
    ("store", "asked", "lease"),
    [
        ("postgresql://db/tasks", DEFAULT_LEASE, PATIENT_LEASE),
        ("postgres://db/tasks", DEFAULT_LEASE, PATIENT_LEASE),
        ("postgresql://db/tasks", 5_000, 5_000),
        ("sqlite:tasks.db", DEFAULT_LEASE, DEFAULT_LEASE),
        ("mongodb://db/tasks", DEFAULT_LEASE, DEFAULT_LEASE),
    ],
)
def test_only_a_node_on_postgresql_that_asks_for_none_is_given_it(store: str, asked: int, lease: int) -> None:
    assert _choose_lease(Settings(store=store), asked) == lease
