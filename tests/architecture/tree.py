"""Where the checked files are, and what an offence looks like."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ganger"
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"


class Offence(NamedTuple):
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, ast.Module]]:
    """Each Python file below the folder, by its path in the repository, parsed."""
    for path in sorted(folder.rglob("*.py")):
        yield name_of(path), ast.parse(path.read_text(), filename=str(path))


def kept_files() -> list[Path]:
    """The files that are, or would be, in the repository; outside of one, whatever lies in no hidden folder."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = map(ROOT.joinpath, listed.stdout.splitlines()) if listed.returncode == 0 else _unhidden_files()
    return [path for path in found if path.is_file()]


def _unhidden_files() -> Iterator[Path]:
    return (path for path in ROOT.rglob("*") if not any(part[0] == "." for part in path.relative_to(ROOT).parts))


def tell(offences: list[Offence]) -> str:
    return "\n".join(map(str, offences))
