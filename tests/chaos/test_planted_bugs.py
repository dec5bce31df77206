"""The tests are tested: with any of these bugs in the package, those that are named for it fail, and only with it.

At the end a table says which bug was caught by what. A bug that survives is a hole in the tests: they get a new one.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import ganger
from tests.chaos.harness_planted import ROOT, Bug, Run, copy_package, find_strays, plant, run_tests
from tests.chaos.planted import BUGS

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

PATIENCE: Final = 380.0
"""Seconds for all the named tests at once, on a machine that has other things to do."""


class Sound(NamedTuple):
    """The package as it is, copied, and what the named tests say to it."""

    package: Path
    run: Run


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    folder = tmp_path_factory.mktemp("sound")
    package = copy_package(ROOT / "src" / "ganger", folder, "__pycache__")
    named = sorted({test for bug in BUGS for test in bug.caught_by})
    return Sound(package, run_tests(named, package, PATIENCE))


@pytest.fixture(scope="module")
def caught(request: pytest.FixtureRequest) -> Iterator[dict[str, Run]]:
    """What was caught so far, and by what; shown when all is done."""
    runs: dict[str, Run] = {}
    yield runs
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        print("", *draw_table(runs), sep="\n")


def draw_table(runs: dict[str, Run]) -> list[str]:
    width = max(map(len, runs), default=0)
    rows = [f"{name:{width}}  {run.seconds:5.1f} s  {_name_catchers(run)}" for name, run in runs.items()]
    return [f"{len(runs)} of {len(BUGS)} planted bugs were caught", *rows]


def _name_catchers(run: Run) -> str:
    return ", ".join(dict.fromkeys(failed.split("::")[-1].split("[")[0] for failed in run.failed))


def test_without_a_bug_every_named_test_passes(sound: Sound) -> None:
    assert sound.run.code == pytest.ExitCode.OK, sound.run.output


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug, sound: Sound, caught: dict[str, Run], tmp_path: Path) -> None:
    assert not [test for test in bug.caught_by if sound.run.is_red(test)], "red without the bug"
    package = copy_package(sound.package, tmp_path)
    plant(bug, package)

    run = run_tests(bug.caught_by, package)

    assert run.code == pytest.ExitCode.TESTS_FAILED, f"the bug survives, or nothing was run\n{run.output}"
    assert run.objects, f"it fails for another reason\n{run.output}"
    assert [test for test in bug.caught_by if not run.is_red(test)] == [], "green with the bug"
    caught[bug.name] = run


def test_every_bug_has_a_name_of_its_own_and_a_test_that_catches_it() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert all(bug.caught_by and bug.old != bug.new for bug in BUGS)


@pytest.mark.parametrize("text", ["a = 2", "a = 1; a = 1"])
def test_a_patch_that_does_not_fit_exactly_once_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(text)

    with pytest.raises(AssertionError, match=r"module\.py has moved"):
        plant(Bug("a bug", "module.py", "a = 1", "a = 3", ("tests",)), tmp_path)


def test_modules_from_elsewhere_are_found(tmp_path: Path) -> None:
    assert find_strays(Path(ganger.__file__).parent) == []
    assert "ganger" in find_strays(tmp_path)
