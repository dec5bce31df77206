"""The chart is an SVG of its own that hides nobody."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from bench.chart import Scale, draw_chart


def figure_of(key: str, median: float | None, *, durable: bool = True) -> dict[str, Any]:
    return {"key": key, "who": f"{key} & co", "median": median, "unit": "ms", "durable": durable}


def described() -> dict[str, Any]:
    figures = [
        figure_of("ganger.p50", 2.0),
        figure_of("ganger.p99", 4.0),
        figure_of("quick.p50", 0.5, durable=False),
        figure_of("gone.p50", None),
    ]
    keys = ("ganger.p50", "quick.p50", "gone.p50")
    panel = {"title": "latency", "better": "less", "keys": keys, "upper": {"ganger.p50": "ganger.p99"}}
    return {"figures": figures, "panels": [panel]}


def texts_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_every_measured_figure_is_drawn_the_best_first() -> None:
    texts = texts_of(draw_chart(described()))
    assert texts.index("quick.p50 & co") < texts.index("ganger.p50 & co")
    assert "gone.p50 & co" not in texts
    assert "2 / 4" in texts


def test_ours_and_what_is_not_durable_look_different() -> None:
    svg = draw_chart(described())
    assert 'class="dot ours"' in svg
    assert 'class="dot lost"' in svg


def test_the_chart_has_colours_for_dark_pages() -> None:
    assert "prefers-color-scheme: dark" in draw_chart(described())


def test_a_run_without_figures_is_an_empty_chart() -> None:
    assert ElementTree.fromstring(draw_chart({"figures": [], "panels": []})).tag.endswith("svg")


def test_a_decade_is_as_wide_as_the_next() -> None:
    scale = Scale(0, 3)
    first, second, third = (scale.place(10.0**decade) for decade in (0, 1, 2))
    assert second - first == pytest.approx(third - second)
