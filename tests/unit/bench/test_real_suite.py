"""The suite of real work is whole, and what it computes by itself is right."""

from __future__ import annotations

import inspect
import math
import statistics
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from bench import tally
from bench.place import Place, announce
from bench.real.bursts import Mix
from bench.real.tasks import call_nap, call_report
from bench.real.times import MEDIAN, draw_times, schedule
from bench.real.urgent import Note, find_lags, read_notes
from bench.suites.peers import Servers
from bench.suites.real import ENTRANTS, QUICK, Sizes, real_suite
from bench.suites.suite import Suite
from bench.work import resolve

_SERVERS = Servers(Place("", "redis", "postgres"), {})


def whole_suite(servers: Servers = _SERVERS) -> Suite:
    return real_suite(Sizes(), servers)


def keys_of(suite: Suite) -> list[str]:
    return [figure.key for load in suite.loads for figure in load.figures]


def test_every_goal_stands_on_figures_of_the_suite_and_no_two_share_a_key() -> None:
    suite = whole_suite()
    keys = keys_of(suite)
    assert {key for goal in suite.goals for key in (goal.ours, goal.beside) if key is not None} <= set(keys)
    assert len(keys) == len(set(keys))


def test_the_suite_measures_the_goals_it_names() -> None:
    assert [goal.number for goal in whole_suite().goals] == [15] * 4 + [16] * 4 + [17] * 8 + [18] * 4


def test_every_peer_has_a_goal_beside_it() -> None:
    beside = {(goal.ours, goal.beside) for goal in whole_suite().goals if goal.number == 18}
    pairs = {tuple(str(key).partition(".")[0] for key in pair) for pair in beside}
    assert pairs == {
        ("ganger", "huey_sqlite"), ("ganger", "dramatiq"), ("ganger_postgres", "pgqueuer"),
        ("ganger_postgres", "dramatiq"),
    }  # fmt: skip


@pytest.mark.parametrize("sizes", [Sizes(), QUICK])
def test_every_function_takes_what_the_suite_gives(sizes: Sizes) -> None:
    for load in real_suite(sizes, _SERVERS).loads:
        inspect.signature(resolve(load.work.target)).bind(Path(), **load.work.arguments)


def test_every_entrant_has_a_module_and_as_many_workers_and_its_settings_are_told() -> None:
    suite = whole_suite()
    places = [load.work.arguments["place"] for load in suite.loads if "place" in load.work.arguments]
    assert [place.workers for place in places] == [8] * len(ENTRANTS)
    assert all(find_spec(f"bench.contenders.{entrant.module}") is not None for entrant in ENTRANTS)
    assert {entrant.title for entrant in ENTRANTS} - {"Ganger"} <= set(suite.settings)


def test_without_a_server_its_loads_are_not_measured_instead_of_dropped() -> None:
    suite = whole_suite(Servers(Place(""), {"postgres": "install it"}))
    missing = {figure.key for load in suite.loads if load.missing for figure in load.figures}
    assert missing == {key for key in keys_of(suite) if "postgres" in key or "pgqueuer" in key}
    assert len(suite.goals) == len(whole_suite().goals)


def test_run_times_are_log_normal_with_some_of_the_longest_and_always_the_same() -> None:
    times = draw_times(200, 5.0)
    assert times == draw_times(200, 5.0) != sorted(times)
    assert statistics.median(times) == pytest.approx(MEDIAN, rel=0.05)
    assert times.count(5.0) == max(times.count(each) for each in times) == 2
    assert statistics.stdev(map(math.log, islice(sorted(times), 198))) == pytest.approx(1.9, rel=0.1)


def test_a_schedule_gives_each_task_in_its_turn_to_the_machine_that_is_free_first() -> None:
    assert schedule([3.0, 1.0, 1.0, 2.0, 4.0], 2) == 7.0
    assert schedule([5.0, 1.0, 1.0, 1.0], 4) == 5.0
    assert schedule([1.0, 2.0, 3.0], 1) == 6.0
    times = draw_times(200, 5.0)
    assert sum(times) / 4 <= schedule(times, 4) <= sum(times) / 4 + max(times)


def test_an_urgent_task_is_late_from_the_next_end_of_another_on() -> None:
    notes = [
        Note("end", "before", 9.9), Note("end", "long-1", 11.0), Note("end", "long-2", 12.0),
        Note("begin", "urgent-0", 11.03), Note("end", "urgent-0", 11.04),
    ]  # fmt: skip
    assert find_lags(notes, {"urgent-0": 10.0}) == pytest.approx([0.03])


def test_an_urgent_task_that_found_a_free_slot_is_late_from_its_acknowledgement_on() -> None:
    notes = [Note("begin", "urgent-0", 10.2), Note("end", "urgent-0", 10.21), Note("end", "long-1", 11.0)]
    assert find_lags(notes, {"urgent-0": 10.0}) == pytest.approx([0.2])
    assert find_lags(notes, {"urgent-0": 10.25}) == [0.0], "it began before the submit had returned"


def test_a_note_that_is_half_written_is_not_read() -> None:
    assert read_notes("begin long-1 5.000001\nend long-1 5.5\nbegin lo") == [
        Note("begin", "long-1", 5.000001), Note("end", "long-1", 5.5),
    ]  # fmt: skip


def test_a_mix_is_a_steady_rate_and_bursts_on_top() -> None:
    mix = Mix(rate=50, seconds=2.0, burst=300, at=(0.5, 1.5))
    assert mix.tasks == 700
    assert list(mix.bursts()) == [(0.5, 300), (1.5, 300)]
    steady = list(mix.steady())
    assert (len(steady), steady[0], steady[1]) == (100, (0.0, 1), (0.02, 1))


def test_what_had_waited_is_read_but_for_what_only_warmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_PLACE", "{}")
    announce(Place(str(tmp_path)))
    monkeypatch.setattr(tally, "_open_waits", tally._open_waits.__wrapped__)
    monkeypatch.setattr(tally, "_open_tally", tally._open_tally.__wrapped__)
    for sent in (math.nan, -math.inf):
        tally.note_wait(sent)
    assert tally.read_waits(tmp_path) == [math.inf]


def test_a_load_is_made_of_functions_or_of_commands(tmp_path: Path) -> None:
    assert [call_nap(kind, 0.05).kind for kind in ("function", "command")] == ["function", "command"]
    assert [call_report(kind, tmp_path, "a", 1.0).kind for kind in ("function", "command")] == ["function", "command"]
