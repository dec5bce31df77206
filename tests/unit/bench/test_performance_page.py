"""The page of performance is what is drawn from the figures that are kept."""

from __future__ import annotations

from bench.chart import draw_chart
from scripts.draw_performance import CHART, PAGE, draw, read_kept


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == draw(read_kept()), "run `make docs`"


def test_the_chart_is_fresh() -> None:
    charts = [draw_chart(run) for run in read_kept() if run.get("panels")]
    assert charts == ([CHART.read_text()] if CHART.exists() else [])


def test_what_is_not_met_is_said() -> None:
    goals = [goal for run in read_kept() for goal in run["goals"]]
    assert draw(read_kept()).count("**not met**") == sum(not goal["met"] for goal in goals)
