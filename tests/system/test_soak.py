"""For a long time a few tasks at a time, into queues with limits, beside strangers: nothing lies about."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.contract.installation import PLACES
from tests.foreign.shared import Shared
from tests.foreign.soak import FAIR, LONGEST_CLAIMED, Soak
from tests.foreign.yard import PATIENCE
from tests.system.test_strangers_later import LaterYard

SECONDS: Final = float(os.environ.get("GANGER_TEST_SOAK", "20"))
"""The whole figure is 1800, in each place."""
RATE: Final = 12.0
ENOUGH: Final = 150
"""So many tasks two nodes must have run before their shares say anything: with fewer chance alone passes the bound."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 4 * PATIENCE)]


@pytest.fixture(params=PLACES)
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shared]:
    fixture, dialect = request.param
    give: Callable[[], str] = request.getfixturevalue(fixture)
    made = (LaterYard if dialect == "later" else Shared)(give(), tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("stranger", [False, True], ids=["alone", "beside"])
def test_a_trickle_into_queues_with_limits_leaves_nothing_lying(yard: Shared, stranger: bool) -> None:
    names = ("ganger-1", "ganger-2")
    soak = Soak(yard, later=isinstance(yard, LaterYard))
    soak.prepare()
    nodes = [yard.start_node(name, sleep=0.05) for name in names]
    if stranger:
        yard.start_den("stranger")
    yard.until(lambda: yard.base.nodes.count_documents({}) == len(nodes) + stranger)
    found = soak.run(SECONDS, RATE, PATIENCE)
    print(f"\n{found}")

    assert found.claimed <= LONGEST_CLAIMED
    runs = yard.count_runs()
    assert (len(runs), set(runs.values())) == (found.tasks, {1})
    assert [node.poll() for node in nodes] == [None, None]
    if not stranger or not isinstance(yard, LaterYard):
        # Programs of the later dialect look first and take then: between two of them a limit may be passed by one.
        assert found.passed == {}
    check_fairness([found.by_node[name] for name in names])
    assert "ok  leases" in yard.run("doctor")


def check_fairness(counts: list[int]) -> None:
    mean = sum(counts) / len(counts)
    if sum(counts) < ENOUGH:
        return
    assert all(abs(count - mean) <= FAIR * mean for count in counts), counts
