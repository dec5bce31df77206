"""The figures of a run as dots on logarithmic scales, in an SVG that is readable on light and on dark pages.

A dot is a median; of a latency the line runs from p50 to p99. Bars would say nothing here: on a logarithmic scale
their length depends on where the axis begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

_COLUMN = 480
_LABEL = 190
_PLOT = 210
_ROW = 21
_TITLE = 46
_FOOT = 34
_LEGEND = 44
_EDGE = 16

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.back { fill: #ffffff; } .title { font-weight: 600; font-size: 13px; } .faint { fill: #6e7781; font-size: 11px; }
.grid { stroke: #d8dee4; } .ours { fill: #c2410c; stroke: #c2410c; } .kept { fill: #475569; stroke: #475569; }
.lost { fill: #ffffff; stroke: #475569; } .dot { stroke-width: 1.8; } .span { stroke-width: 2.4; stroke-opacity: 0.45; }
text.ours { stroke: none; font-weight: 700; }
text.value { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .back { fill: #0d1117; } .faint { fill: #9198a1; } .grid { stroke: #30363d; }
.ours { fill: #fb923c; stroke: #fb923c; } .kept { fill: #a8b3c2; stroke: #a8b3c2; }
.lost { fill: #0d1117; stroke: #a8b3c2; } text.ours { fill: #fb923c; } text.value { stroke: #0d1117; }
}
"""


@dataclass(frozen=True, slots=True)
class Dot:
    who: str
    look: str
    value: float
    upper: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Decades that hold all values, laid over the width of a plot."""

    low: int
    high: int

    def place(self, value: float) -> float:
        return _LABEL + _PLOT * (math.log10(value) - self.low) / (self.high - self.low)


def draw_chart(described: Mapping[str, Any]) -> str:
    """The whole picture of a run, as the JSON object describes it; panels without a figure are left out."""
    figures = {figure["key"]: figure for figure in described["figures"]}
    panels = [(panel, dots) for panel in described.get("panels", ()) if (dots := _find_dots(panel, figures))]
    columns = _arrange([_height(dots) for _, dots in panels])
    height = _LEGEND + max(
        (top + _height(dots) for (_, top), (_, dots) in zip(columns, panels, strict=True)), default=0
    )
    width = 2 * _COLUMN + _EDGE
    parts = [_draw_legend()]
    for (panel, dots), (column, top) in zip(panels, columns, strict=True):
        body = "".join(_draw_panel(panel, dots, figures[panel["keys"][0]]["unit"]))
        parts.append(f'<g transform="translate({_EDGE + column * _COLUMN} {_LEGEND + top})">{body}</g>')
    return _frame(width, height, "\n".join(parts))


def _find_dots(panel: Mapping[str, Any], figures: Mapping[str, Any]) -> list[Dot]:
    """The best first."""
    rows = [figures[key] for key in panel["keys"] if key in figures and figures[key]["median"]]
    dots = [Dot(row["who"], _choose_look(row), row["median"], _find_upper(row, panel, figures)) for row in rows]
    return sorted(dots, key=lambda dot: dot.value, reverse=panel["better"] == "more")


def _choose_look(figure: Mapping[str, Any]) -> str:
    if figure["key"].startswith("ganger."):
        return "ours"
    return "kept" if figure["durable"] else "lost"


def _find_upper(figure: Mapping[str, Any], panel: Mapping[str, Any], figures: Mapping[str, Any]) -> float:
    upper = figures.get(panel["upper"].get(figure["key"]))
    return float(figure["median"] if upper is None or not upper["median"] else upper["median"])


def _height(dots: Sequence[Dot]) -> int:
    return _TITLE + _ROW * len(dots) + _FOOT


def _arrange(heights: Sequence[int]) -> list[tuple[int, int]]:
    """Each panel into the column that is shorter so far: its column and its top."""
    filled, places = [0, 0], []
    for height in heights:
        column = 0 if filled[0] <= filled[1] else 1
        places.append((column, filled[column]))
        filled[column] += height
    return places


def _frame(width: int, height: int, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="Ganger beside its peers">\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>\n{body}\n</svg>\n'
    )


def _draw_legend() -> str:
    entries = (("ours", "Ganger, on disk before it is acknowledged"), ("kept", "a peer that is, too"))
    last = ("lost", "a peer that is not")
    x, parts = _EDGE + 8, []
    for look, text in (*entries, last):
        parts.append(f'<circle class="dot {look}" cx="{x}" cy="24" r="5"/><text x="{x + 12}" y="28">{text}</text>')
        x += 40 + 7 * len(text)
    return "".join(parts)


def _draw_panel(panel: Mapping[str, Any], dots: Sequence[Dot], unit: str) -> Iterator[str]:
    scale = _choose_scale(dots)
    bottom = _TITLE + _ROW * len(dots)
    yield f'<text class="title" x="0" y="16">{escape(panel["title"])}</text>'
    yield f'<text class="faint" x="0" y="32">{escape(unit)}, {panel["better"]} is better</text>'
    for decade in range(scale.low, scale.high + 1):
        x = scale.place(10.0**decade)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TITLE - 6}" y2="{bottom}"/>'
        yield f'<text class="faint" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{_say(10.0**decade)}</text>'
    for number, dot in enumerate(dots):
        yield from _draw_dot(dot, scale, _TITLE + _ROW * number + _ROW // 2 - 3)


def _choose_scale(dots: Sequence[Dot]) -> Scale:
    low = math.floor(math.log10(min(dot.value for dot in dots)))
    high = math.ceil(math.log10(max(dot.upper for dot in dots)))
    return Scale(low, max(high, low + 1))


def _draw_dot(dot: Dot, scale: Scale, y: int) -> Iterator[str]:
    x, end = scale.place(dot.value), scale.place(dot.upper)
    text = "ours" if dot.look == "ours" else ""
    yield f'<text class="{text}" x="{_LABEL - 14}" y="{y + 4}" text-anchor="end">{escape(dot.who)}</text>'
    said = _say(dot.value)
    if dot.upper != dot.value:
        yield f'<line class="span {dot.look}" x1="{x:.1f}" x2="{end:.1f}" y1="{y}" y2="{y}"/>'
        said = f"{said} / {_say(dot.upper)}"
    yield f'<circle class="dot {dot.look}" cx="{x:.1f}" cy="{y}" r="4.5"/>'
    yield f'<text class="value {text}" x="{end + 9:.1f}" y="{y + 4}">{said}</text>'


def _say(value: float) -> str:
    """Three digits, and never an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
