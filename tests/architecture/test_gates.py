"""The gates themselves: each rule of the linters is shown a violation, and must refuse it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGE, ROOT

BIN = Path(sys.executable).parent


def lint(code: str, file: str) -> str:
    """What ruff says about the code if it stood in that file."""
    ran = subprocess.run(
        [BIN / "ruff", "check", "--no-cache", "--output-format=concise", f"--stdin-filename={ROOT / file}", "-"],
        input=code, capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    return ran.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import time\n\nNOW = time.time()\n",
        "from time import monotonic_ns\n\nNOW = monotonic_ns()\n",
        "from datetime import UTC, datetime\n\nNOW = datetime.now(UTC)\n",
        "import random\n\nN = random.random()\n",
        "import secrets\n\nN = secrets.token_bytes(8)\n",
        "import uuid\n\nN = uuid.uuid4()\n",
        "import os\n\nN = os.urandom(8)\n",
        "import os\n\nHOME = os.environ['HOME']\n",
        "from os import getenv\n\nHOME = getenv('HOME')\n",
        "import time\n\ntime.sleep(1)\n",
    ],
)
def test_time_randomness_and_environment_are_banned(code: str) -> None:
    assert "TID251" in lint(code, "src/ganger/engine/planted.py")


@pytest.mark.parametrize(
    ("code", "file"),
    [
        ("import time\n\nNOW = time.time()\n", "src/ganger/runtime/clock.py"),
        ("import secrets\n\nN = secrets.token_bytes(8)\n", "src/ganger/runtime/entropy.py"),
        ("import os\n\nHOME = os.environ['HOME']\n", "src/ganger/assembly/settings.py"),
    ],
)
def test_each_is_allowed_in_its_one_place(code: str, file: str) -> None:
    assert "TID251" not in lint(code, file)


def test_a_tangled_function_is_refused() -> None:
    branches = "".join(f"    if n == {n}:\n        n += 1\n" for n in range(9))

    assert "C901" in lint(f"def tangle(n: int) -> int:\n{branches}    return n\n", "src/ganger/core/planted.py")


def test_a_swallowed_exception_is_refused() -> None:
    code = "def swallow() -> None:\n    try:\n        print\n    except Exception:\n        pass\n"

    assert "S110" in lint(code, "src/ganger/core/planted.py")


def lint_imports(folder: Path, planted: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What import-linter says about a copy of the package with these files put into it."""
    package = folder / "src" / "ganger"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file, code in planted.items():
        _plant(package, package / file, code)
    script = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", script, "--no-cache", "--no-logo"],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip


def _plant(package: Path, path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.parents:
        if folder.is_relative_to(package):
            (folder / "__init__.py").touch()
    path.write_text(code)


def test_the_package_as_it_is_passes(tmp_path: Path) -> None:
    said = lint_imports(tmp_path, {"core/planted.py": '"""A file that breaks nothing."""\n'})

    assert said.returncode == 0, said.stdout + said.stderr


HIDDEN = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import ganger.runtime.planted\n"


@pytest.mark.parametrize(
    ("planted", "contract"),
    [
        ({"core/a.py": "import ganger.runtime.b\n", "runtime/b.py": ""}, "One downward order"),
        ({"core/a.py": "def f():\n    import ganger.runtime.b\n", "runtime/b.py": ""}, "One downward order"),
        ({"core/a.py": HIDDEN, "runtime/planted.py": ""}, "One downward order"),
        ({"runtime/a.py": "import ganger.databases.b\n", "databases/b.py": ""}, "One downward order"),
        ({"engine/a.py": "import ganger.node.b\n", "node/b.py": ""}, "One downward order"),
        ({"leftovers/a.py": ""}, "One downward order"),
        ({"core/a.py": "import asyncio\n"}, "core and wire do no IO"),
        ({"wire/a.py": "import socket\n"}, "core and wire do no IO"),
        ({"engine/a.py": "import ganger.engine.stores.b\n", "engine/stores/b.py": ""}, "Only assembly names"),
        ({"testing/a.py": "import ganger.engine.blobs.b\n", "engine/blobs/b.py": ""}, "Only assembly names"),
        ({"engine/stores/a.py": "import ganger.engine.stores.b\n", "engine/stores/b.py": ""}, "Stores do not know"),
        (
            {"engine/blobs/memory.py": "import ganger.engine.blobs.files\n", "engine/blobs/files.py": ""},
            "Places for blobs",
        ),
        ({"node/executors/a.py": "import ganger.node.executors.b\n", "node/executors/b.py": ""}, "Executors do not"),
        ({"faces/v1/a.py": "import ganger.faces.jobs.b\n", "faces/jobs/b.py": ""}, "Faces do not"),
        ({"engine/a.py": "import apsw\n"}, "A database driver"),
        ({"databases/a.py": "import sqlite3\n"}, "One SQLite library"),
        ({"core/a.py": "import ganger.core.b\n", "core/b.py": "import ganger.core.a\n"}, "No cycles"),
    ],
)
def test_an_import_against_the_rule_is_refused(tmp_path: Path, planted: dict[str, str], contract: str) -> None:
    said = lint_imports(tmp_path, planted)

    assert said.returncode != 0
    assert any(line.startswith(contract) and "BROKEN" in line for line in said.stdout.splitlines()), said.stdout


def test_assembly_may_name_a_store(tmp_path: Path) -> None:
    planted = {"assembly/planted.py": "import ganger.engine.stores.b\n", "engine/stores/b.py": ""}

    assert lint_imports(tmp_path, planted).returncode == 0
