"""A copy of the package with a bug planted in it, and the tests that are run against the copy.

What can go wrong, and why this is right:

The tests run against the package itself and not the copy: then everything is green, and nothing is proven. So the run
looks afterwards where each module came from, and ends with a code of its own if one came from elsewhere.

The patch breaks the code instead of the promise, and the tests fail because a name is unknown. So a run that
speaks of such an error is no catch.

The source has moved, and the patch changes nothing or something else. So its old text must be there exactly once.

A test is red for another reason. So all the tests that are named for a bug are first run on the copy as it is.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
STRAYED: Final = 70
"""How a run ends that did not import the copy, or not only."""

_PATIENCE: Final = 60.0
_ONE_TEST: Final = 20
_BROKEN_CODE: Final = re.compile(r"\b(?:Name|Attribute|Type|Import|Syntax|UnboundLocal|Indentation)Error\b")
_FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)


class Bug(NamedTuple):
    """A patch of one place, and the tests each of which must notice it."""

    name: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...]


class Run(NamedTuple):
    """How the tests ended: the code of pytest, which of them failed, what was said, how long it took."""

    code: int
    failed: tuple[str, ...]
    output: str
    seconds: float

    @property
    def broken(self) -> str | None:
        """The error that tells of code which does not work at all."""
        found = _BROKEN_CODE.search(self.output)
        return None if found is None else found.group()


def copy_package(source: Path, folder: Path) -> Path:
    """Copy the package into the folder, compiled files and times included, so that the copy is imported as quickly."""
    package = folder / "ganger"
    shutil.copytree(source, package)
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


def run_tests(tests: Iterable[str], package: Path, scratch: Path) -> Run:
    """Run the tests in a process of its own, which imports the package from there."""
    command = [sys.executable, "-m", "tests.chaos.harness_planted", str(package), str(scratch), *tests]
    environment = os.environ | {
        "PYTHONPATH": str(package.parent),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
    }
    scratch.mkdir()
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
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
        "-q", "--tb=short", "-rf", "-p", "no:cacheprovider", f"--basetemp={scratch}/tmp",
        "-o", f"pythonpath={folder} {ROOT}", "-o", f"timeout={_ONE_TEST}",
    ]  # fmt: skip
    code = pytest.main([*options, *tests])
    if strays := find_strays(Path(package)):
        print(f"imported from elsewhere: {', '.join(strays)}")
        return STRAYED
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
