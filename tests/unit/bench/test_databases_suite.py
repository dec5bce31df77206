"""The suite of databases is whole: its goals have figures, and its loads call functions as they are."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.suites.databases import Sizes, databases_suite, open_databases_suite
from bench.suites.mongodb import MongoParts, MongoSizes
from bench.suites.suite import Suite
from bench.work import resolve

GROWN = Sizes(growth_minutes=1.0)
MONGO = MongoParts(MongoSizes(), "mongodb://127.0.0.1:1", None)


def keys_of(suite: Suite) -> list[str]:
    return [figure.key for load in suite.loads for figure in load.figures]


def test_every_goal_stands_on_figures_of_the_suite() -> None:
    suite = databases_suite(GROWN, "socket")
    needed = {key for goal in suite.goals for key in (goal.ours, goal.beside) if key is not None}
    assert needed <= set(keys_of(suite))
    assert {goal.number for goal in suite.goals} == {4, 12}


def test_no_two_figures_share_a_key() -> None:
    keys = keys_of(databases_suite(GROWN, "socket"))
    assert len(keys) == len(set(keys))


def test_growth_is_looked_at_only_when_asked_for() -> None:
    assert "ganger.growth" not in keys_of(databases_suite(Sizes(), "socket"))
    assert "ganger.growth" in keys_of(databases_suite(GROWN, "socket"))


def test_a_missing_server_is_said_of_every_load() -> None:
    suite = databases_suite(Sizes(), "", "PostgreSQL is missing")
    assert {load.missing for load in suite.loads} == {"PostgreSQL is missing"}


def test_mongodb_is_measured_where_it_is_and_said_to_be_missing_elsewhere() -> None:
    there = keys_of(databases_suite(Sizes(), "socket", None, MONGO))
    assert len(there) == len(set(there))
    assert {"mongo.drain", "mongo.drain.raw", "mongo.nodes.8.fair", "mongo.nodes.8.wake.p99"} <= set(there)
    absent = MongoParts(MongoSizes(), "", "mongod is missing")
    assert {load.missing for load in databases_suite(Sizes(), "socket", None, absent).loads} == {
        None,
        "mongod is missing",
    }


def test_the_loads_call_functions_as_they_are() -> None:
    pytest.importorskip("pgqueuer")
    for load in databases_suite(GROWN, "socket", None, MONGO).loads:
        for work in (load.work, load.preparation):
            if work is not None:
                inspect.signature(resolve(work.target)).bind(Path(), **work.arguments)


def test_the_arguments_say_how_deep_and_how_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.suites.databases.run_server", _no_server)
    monkeypatch.setattr("bench.suites.databases.run_mongo", _no_server)
    with open_databases_suite(tmp_path, True, queued=10_000_000, growth=5) as suite:
        assert suite.settings["sizes"]["deep"] == 10_000_000
        assert suite.settings["sizes"]["growth_minutes"] == 5


def _no_server(*_: object) -> object:
    return nullcontext("socket")
