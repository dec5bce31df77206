"""The tables and the JSON object tell the whole outcome, good or bad."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from bench.goals import Goal, judge
from bench.report import Outcome, describe_outcome, write_json
from bench.rounds import Figure, Taken
from bench.table import format_value, print_outcome


def sample_outcome() -> Outcome:
    taken = {
        "ours": Taken(Figure("ours", "Ganger", "drain", "tasks/s"), (43.0, 43.0, 44.0)),
        "slow": Taken(Figure("slow", "Slow 1.0", "drain", "tasks/s"), (10.0, 10.0, 9.0)),
        "fast": Taken(Figure("fast", "Fast 1.0", "drain", "tasks/s"), (40.0, 41.0, 39.0)),
        "gone": Taken(Figure("gone", "Gone", "drain", "tasks/s"), missing="install it"),
    }
    goals = [Goal(number, "drain", "ours", beside, 4.0) for number, beside in enumerate(("slow", "fast", "gone"), 1)]
    verdicts = [judge(goal, taken) for goal in goals]
    return Outcome("engine", {"cpus": 2}, {"Slow": {"fsync": True}}, tuple(taken.values()), verdicts)


def test_the_object_has_one_row_for_each_goal() -> None:
    described = describe_outcome(sample_outcome())
    assert described["suite"] == "engine"
    assert described["machine"] == {"cpus": 2}
    assert described["settings"] == {"Slow": {"fsync": True}}
    met, unmet, missing = described["goals"]
    assert met == {
        "goal": 1,
        "what": "drain",
        "value": 4.3,
        "want": 4.0,
        "sense": ">=",
        "unit": "ratio",
        "met": True,
        "beside": "Slow 1.0",
        "samples": [
            {"ganger": 43.0, "beside": 10.0},
            {"ganger": 43.0, "beside": 10.0},
            {"ganger": 44.0, "beside": 9.0},
        ],
        "missing": None,
    }
    assert (unmet["met"], unmet["value"]) == (False, 43.0 / 40.0)
    assert (missing["met"], missing["value"], missing["missing"]) == (False, None, "install it")


def test_the_object_is_written_to_a_file_or_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = sample_outcome()
    write_json(outcome, str(tmp_path / "out.json"))
    write_json(outcome, "-")
    assert json.loads((tmp_path / "out.json").read_text()) == describe_outcome(outcome)
    assert json.loads(capsys.readouterr().out) == describe_outcome(outcome)


def test_the_tables_are_plain_away_from_a_terminal_and_hide_no_verdict() -> None:
    file = io.StringIO()
    print_outcome(sample_outcome(), file)
    text = file.getvalue()
    assert "\x1b" not in text
    rows = {line.split()[2]: line.rstrip() for line in text.splitlines() if line.split()[1:2] == ["drain"]}
    assert rows["Slow"].endswith("met")
    assert rows["Fast"].endswith("NOT MET")
    assert rows["Gone"].endswith("NOT MEASURED")
    assert "not measured: install it" in text
    assert "fsync=True" in text


@pytest.mark.parametrize(
    ("value", "text"), [(12991.4, "12,991"), (4.3, "4.30"), (0.4, "0.400"), (0.00123, "0.001230"), (0.0, "0.000000")]
)
def test_values_are_written_without_exponents(value: float, text: str) -> None:
    assert format_value(value) == text
