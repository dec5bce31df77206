"""The peers suite is whole: its goals have figures, and its loads call functions that exist as they are."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.contender import Contender, find_contender
from bench.peers.settings import RedisSettings
from bench.place import Place
from bench.suites.commands import Sizes as CommandSizes
from bench.suites.commands import commands_suite
from bench.suites.peers import ENTRANTS, QUICK, Entrant, Servers, Sizes, join, peers_suite
from bench.suites.suite import Suite
from bench.work import resolve

_SERVERS = Servers(Place("", "redis", "postgres"), {})


def whole_suite(servers: Servers = _SERVERS) -> Suite:
    return join(peers_suite(Sizes(), servers), commands_suite(CommandSizes()))


def keys_of(suite: Suite) -> list[str]:
    return [figure.key for load in suite.loads for figure in load.figures] + [each.figure.key for each in suite.derived]


def test_every_goal_and_every_panel_stands_on_figures_of_the_suite() -> None:
    suite = whole_suite()
    needed = {key for goal in suite.goals for key in (goal.ours, goal.beside) if key is not None}
    drawn = {key for panel in suite.panels for key in (*panel.keys, *panel.upper.values())}
    parts = {key for each in suite.derived for key in each.parts}
    assert needed | drawn | parts <= set(keys_of(suite))


def test_no_two_figures_share_a_key() -> None:
    keys = keys_of(whole_suite())
    assert len(keys) == len(set(keys))


def test_the_suite_measures_the_goals_it_names() -> None:
    assert [goal.number for goal in whole_suite().goals] == [1, 1, 2, 3, 3, 5, 5, 7, 7, 14, 14]


def test_every_function_takes_what_the_suite_gives() -> None:
    for load in whole_suite().loads:
        inspect.signature(resolve(load.work.target)).bind(Path(), **load.work.arguments)


@pytest.mark.parametrize("sizes", [Sizes(), QUICK])
def test_tasks_divide_evenly_among_producers(sizes: Sizes) -> None:
    for load in peers_suite(sizes, _SERVERS).loads:
        assert load.work.arguments.get("tasks", 0) % load.work.arguments.get("producers", 1) == 0


def test_the_settings_of_every_entrant_are_told() -> None:
    told = " ".join(whole_suite().settings)
    assert all(entrant.title in told for entrant in ENTRANTS)
    assert RedisSettings().parameters["appendonly"] == "no"


def test_without_a_server_its_peers_are_not_measured_instead_of_dropped() -> None:
    suite = whole_suite(Servers(Place(""), {"redis": "install Redis"}))
    missing = {load.figures[0].key.partition(".")[0] for load in suite.loads if load.missing == "install Redis"}
    assert missing == {entrant.module for entrant in ENTRANTS if entrant.server == "redis"}
    assert len(suite.goals) == len(whole_suite().goals)


def test_the_best_peer_that_is_not_durable_is_given_two_syncs() -> None:
    (best,) = whole_suite().derived
    assert "huey_redis.latency.p50" in best.parts
    assert "huey_sqlite.latency.p50" not in best.parts
    assert best.combine([0.25, 3.0, 1.0, 2.0]) == 1.5


@pytest.mark.parametrize("entrant", ENTRANTS, ids=lambda entrant: entrant.module)
def test_every_entrant_has_a_module(entrant: Entrant) -> None:
    assert find_spec(f"bench.contenders.{entrant.module}") is not None


def test_ganger_is_judged_by_what_is_settled() -> None:
    contender = find_contender("ganger")
    assert contender.has_settled is not None
    assert contender.submit_in_bulk is not None
    assert contender.worker[1] == "up"


def test_what_has_no_call_for_many_is_filled_one_by_one() -> None:
    turns: list[object] = []
    Contender((), lambda _body, given: turns.extend(given)).fill(3)
    assert turns == [0, 1, 2]


def test_a_program_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = [load.missing for load in commands_suite(CommandSizes()).loads]
    assert missing == [
        None,
        "xargs is missing: install it (Debian: apt-get install findutils)",
        "parallel is missing: install it (Debian: apt-get install parallel)",
    ]
