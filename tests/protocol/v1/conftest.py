"""Stories are told on the store that they name; with GANGER_TEST_DOORS=all on each, and `mongo,postgres` on those."""

from pathlib import Path

import pytest

from tests.protocol.doors import CHOSEN, stand_on_each


@pytest.fixture(autouse=True, params=CHOSEN or None)
def _ground(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_on_each(request, tmp_path, monkeypatch)
