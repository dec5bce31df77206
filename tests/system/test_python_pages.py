"""The Python of the README and of the documents runs: the blocks of a page, one after another, are one program."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXTS: Final = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
PAGES: Final = [page for page in TEXTS if BLOCK.search(page.read_text())]
pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / f"{page.stem.replace('-', '_').lower()}_page.py"
    program.write_text("\n\n".join(BLOCK.findall(page.read_text())))

    ran = subprocess.run(
        [sys.executable, "-W", "error", program], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )

    assert ran.returncode == 0, ran.stderr
