"""What the tests themselves stand on: a yardstick for a busy machine, and a word for a test that takes too long."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.yardstick import QUIET, ROOT, measuring, rate

ENDLESS = """
import time
import pytest
from hypothesis import given
from hypothesis import strategies as st

@pytest.mark.timeout(1)
@given(st.integers())
def test_that_takes_long(number):
    time.sleep(0.1)
"""


@pytest.mark.parametrize(("piece", "factor"), [(0.0, 1.0), (QUIET, 1.0), (3 * QUIET, 3.0)])
def test_a_machine_is_as_slow_as_what_it_does_and_never_faster_than_a_quiet_one(piece: float, factor: float) -> None:
    assert rate([piece] * 50) == pytest.approx(factor)


def test_the_slowest_tenth_counts() -> None:
    assert rate([QUIET] * 45 + [4 * QUIET] * 5) == pytest.approx(4.0)


def test_the_machine_is_measured_while_something_is_done(tmp_path: Path) -> None:
    with measuring(tmp_path) as slowness:
        pass

    assert slowness.factor >= 1
    assert list(tmp_path.iterdir()) == []


def test_a_property_that_takes_too_long_is_not_said_to_be_flaky(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    words = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip

    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr
    assert "OutOfTime: Timeout (>1.0s)" in ran.stdout
    assert "Flaky" not in ran.stdout
