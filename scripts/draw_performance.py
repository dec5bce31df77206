"""Writes docs/explanation/performance.md out of a run of the benchmark: `python -m scripts.draw_performance FILE`."""

import json
import sys
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "performance.md"

_HEAD: Final = """# Performance

Every figure on this page was measured by `make bench ARGS="engine --json FILE"` and written here by
`python -m scripts.draw_performance FILE`. Rounds alternate between Ganger and the peer, each load in a fresh process
and folder; a figure is the median. Absolute numbers move by a fifth and more between runs and machines, so what counts
is the ratio to the peer in the same run.

*Durable* means: on disk before it was acknowledged. Ganger, Huey with `fsync`, PgQueuer on PostgreSQL with
`synchronous_commit` and raw SQLite with `synchronous=FULL` all are.
"""

_TAIL: Final = """
## What makes it fast

- Settling the last batch and claiming the next is one step, and so one commit.
- Everything that waits at a moment shares one synced commit, whichever process it comes from.
- The ready index holds ready tasks only; a full concurrency key or an avoided holder is not walked over.
- Moves that are alike are one statement; an event is one row for its whole batch.
- A task that is plain but for its edges is stored in a stream, and edges of many parents are followed in one walk.

## What it costs

- A single submit waits for one sync of the disk. Many at once share it.
- The owner of the file does the work of all its clients on one core.
"""


def draw(measured: dict[str, Any]) -> str:
    """The whole page."""
    machine = ", ".join(f"{name}: {value}" for name, value in measured["machine"].items())
    goals = ["| goal | what | beside | measured | wanted | |", "|---|---|---|---|---|---|"]
    figures = ["| what | who | median | samples | unit |", "|---|---|---|---|---|"]
    goals += [_goal(goal) for goal in measured["goals"]]
    figures += [_figure(figure) for figure in measured["figures"]]
    parts = [_HEAD, f"Machine: {machine}.", "", "## Goals", "", *goals, "", "## Figures", "", *figures, _TAIL]
    return "\n".join(parts)


def _goal(goal: dict[str, Any]) -> str:
    value = "not measured" if goal["value"] is None else f"{goal['value']:.3g} {goal['unit']}"
    wanted = f"{'at most' if goal['sense'] == '<=' else 'at least'} {goal['want']:g}"
    met = "met" if goal["met"] else "**not met**"
    return f"| {goal['goal']} | {goal['what']} | {goal['beside']} | {value} | {wanted} | {met} |"


def _figure(figure: dict[str, Any]) -> str:
    samples = ", ".join(_short(sample) for sample in figure["samples"])
    median = "not measured" if figure["median"] is None else _short(figure["median"])
    return f"| {figure['what']} | {figure['who']} | {median} | {samples} | {figure['unit']} |"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    PAGE.write_text(draw(json.loads(Path(sys.argv[1]).read_text())))
