"""The command line refuses what would not be a median, and leaves nothing out silently."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import leave_out, main, run_suite
from bench.rounds import Figure, Load
from bench.suites.suite import Suite
from bench.work import Work


def test_less_than_three_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["engine", "--rounds", "2"])
    assert left.value.code == 2
    assert "at least 3 rounds" in capsys.readouterr().err


@pytest.mark.slow
def test_help_names_the_suites() -> None:
    root = Path(__file__).parents[3]
    shown = subprocess.run(
        [sys.executable, "-m", "bench", "--help"], cwd=root, capture_output=True, text=True, check=True, timeout=90
    )
    assert "engine" in shown.stdout
    assert "peers" in shown.stdout
    assert "--json" in shown.stdout


def test_a_load_left_out_says_so() -> None:
    load = Load((Figure("huey.drain", "Huey", "drain", "tasks/s"),), Work("x:y"))
    assert leave_out(load, None) is load
    assert leave_out(load, "huey") is load
    assert leave_out(load, "ganger").missing == "left out by --only ganger"


@pytest.mark.slow
def test_a_suite_is_run_from_rounds_to_outcome(tmp_path: Path) -> None:
    raw = Work("bench.peers.raw_sqlite:absent")
    suite = Suite("engine", {}, (Load((Figure("raw", "raw", "rows", "tasks/s"),), raw),), ())
    outcome = run_suite(suite, tmp_path, 3, None)
    assert outcome.missing == (outcome.figures[0].missing,)
    assert "has no attribute 'absent'" in outcome.missing[0]
