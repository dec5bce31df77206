"""Every program among the examples runs."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_an_example_runs(program: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", program], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert program.name != "demo.py" or "Nothing was lost." in ran.stdout
