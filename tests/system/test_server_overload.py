"""A server that is asked for more than it can do: it refuses quickly, and goes on with what it can do.

The requests have many nodes each, so that what is too much is the work and not the reading of it.
"""

import os
from pathlib import Path

import pytest

from tests.system.harness_server import serving

SECONDS = float(os.environ.get("GANGER_TEST_OVERLOAD", "4"))
NODES = 100
PEAK_SECONDS = 2.0
CROWD = 2_000


@pytest.mark.slow
@pytest.mark.timeout(120 + 4 * SECONDS)
def test_three_times_too_much_is_refused_within_50_milliseconds_and_goodput_stays_at_80_percent(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.flood(nodes=NODES, connections=32, seconds=1.0)
        peak = server.flood(nodes=NODES, connections=32, seconds=PEAK_SECONDS)["answers"]["201"] / PEAK_SECONDS
        told = server.flood(nodes=NODES, connections=CROWD, seconds=SECONDS, rate=3 * peak)
        print(f"peak {peak:.0f} requests/s; at three times that {told}")
        assert set(told["answers"]) == {"201", "429"}
        assert told["p99"]["429"] <= 50.0
        assert told["answers"]["201"] / SECONDS >= 0.8 * peak
        assert server.flood(seconds=0.5)["answers"].keys() == {"201"}
