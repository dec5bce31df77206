"""Limits are lowered and never raised; a cgroup is used only where it is really to be had."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ganger.node.isolation import (
    Bounds,
    Cgroups,
    confine,
    find_cgroups,
    is_populated,
    kill_cgroups,
    remove_cgroups,
)
from tests.unit.node.guarded import has_cgroups

needs_cgroups = pytest.mark.skipif(not has_cgroups(), reason="no cgroup (v2) may be made on this machine")


def limits_under(bounds: Bounds) -> list[tuple[int, int]]:
    ask = "import resource as r; print([r.getrlimit(k) for k in (r.RLIMIT_CPU, r.RLIMIT_AS, r.RLIMIT_NOFILE)])"
    done = subprocess.run(
        [sys.executable, "-c", ask], preexec_fn=lambda: confine(bounds), capture_output=True, text=True, check=True
    )
    found: list[tuple[int, int]] = eval(done.stdout)
    return found


def test_limits_are_those_that_were_asked_for() -> None:
    assert limits_under(Bounds(5, 1 << 30, 40)) == [(5, 6), (1 << 30, 1 << 30), (40, 40)]


def test_no_limit_is_raised_above_what_we_have() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits_under(Bounds(files=most + 1000))[2] == (most, most)


def test_no_bounds_are_no_bounds() -> None:
    assert not Bounds()
    assert Bounds(files=0)


@contextmanager
def cgroups() -> Iterator[Cgroups]:
    found = find_cgroups(f"ganger-test-{os.getpid()}")
    assert found is not None
    try:
        yield found
    finally:
        kill_cgroups(found.path)
        while is_populated(found.path):
            time.sleep(0.001)
        remove_cgroups(found.path)


@needs_cgroups
def test_what_is_spawned_inside_a_cell_is_born_there_and_dies_there() -> None:
    with cgroups() as ours:
        cell = ours.lend()
        cell.enter()
        process = subprocess.Popen(["sh", "-c", "sleep 100 & sleep 100 & wait"])
        ours.leave()
        assert process.pid in cell.members()
        assert os.getpid() not in cell.members()
        assert not cell.is_empty()
        cell.kill()
        process.wait()
        while not cell.is_empty():
            time.sleep(0.001)
        ours.give_back(cell)


@needs_cgroups
def test_a_cell_is_used_again_only_if_it_is_as_new() -> None:
    with cgroups() as ours:
        first = ours.lend()
        ours.give_back(first)
        assert ours.lend() is first
        os.mkdir(f"{ours.path}/{_only_cell(ours)}/inner")
        ours.give_back(first)
        second = ours.lend()
        assert second is not first
        with open(f"{ours.path}/{_only_cell(ours)}/cgroup.freeze", "w", encoding="ascii") as file:
            file.write("1")
        ours.give_back(second)
        third = ours.lend()
        assert third is not second
        ours.give_back(third)


def _only_cell(ours: Cgroups) -> str:
    (name,) = [entry.name for entry in os.scandir(ours.path) if entry.is_dir()]
    return name


@needs_cgroups
def test_cells_of_a_dead_guardian_are_emptied_and_removed() -> None:
    with cgroups() as ours:
        cell = ours.lend()
        cell.enter()
        process = subprocess.Popen(["sleep", "100"])
        ours.leave()
        assert is_populated(ours.path)
        kill_cgroups(ours.path)
        process.wait()
        while is_populated(ours.path):
            time.sleep(0.001)
        remove_cgroups(ours.path)
        assert not os.path.exists(ours.path)
    remove_cgroups(ours.path)
    kill_cgroups(ours.path)
