"""What runs outlives a minute without the server that has the tasks, wherever in its rhythm the node was then."""

import asyncio
from pathlib import Path

import pytest

from ganger.assembly.node import open_node
from ganger.assembly.settings import Settings
from ganger.assembly.source import choose_lease
from ganger.core.clock import Moment
from ganger.core.lease import trusted_until
from ganger.core.node import DEFAULT_LEASE, PATIENT_LEASE
from ganger.engine.store import Capabilities
from ganger.node.beating import BEATS, LONGEST
from ganger.node.options import NodeOptions

MINUTE = 60_000
SHARE = 6
"""A beat that found nobody is tried again after a sixth of the lease at the latest."""


def test_a_lease_is_trusted_for_more_than_a_minute_after_the_last_beat_and_the_last_try() -> None:
    asked = Moment(0)
    away = asked + min(PATIENT_LEASE // BEATS, round(LONGEST * 1000))
    tried = PATIENT_LEASE // SHARE
    assert trusted_until(asked, PATIENT_LEASE) - away - tried > MINUTE


@pytest.mark.parametrize(
    ("distant", "asked", "lease"),
    [
        (True, None, PATIENT_LEASE),
        (True, 5_000, 5_000),
        (True, DEFAULT_LEASE, DEFAULT_LEASE),
        (False, None, DEFAULT_LEASE),
        (False, 5_000, 5_000),
    ],
)
def test_only_a_node_on_a_distant_store_that_asks_for_none_is_given_it(
    distant: bool, asked: int | None, lease: int
) -> None:
    assert choose_lease(Capabilities(durable=True, shared=True, distant=distant), asked) == lease


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "lease"),
    [(None, DEFAULT_LEASE), ("postgres_url", PATIENT_LEASE), ("mongo_url", PATIENT_LEASE)],
    ids=["sqlite", "postgres", "mongo"],
)
def test_a_node_registers_with_the_lease_that_fits_its_store(
    server: str | None, lease: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = "sqlite:tasks.db" if server is None else request.getfixturevalue(server)()

    async def story() -> list[int]:
        async with open_node(Settings(store=store), NodeOptions("here", kinds=("command",))) as opened:
            return [node.lease for node in await opened.engine.nodes.all()]

    assert asyncio.run(story()) == [lease]
