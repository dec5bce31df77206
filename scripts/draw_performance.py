"""Writes docs/explanation/performance.md and its chart out of runs of the benchmark.

`python -m scripts.draw_performance FILE...` takes the JSON of `make bench` and keeps it, small, in
docs/explanation/figures, one file for each suite; then, or without a FILE, it draws the page from what is kept there.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.chart import draw_chart

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "explanation"
PAGE: Final = FOLDER / "performance.md"
CHART: Final = FOLDER / "peers.svg"
FIGURES: Final = FOLDER / "figures"

_HEAD: Final = """# Performance

Every figure on this page was measured by `make bench` and written here by `python -m scripts.draw_performance`. Rounds
alternate between Ganger and the peers, each load in fresh processes and a fresh folder; a figure is the median.
Absolute numbers move by a fifth and more between runs and machines, so what counts is the ratio to the peer in the same
run. [How to measure](../how-to/benchmarks.md) says how to run it yourself, and what is measured.

*Durable* means: on disk before it was acknowledged. Ganger, Huey with `fsync`, PgQueuer and Procrastinate on PostgreSQL
with `synchronous_commit`, and raw SQLite with `synchronous=FULL` all are. What stands on Redis here is not.
"""

_TITLES: Final = {
    "peers": ("Whole systems, side by side", 'Each with its own worker process, by `make bench ARGS="peers"`.'),
    "real": (
        "Real work",
        'Tasks that take a while, on two nodes and in bursts, by `make bench ARGS="real"`.',
    ),
    "engine": ("The engine alone", 'A no-op worker in the process, by `make bench ARGS="engine"`.'),
    "jobs": (
        "Jobs through websocket workers",
        'One server, eight workers with one job at a time, a kilobyte each way, by `make bench ARGS="jobs"`.',
    ),
    "http": ("Over HTTP", 'One server, 32 connections, one request on each at a time, by `make bench ARGS="http"`.'),
}

_QUICK: Final = """
These are from a run with `--quick`: small sizes, on a machine that had other work. A look, not figures to publish.
"""

_TAIL: Final = """
## What makes it fast

- Settling the last batch and claiming the next is one step, and so one commit; on PostgreSQL it is one round trip too.
- Everything that waits at a moment shares one synced commit, whichever process it comes from.
- A task that cannot be refused is safe in a [bag](../decisions/0048-a-submission-may-be-a-letter.md) of the process
  that submits it, and needs no answer; a claim that waits is made
  [by the commit that brings the task](../decisions/0052-a-claim-may-be-left-with-the-store.md), and its function is
  [held by a warm process](../decisions/0060-a-task-is-begun-past-the-loop.md) that needs but a word when that is over.
- What can be done while the disk is at work is done then: websocket workers are
  [asked for their next job](../decisions/0061-a-worker-is-asked-while-the-disk-is-at-work.md).
- The ready index holds ready tasks only; a full concurrency key or an avoided holder is not walked over.
- Moves that are alike are one statement; an event is one row for its whole batch. Holders that end a task and take the
  next at the same moment are [served as one](../decisions/0047-exchanges-of-one-moment-are-run-as-one.md).
- A process of functions tells what ended in lots, some milliseconds apart, and most of it by a number alone: each
  telling would wake the node, and take the interpreter from the thread of its store.
- Tasks that differ only in their specs are
  [stored by one statement](../decisions/0054-many-rows-go-by-one-statement.md), and edges of many parents are followed
  in one walk.

## What it costs

- A single submit waits for one sync of the disk. Many at once share it.
- The owner of the file does the work of all its clients on one core.
"""

Measured = Mapping[str, Any]


def keep(measured: Measured) -> None:
    """Keep a run for the page: its samples once, and four digits of each."""
    goals = [{name: value for name, value in goal.items() if name != "samples"} for goal in measured["goals"]]
    FIGURES.mkdir(exist_ok=True)
    text = json.dumps(_shorten({**measured, "goals": goals}), indent=1)
    (FIGURES / f"{measured['suite']}.json").write_text(text + "\n")


def _shorten(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _shorten(part) for name, part in value.items()}
    return [_shorten(part) for part in value] if isinstance(value, list) else value


def read_kept() -> list[Measured]:
    """The runs that are kept, in the order of the page."""
    files = [FIGURES / f"{suite}.json" for suite in _TITLES]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def draw(runs: list[Measured]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for run in runs for line in _draw_run(run)), _TAIL.lstrip("\n")])


def _draw_run(run: Measured) -> Iterator[str]:
    title, sentence = _TITLES[run["suite"]]
    machine = ", ".join(f"{name}: {value}" for name, value in run["machine"].items())
    yield from (f"## {title}", "", f"{sentence} Machine: {machine}.")
    yield _QUICK if run.get("quick") else ""
    yield f"\n{run['remark']}\n" if run.get("remark") else ""
    if run.get("panels"):
        yield from (f"![Ganger beside its peers, as dots on logarithmic scales]({CHART.name})", "")
    yield from ("| goal | what | beside | measured | wanted | |", "|---|---|---|---|---|---|")
    yield from (_goal(goal) for goal in run["goals"])
    yield from ("", "| what | who | median | samples | unit |", "|---|---|---|---|---|")
    yield from (_figure(figure) for figure in run["figures"])
    yield from ("", "How each was set up:", "", *_settings(run["settings"]), "")


def _goal(goal: Measured) -> str:
    value = "not measured" if goal["value"] is None else f"{goal['value']:.3g} {goal['unit']}"
    wanted = f"{'at most' if goal['sense'] == '<=' else 'at least'} {goal['want']:g}"
    met = "met" if goal["met"] else "**not met**"
    return f"| {goal['goal']} | {goal['what']} | {goal['beside']} | {value} | {wanted} | {met} |"


def _figure(figure: Measured) -> str:
    samples = ", ".join(_short(sample) for sample in figure["samples"])
    median = "not measured" if figure["median"] is None else _short(figure["median"])
    return f"| {figure['what']} | {figure['who']} | {median} | {samples} | {figure['unit']} |"


def _settings(settings: Measured) -> Iterator[str]:
    for name, pairs in settings.items():
        yield f"- {name}: " + ", ".join(f"`{key}={value}`" for key, value in pairs.items())


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(files: list[str]) -> None:
    for file in files:
        keep(json.loads(Path(file).read_text()))
    runs = read_kept()
    PAGE.write_text(draw(runs))
    for run in runs:
        if run.get("panels"):
            CHART.write_text(draw_chart(run))


if __name__ == "__main__":
    main(sys.argv[1:])
