"""The engine suite is whole: its goals have figures, and its loads call functions that exist as they are."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from bench.rounds import Load
from bench.subject import Subject
from bench.suites.engine import Sizes, engine_suite
from bench.work import Work, resolve


def whole_suite_loads() -> tuple[Load, ...]:
    return engine_suite(Sizes(), "socket").loads


def works_of(module: str) -> list[Work]:
    works = [work for load in whole_suite_loads() for work in (load.work, load.preparation) if work is not None]
    return [work for work in works if work.target.startswith(f"{module}:")]


def test_every_goal_stands_on_figures_of_the_suite() -> None:
    suite = engine_suite(Sizes(), "socket")
    keys = {figure.key for load in suite.loads for figure in load.figures}
    needed = {key for goal in suite.goals for key in (goal.ours, goal.beside) if key is not None}
    assert needed <= keys


def test_no_two_figures_share_a_key() -> None:
    keys = [figure.key for load in whole_suite_loads() for figure in load.figures]
    assert len(keys) == len(set(keys))


def test_the_suite_measures_the_goals_it_names() -> None:
    numbers = {goal.number for goal in engine_suite(Sizes(), "socket").goals}
    assert numbers == {1, 2, 3, 6, 12, 13}


def test_tasks_divide_evenly_among_eight_producers() -> None:
    for load in whole_suite_loads():
        assert load.work.arguments.get("tasks", 0) % load.work.arguments.get("producers", 1) == 0


@pytest.mark.parametrize("peer", ["huey", "pgqueuer", "raw_sqlite"])
def test_the_functions_of_a_peer_take_what_the_suite_gives(peer: str) -> None:
    if peer != "raw_sqlite":
        pytest.importorskip(peer)
    works = works_of(f"bench.peers.{peer}")
    assert works
    for work in works:
        inspect.signature(resolve(work.target)).bind(Path(), **work.arguments)


def test_the_contract_of_the_engine_takes_what_the_suite_gives() -> None:
    asked = set()
    for work in works_of("bench.ganger_engine"):
        name = work.target.partition(":")[2]
        asked.add(name)
        inspect.signature(getattr(Subject, name)).bind(None, Path(), **work.arguments)
    assert asked == {name for name in vars(Subject) if not name.startswith("_")}


def test_without_a_server_its_goals_are_not_measured_instead_of_dropped() -> None:
    suite = engine_suite(Sizes(), None, "install PostgreSQL")
    missing = {figure.key for load in suite.loads if load.missing for figure in load.figures}
    assert missing == {"pgqueuer.drain", "pgqueuer.run_in_bulk", "pgqueuer.enqueue"}
    assert len(suite.goals) == len(engine_suite(Sizes(), "socket").goals)
