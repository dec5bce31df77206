"""On which store a story is told: its own one, or with GANGER_TEST_DOORS each that it names, or `all`."""

import os
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import pytest

from ganger.assembly.location import Location, locate_own
from ganger.assembly.settings import Settings

STORES: Final = ("memory", "sqlite", "postgres", "mongo", "mongo_replica")
_ASKED: Final = os.environ.get("GANGER_TEST_DOORS", "")
CHOSEN: Final = STORES if _ASKED == "all" else tuple(name for name in _ASKED.split(",") if name)


class Ground:
    """The stores of one test: a folder has the same one each time."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make
        self._known: dict[Path, str] = {}

    def find(self, folder: Path | None) -> str:
        """A site without a folder has a store of its own each time."""
        if folder is None:
            return self._make()
        if folder not in self._known:
            self._known[folder] = self._make()
        return self._known[folder]


class Files(Ground):
    """The same for files: the store of a folder lies in it."""

    def find(self, folder: Path | None) -> str:
        return super().find(None) if folder is None else _name_file(folder)


_GROUND: Final[ContextVar[Ground | None]] = ContextVar("ground", default=None)


def choose_store(folder: Path | None) -> str:
    """The URL of the store of a site: as the door's own tests have it, unless another one was asked for."""
    ground = _GROUND.get()
    if ground is not None:
        return ground.find(folder)
    return "memory:" if folder is None else _name_file(folder)


def _name_file(folder: Path) -> str:
    return f"sqlite:{folder / 'tasks.db'}"


def find_own(folder: Path) -> Location:
    """Where a server on the store of this folder keeps what is its own."""
    found = locate_own(Settings(store=choose_store(folder)))
    assert found is not None
    return found


def stand_on_each(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell the test on the store that its parameter names. What a server keeps beside it is in the test's folder."""
    name = getattr(request, "param", None)
    if name in (None, "memory"):
        return
    monkeypatch.chdir(folder)
    ground = Files(_sqlite(folder)) if name == "sqlite" else Ground(request.getfixturevalue(f"{name}_url"))
    token = _GROUND.set(ground)
    request.addfinalizer(lambda: _GROUND.reset(token))


def _sqlite(folder: Path) -> Callable[[], str]:
    def make() -> str:
        place = folder / f"store-{len(list(folder.glob('store-*')))}"
        place.mkdir()
        return _name_file(place)

    return make
