"""The command line of the benchmarks: run a suite, print its tables, write its figures."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from bench.chart import draw_chart
from bench.goals import judge
from bench.machine import describe_machine, has_no_disk
from bench.report import Outcome, describe_outcome, write_json
from bench.rounds import Load, derive, take_rounds
from bench.suites.commands import open_commands_suite
from bench.suites.databases import open_databases_suite
from bench.suites.engine import open_engine_suite
from bench.suites.http import open_http_suite
from bench.suites.jobs import open_jobs_suite
from bench.suites.peers import open_peers_suite
from bench.suites.real import open_real_suite
from bench.suites.suite import OpenSuite, Suite
from bench.table import print_outcome
from bench.work import run_apart

_LEAST_ROUNDS = 3
_NOT_MEASURED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    with _workplace(options.dir) as place, _open_suite(options, place.parent) as suite:
        if options.svg is not None and not suite.panels:
            raise SystemExit(f"the suite {suite.name} has no chart: leave out --svg")
        outcome = replace(run_suite(suite, place, options.rounds, options.only), quick=options.quick)
    print_outcome(outcome, sys.stderr if options.json == "-" else sys.stdout)
    if options.json is not None:
        write_json(outcome, options.json)
    if options.svg is not None:
        options.svg.write_text(draw_chart(describe_outcome(outcome)))
    return _NOT_MEASURED if outcome.missing else 0


def _open_suite(options: argparse.Namespace, beside: Path) -> AbstractContextManager[Suite]:
    if options.suite == "databases":
        return open_databases_suite(beside, options.quick, options.queued, options.growth)
    return _suites()[options.suite](beside, options.quick)


def _suites() -> Mapping[str, OpenSuite]:
    return {
        "commands": open_commands_suite,
        "databases": open_databases_suite,
        "engine": open_engine_suite,
        "http": open_http_suite,
        "jobs": open_jobs_suite,
        "peers": open_peers_suite,
        "real": open_real_suite,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Ganger beside its peers in one run. A goal is the ratio of two medians.",
        epilog="Exit code: 0 when all was measured (a goal that is not met is printed as not met), 2 when something "
        "could not be: a line says what to install.",
    )
    parser.add_argument(
        "suite",
        choices=sorted(_suites()),
        help="commands: `true` beside xargs and parallel, goal 7; databases: PostgreSQL beside "
        "PgQueuer and Procrastinate, goals 4, 12; engine: the engine alone, goals 1, 2, 3, 6, 12, 13; "
        "http: the API beside servers that only echo, goal 8; "
        "jobs: websocket workers beside the same frames without jobs, goal 9; "
        "peers: whole systems with their workers, and commands, goals 1, 2, 3, 5, 7, 14; "
        "real: tasks that take a while, on two nodes and in bursts, goals 15, 16, 17, 18",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="also write the outcome as one JSON object; - is standard output"
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="also draw the suite's chart, if it has one")
    parser.add_argument("--rounds", type=_rounds, default=_LEAST_ROUNDS, help="alternating rounds, at least 3")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a look, not a figure to publish")
    parser.add_argument("--only", metavar="TEXT", help="run only the loads with this text in a figure's key")
    parser.add_argument("--queued", metavar="N", type=int, help="databases: so many tasks in the deep queue")
    parser.add_argument("--growth", metavar="MINUTES", type=float, help="databases: also look how tables grow")
    parser.add_argument(
        "--dir", type=Path, default=Path(tempfile.gettempdir()), help="where to write; must be on a disk"
    )
    return parser


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < _LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"a median needs at least {_LEAST_ROUNDS} rounds")
    return rounds


def _leave(_signal: int, _frame: object) -> NoReturn:
    """Leave by an exception, so that servers are stopped and folders removed."""
    raise SystemExit(128 + signal.SIGTERM)


@contextmanager
def _workplace(directory: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=directory)).resolve()
    try:
        yield place
    finally:
        shutil.rmtree(place)


def run_suite(suite: Suite, place: Path, rounds: int, only: str | None) -> Outcome:
    machine = describe_machine(place)
    if has_no_disk(machine):
        print(f"{place} lies in memory, where a sync costs nothing: use --dir", file=sys.stderr)
    for reason in dict.fromkeys(load.missing for load in suite.loads if load.missing is not None):
        print(reason, file=sys.stderr)
    with _progress() as tell:
        loads = [leave_out(load, only) for load in suite.loads]
        taken = take_rounds(loads, rounds, partial(run_apart, place=place), tell)
    taken = {**taken, **{each.figure.key: derive(each, taken) for each in suite.derived}}
    verdicts = [judge(goal, taken) for goal in suite.goals]
    return Outcome(suite.name, machine, suite.settings, tuple(taken.values()), verdicts, suite.panels)


def leave_out(load: Load, only: str | None) -> Load:
    if only is None or any(only in figure.key for figure in load.figures):
        return load
    return Load(load.figures, load.work, load.preparation, missing=f"left out by --only {only}")


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """One line that is written over on a terminal, and a line for each step elsewhere."""
    if not sys.stderr.isatty():
        yield partial(print, file=sys.stderr, flush=True)
        return
    width = shutil.get_terminal_size().columns - 1
    try:
        yield lambda text: _write_over(text[:width])
    finally:
        _write_over("")


def _write_over(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
