"""The outcome of a run as tables: in colour on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.goals import Verdict
from bench.report import Outcome
from bench.rounds import Taken

_PLAIN_WIDTH = 180


def print_outcome(outcome: Outcome, file: TextIO) -> None:
    console = Console(file=file, width=None if file.isatty() else _PLAIN_WIDTH, highlight=False)
    console.print(_describe("machine", list(outcome.machine.items())))
    for name, settings in outcome.settings.items():
        console.print(_describe(name, list(settings.items())))
    console.print(_tabulate_figures(outcome.figures))
    console.print(_tabulate_goals(outcome.verdicts))
    for reason in outcome.missing:
        console.print(Text(f"not measured: {reason}"))


def _describe(name: str, pairs: Sequence[tuple[str, object]]) -> Text:
    return Text(f"{name}: " + ", ".join(f"{key}={value}" for key, value in pairs))


def _tabulate_figures(figures: Sequence[Taken]) -> Table:
    table = Table("what", "who", box=None, title="figures (medians)", title_justify="left")
    for column in ("median", "least", "most"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    for taken in figures:
        table.add_row(taken.figure.what, taken.figure.who, *_summarise(taken), taken.figure.unit)
    return table


def _summarise(taken: Taken) -> tuple[str, str, str]:
    if not taken.samples:
        return "not measured", "", ""
    return format_value(taken.median), format_value(min(taken.samples)), format_value(max(taken.samples))


def _tabulate_goals(verdicts: Sequence[Verdict]) -> Table:
    table = Table("goal", "what", "beside", box=None, title="goals", title_justify="left")
    table.add_column("value", justify="right")
    table.add_column("want", justify="right")
    table.add_column("unit")
    table.add_column("verdict")
    for verdict in verdicts:
        goal = verdict.goal
        value = "-" if verdict.value is None else format_value(verdict.value)
        want = f"{goal.sense.value} {format_value(goal.want)}"
        table.add_row(str(goal.number), goal.what, verdict.beside, value, want, goal.unit, say_verdict(verdict))
    return table


def say_verdict(verdict: Verdict) -> Text:
    if verdict.value is None:
        return Text("NOT MEASURED", style="yellow")
    return Text("met", style="green") if verdict.met else Text("NOT MET", style="bold red")


def format_value(value: float) -> str:
    """Three significant digits or more, never in exponents."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.6f}" if value < 0.01 else f"{value:.3f}"
