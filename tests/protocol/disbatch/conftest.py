"""Stories are told in memory, and those that ask most of a store on each; with GANGER_TEST_DOORS=all each on each."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.protocol.doors import CHOSEN, STORES

ENOUGH: Final = CHOSEN or STORES[:1]


@pytest.fixture(params=ENOUGH)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store that no other test has."""
    monkeypatch.chdir(tmp_path)
    return make_url(request, tmp_path)


@pytest.fixture(params=STORES)
def each_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same, on each store."""
    monkeypatch.chdir(tmp_path)
    return make_url(request, tmp_path)


def make_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """What a server keeps beside its store is in the test's own folder."""
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:{folder / 'tasks.db'}"
    make: Callable[[], str] = request.getfixturevalue(f"{request.param}_url")
    return make()
