"""A payload that is larger than the server's memory may be: through it, and never in it."""

import os
from pathlib import Path

import pytest

from bench.jobs.large import carry

SIZE = int(os.environ.get("GANGER_TEST_PAYLOAD", str(256 << 20)))
"""How many bytes the large job has; 2 GiB and more where there is time and room for it."""

GROWTH = 64.0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_large_payload_goes_to_a_worker_and_its_result_comes_back_with_bounded_memory(tmp_path: Path) -> None:
    _, grown = carry(tmp_path, size=SIZE, check=True)
    assert grown < GROWTH
