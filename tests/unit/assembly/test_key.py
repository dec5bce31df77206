"""The key of a store's tokens is made once, for one user alone."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ganger.assembly.key import open_key, read_key
from ganger.assembly.location import Location
from ganger.core.errors import NotAuthenticated, StoreError
from ganger.core.token import KEY_BYTES
from ganger.runtime.entropy import SystemEntropy

ENTROPY = SystemEntropy()


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(tmp_path / "tasks.db", tmp_path / "blobs")


def test_the_key_is_made_once_and_for_this_user_alone(location: Location) -> None:
    key = open_key(location, ENTROPY)

    assert len(key) == KEY_BYTES
    assert open_key(location, ENTROPY) == read_key(location) == key
    assert stat.S_IMODE(location.key.stat().st_mode) == 0o600


def test_nodes_that_start_at_once_have_one_key(location: Location) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: open_key(location, ENTROPY), range(40)))

    assert keys == {read_key(location)}


def test_a_key_that_was_cut_short_is_made_anew(location: Location) -> None:
    location.key.write_bytes(b"half")

    with pytest.raises(NotAuthenticated):
        read_key(location)
    assert open_key(location, ENTROPY) == read_key(location)


def test_where_no_node_has_worked_there_is_no_key(location: Location) -> None:
    with pytest.raises(NotAuthenticated):
        read_key(location)
    assert not location.key.exists()


def test_a_link_in_place_of_the_key_is_not_followed(location: Location, tmp_path: Path) -> None:
    location.key.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError):
        open_key(location, ENTROPY)
    with pytest.raises(StoreError):
        read_key(location)
    assert not (tmp_path / "elsewhere").exists()


def test_a_store_without_files_has_a_key_of_its_own() -> None:
    assert open_key(None, ENTROPY) != open_key(None, ENTROPY)
