"""Work runs in a process of its own, and leaves none behind."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bench.work import NotMeasuredError, Work, as_values, explain_missing, run_apart

_MODULE = """
import multiprocessing, os, signal

def answer(folder, value=1.0):
    return value

def pair(folder):
    return 1.0, 2.0

def leave_a_mark(folder):
    (folder / "mark").write_text("here")

def find_mark(folder):
    return float((folder / "mark").exists())

def fail(folder):
    raise ValueError("too bad")

def import_absent(folder):
    import huey_is_not_here

def die(folder):
    os._exit(9)

def leave_a_child(folder):
    child = multiprocessing.Process(target=signal.pause)
    child.start()
    return float(child.pid)

def hang(folder):
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worked.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def test_the_values_of_the_work_come_back(tmp_path: Path) -> None:
    assert run_apart(Work("worked:answer", {"value": 5.0}), tmp_path) == (5.0,)
    assert run_apart(Work("worked:pair"), tmp_path) == (1.0, 2.0)


def test_a_fresh_folder_is_removed_and_a_kept_one_is_shared(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    run_apart(Work("worked:leave_a_mark"), place)
    assert list(place.iterdir()) == []
    run_apart(Work("worked:leave_a_mark", kept="store"), place)
    assert run_apart(Work("worked:find_mark", kept="store"), place) == (1.0,)


def test_a_failure_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match=r"^worked:fail failed: ValueError\('too bad'\)$"):
        run_apart(Work("worked:fail"), tmp_path)


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match=r"^the module huey_is_not_here is missing$"):
        run_apart(Work("worked:import_absent"), tmp_path)


def test_a_death_without_an_answer_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match="died without an answer"):
        run_apart(Work("worked:die"), tmp_path)


def test_work_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match=r"did not end within 0\.1 s"):
        run_apart(Work("worked:hang", timeout=0.1), tmp_path)


@pytest.mark.slow
def test_the_children_of_the_work_are_ended_with_it(tmp_path: Path) -> None:
    (pid,) = run_apart(Work("worked:leave_a_child"), tmp_path)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(pid)).wait(timeout=90)


@pytest.mark.parametrize("module", ["huey", "pgqueuer", "pgqueuer.queries", "asyncpg"])
def test_a_missing_package_comes_with_what_to_do(module: str) -> None:
    assert "uv sync --group bench" in explain_missing(module)


@pytest.mark.parametrize(("returned", "values"), [(None, ()), (1.5, (1.5,)), ((1.0, 2.0), (1.0, 2.0))])
def test_what_a_function_returns_becomes_values(
    returned: float | tuple[float, ...] | None, values: tuple[float, ...]
) -> None:
    assert as_values(returned) == values
