"""A copy of the package with a bug planted in it, and the tests that are run against the copy.

What can go wrong, and why this is right:

The tests run against the package itself and not the copy: then everything is green, and nothing is proven. So the run
looks afterwards where each module came from, and ends with a code of its own if one came from elsewhere.

The tests fail, but not because a promise is broken: a name is unknown, a path too long, a test too slow. So only a
test that states what is not as it must be has caught something.

The source has moved, and the patch changes nothing or something else. So its old text must be there exactly once.

A test is red for another reason. So all the tests that are named for a bug are first run on the copy as it is.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
STRAYED: Final = 70
"""How a run ends that did not import the copy, or not only."""

_ONE_TEST: Final = 90
_FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)
_OBJECTION: Final = re.compile(r"^E +(?:assert |AssertionError|Failed: (?!Timeout)).*", re.MULTILINE)


class Bug(NamedTuple):
    """A patch of one place, and the tests each of which must notice it."""

    name: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...]


class Run(NamedTuple):
    """How tests ended: the code of pytest, which of them failed, what was said, how long it took."""

    code: int
    failed: tuple[str, ...]
    output: str
    seconds: float

    def is_red(self, test: str) -> bool:
        """Did this test fail, or with one of its parameters?"""
        return any(failed == test or failed.startswith(f"{test}[") for failed in self.failed)

    @property
    def objects(self) -> bool:
        """Did every test that failed find something that is not as it must be?"""
        return len(_OBJECTION.findall(self.output)) >= len(self.failed)


def copy_package(source: Path, folder: Path, *but: str) -> Path:
    """Copy the package into the folder. What was compiled is copied too, and still fits, because the times are kept."""
    package = folder / "ganger"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns(*but))
    return package


def plant(bug: Bug, package: Path) -> None:
    """Patch the copy; the old text must be there exactly once."""
    path = package / bug.file
    text = path.read_text()
    found = text.count(bug.old)
    assert found == 1, f"{bug.file} has moved: {bug.old!r} is there {found} times; plant {bug.name!r} anew"
    path.write_text(text.replace(bug.old, bug.new))
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def run_tests(tests: Iterable[str], package: Path, patience: float = 300.0) -> Run:
    """Run the tests in a process of its own, which imports the package from there."""
    began = time.monotonic()
    # The path is as short as it can be, and as long for one run as for another: a socket's address has its limit.
    with tempfile.TemporaryDirectory(prefix="p") as scratch:
        environment = os.environ | {"PYTHONPATH": str(package.parent), "HYPOTHESIS_STORAGE_DIRECTORY": f"{scratch}/h"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos.harness_planted", str(package), scratch, *tests],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience, check=False,
        )  # fmt: skip
    output = done.stdout + done.stderr
    return Run(done.returncode, tuple(_FAILED.findall(output)), output, time.monotonic() - began)


def find_strays(package: Path) -> list[str]:
    """Modules of ours that were imported from another place; all of them, if none was imported from this one."""
    places = {
        name: Path(module.__file__ or "")
        for name, module in sys.modules.items()
        if name.split(".")[0] == "ganger" and getattr(module, "__file__", None)
    }
    return [name for name, place in places.items() if not place.is_relative_to(package)] or (["all"] * (not places))


def main(package: str, scratch: str, tests: Sequence[str]) -> int:
    folder = Path(package).parent
    options = [
        "-q", "--tb=short", "-rf", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--basetemp={scratch}/t",
        "-o", f"pythonpath={folder} {ROOT}", "-o", f"timeout={_ONE_TEST}",
    ]  # fmt: skip
    code = pytest.main([*options, *tests])
    if strays := find_strays(Path(package)):
        print(f"imported from elsewhere: {', '.join(strays)}")
        return STRAYED
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
