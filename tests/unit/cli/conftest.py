"""What every test of a command is given."""

from pathlib import Path

import pytest

from tests.unit.cli.console import Console


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.chdir(tmp_path)
    return Console(tmp_path)
